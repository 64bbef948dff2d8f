"""From records to metrics: small models learn every kind of answer."""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from coreference_samples import TON, VALUE
from data_sets import tokenizer_of
from learning import trained
from multihop_samples import HOTPOT, WIKIHOP, small_etc
from natural_questions_samples import annotation, original
from openkp_samples import page
from score_packages import require_for

from etc_jax.datasets.task import find_task
from etc_jax.models.longformer.config import LongformerConfig


def model_for(task, length):
    size = tokenizer_of(task).vocab_size
    if task.format == "structured":
        more = {"embed_dim": 16, "radius": 11, "max_distance": 8, "num_labels": 24}
        return dataclasses.replace(small_etc(size), **more)
    return LongformerConfig(
        vocab_size=size,
        num_types=2,
        embed_dim=16,
        num_layers=1,
        num_heads=2,
        mlp_dim=16,
        max_length=length,
        attention="dense",
        attention_window=(4,),
        dropout_rate=0.0,
    )


def learned(name, values, lengths, *, format="sequence", options=(), **kwargs):
    task = find_task(name, format).with_options(dict(options))
    sizes = type(task.sizes)(*lengths)
    return trained(task, values, sizes, model_for(task, lengths[0]), **kwargs)


def reviews():
    """The last word is the label, too far for the local attention."""
    rng = np.random.default_rng(0)
    words = "the old mill stands it is a town".split()
    texts = (
        " ".join([*rng.choice(words, 14), ("south", "north")[i % 2]]) for i in range(16)
    )
    return [{"id": str(i), "label": i % 2, "text": x} for i, x in enumerate(texts)]


def towns():
    """The answer stands in a document far after it."""
    names = WIKIHOP["candidates"]
    supports = [["the mill is in a town", f"it stands in {x}"] for x in names]
    return [
        {**WIKIHOP, "id": f"w{i}", "query": "country", "answer": names[i % 4]}
        | {"supports": supports[i % 4]}
        for i in range(8)
    ]


def owners():
    """The answer and its evidence, of two paragraphs of three."""
    names = ("Ann Lee", "Norland", "Sudland", "York")
    mill = ["it burned.", "it stands."]
    values = [
        {
            **HOTPOT,
            "_id": f"h{i}",
            "question": "who owned it",
            "answer": names[i % 4],
            "supporting_facts": [["mill", i % 2], ["film", 0]],
            "context": [
                ["ton", ["it is a town.", "in a country."]],
                ["mill", mill[:: 1 - 2 * (i % 2)]],
                ["film", [f"{names[i % 4]} owned it.", "it is old."]],
            ],
        }
        for i in range(8)
    ]
    return [*values[:7], {**values[7], "question": "is it old", "answer": "yes"}]


def articles():
    """The question names the paragraph with the answer."""
    values = []
    for i in range(8):
        who = ("ann", "two", "lake", "song")[i % 4]
        text = f"<P> the mill was built by {who} . </P> <P> the town of river . </P>"
        said = (annotation((0, 9), [(6, 7)]),) * 2
        values.append(original(text, name=i, question=f"who built mill {i}", said=said))
    return values


def pages():
    """Three keyphrases each, by the name that stands before them."""
    values = []
    for i in range(8):
        name, town = (
            ("ann", "lee")[i // 4],
            ("ton", "norland", "sudland", "york")[i % 4],
        )
        thing = ("old mill", "large opera", "film")[i % 3]
        texts = (f"the {thing} stands in {town} .", f"owned by {name}", "it burned .")
        values.append(page(texts, (thing, town, name), url=f"http://x.org/{i}"))
    return values


def questions():
    """The second word of a document is the answer."""
    words = "the old mill stands . it is a town . lee built the mill".split()
    values = []
    for i in range(8):
        name = ("ann", "lee", "owner", "baker")[i % 4]
        text = ["The", name, "was", ("north", "south")[i % 2], ".", *words * 2]
        value = {"Question": "Who was it?", "QuestionId": f"tc_{i}"}
        value["Answer"] = {"NormalizedAliases": [name]}
        value["Documents"] = [{"Filename": f"{i}.txt", "Text": " ".join(text)}]
        values.append(value)
    return values


def documents():
    """Two, of five entities that are mentioned more than once."""
    sentences = [[word for word, _ in sentence] for sentence in TON]
    clusters = [[[0, 0], [2, 3], [4, 4]]]
    return [VALUE, {"doc_key": "b_0", "sentences": sentences, "clusters": clusters}]


class Lesson(NamedTuple):
    """What is learnt.

    Attributes:
      name: of the data set.
      format: of its inputs.
      make: () -> records.
      lengths: of an input.
      metric: that is 1 in the end.
      steps: how many.
      options: of the inputs.
      choices: of what learns them.
      least: the loss of right answers: those that are wanted at once share a softmax,
        and of two inputs of WikiHop one alone tells the answer.
    """

    name: str
    format: str
    make: Callable[[], list]
    lengths: tuple[int, int]
    metric: str
    steps: int = 100
    options: dict[str, Any] = {}
    choices: dict[str, Any] = {}
    least: float = 0.0


SHORT = {"options": {"question_tokens": 6, "stride": 30}}
BEST = {"choices": {"keyphrase_loss": "best"}}
BLOCKS = {"options": {"tokens_per_block": 4}, "choices": {"visual_features": False}}
ENTITIES = {
    "options": {"span_tokens": 6, "candidates": 64},
    # All spans and pairs: so few documents would never bring back a mention that is not
    # kept at the beginning.
    "choices": {"ffnn_dim": 24, "top_ratio": 3.0, "max_antecedents": 32},
}
OF_PAGES = ("openkp", "structured", pages, (24, 6), "F1@3")
OF_ARTICLES = (articles, (48, 12), "average-f1")
THREE, HALF = {"least": np.log(3)}, {"least": np.log(4) / 2}
LESSONS = {
    "reviews": Lesson("imdb", "sequence", reviews, (20, 1), "accuracy", 40),
    "reviews-etc": Lesson("imdb", "structured", reviews, (20, 4), "accuracy", 40),
    "towns": Lesson("wikihop", "sequence", towns, (28, 20), "accuracy", 160, **HALF),
    "owners": Lesson("hotpotqa", "sequence", owners, (60, 24), "joint_em"),
    "articles": Lesson("natural_questions", "sequence", *OF_ARTICLES, **SHORT),
    "articles-etc": Lesson("natural_questions", "structured", *OF_ARTICLES, **SHORT),
    "pages": Lesson("openkp", "sequence", pages, (24, 1), "F1@3", **THREE),
    "pages-etc": Lesson(*OF_PAGES, **THREE),
    "pages-etc-best": Lesson(*OF_PAGES, **BEST, **THREE),
    "pages-etc-blocks": Lesson(*OF_PAGES, **BLOCKS, **THREE),
    "questions-etc": Lesson("triviaqa", "structured", questions, (48, 24), "f1"),
    "entities": Lesson(
        "coreference", "sequence", documents, (24, 1), "conll_f1", 120, **ENTITIES
    ),
}


@pytest.mark.parametrize("lesson", LESSONS)
@pytest.mark.full(but=["reviews", "pages-etc-best"])
def test_answers_are_learnt(lesson):
    lesson = LESSONS[lesson]
    require_for(lesson.name)
    found = learned(
        *(lesson.name, lesson.make(), lesson.lengths),
        format=lesson.format,
        options=lesson.options,
        steps=lesson.steps,
        rate=0.02,
        **lesson.choices,
    )
    first, last = (found.losses[i] - lesson.least for i in (0, -1))
    assert 0.6 < first and abs(last) < 0.005 * first, found.losses
    assert not any(window.unusable for window in found.windows)
    assert found.metrics()[lesson.metric] == 1.0
