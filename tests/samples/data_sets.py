"""A row for each data set: a record, its files, and what tests of all of them ask.

A new data set adds a row, and every general test walks it.
"""

import functools
import json
import pathlib
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import classification_samples
import coreference_samples
import multihop_samples
import natural_questions_samples
import openkp_samples
import pytest
import triviaqa_samples
import written_samples

from etc_jax.data.text import sentences
from etc_jax.data.tokenizers.tokenizer import Tokenizer, grown
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.task import Task
from etc_jax.tasks.synthetic import (
    coreference,
    hotpotqa,
    imdb,
    multiple_choice,
    natural_questions,
    openkp,
    squad,
    text_to_text,
    token_classification,
    triviaqa,
    wikihop,
)

TEXTS = ("The old mill stands in Ton. It burned.", "Ann Lee was the owner.")
LABELS = ("a", "b c", "d")
_ENTITIES = ("company", "p", "person", "region", "t", "town")
TAGS = (*(f"{prefix}-{kind}" for prefix in "BI" for kind in _ENTITIES), "O")
WriteFn = Callable[[pathlib.Path, Sequence[Any], str], pathlib.Path]


def in_array(folder: pathlib.Path, values, name="dev") -> pathlib.Path:
    """A JSON array."""
    return multihop_samples.write_json(folder, values, f"{name}.json")


def in_lines(folder: pathlib.Path, values, name="dev") -> pathlib.Path:
    """A JSON value a line, packed."""
    return natural_questions_samples.write_lines(folder / f"{name}.jsonl.gz", values)


class Sample(NamedTuple):
    """What tests have of a data set.

    Attributes:
      value: a record with a gold answer, as `DataSet.parse` takes it.
      gold: the field of the gold answer.
      invented: number -> so many small records, as `write` takes them.
      write: (folder, records, name) -> a file of them.
      release: folder -> the official file of some records; None: one that `write` makes
        of `value`.
      id: the field that tells records apart.
      untrained: why a record without a gold answer is not trained on; a pattern.
      broken: a value of `gold` that is none.
      options: that must be given before anything is read.
      inputs: by format, or for each by None, options with which `value` is an input.
      lengths: of such an input.
    """

    value: dict[str, Any]
    gold: str
    invented: Callable[[int], list[Any]]
    write: WriteFn = in_lines
    release: Callable[[pathlib.Path], Any] | None = None
    id: str = "id"
    untrained: str = "no gold answer"
    broken: Any = 3
    options: dict[str, Any] = {}
    inputs: dict[str | None, dict[str, Any]] = {}
    lengths: tuple[int, int] = (80, 40)


# --- invented records -----------------------------------------------------------------


def _drawn(module, **sizes) -> Callable[[int], list[Any]]:
    """Records of a module of `tasks.synthetic`."""

    def invented(count: int) -> list[Any]:
        given = module.MAKER.sizes(**sizes)
        return list(module.records(count, seed=1, sizes=given))

    return invented


_reviews = _drawn(imdb, words=30)
_pairs = _drawn(text_to_text)
STORIES = _drawn(coreference, persons=2, things=1, sentences=4)


def _labelled(labels: Sequence[Any], **more) -> Callable[[int], list[Any]]:
    """Reviews as records with other labels."""

    def invented(count: int) -> list[Any]:
        return [
            {
                "id": f"{i:07}",
                **more,
                "text": x["text"],
                "label": labels[i % len(labels)],
            }
            for i, x in enumerate(_reviews(count))
        ]

    return invented


def _documents(count: int) -> list[Any]:
    return [
        {
            "doc_key": f"bn/{i}_0",
            "sentences": list(map(list, story.sentences)),
            "speakers": [["Ann"] * len(sentence) for sentence in story.sentences],
            "clusters": [list(map(list, spans)) for spans in story.clusters],
        }
        for i, story in enumerate(STORIES(count))
    ]


def _questions(count: int) -> list[Any]:
    """Of SQuAD, as `written_samples.write_release` takes them."""
    return [
        {"title": article["title"], "context": paragraph["context"], **question}
        for article in squad.records(count, seed=1)
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]


def _as_columns(*names: str) -> Callable[[int], list[Any]]:
    """Pairs of texts under names of their own; a translation has one line."""

    def invented(count: int) -> list[Any]:
        return [
            {
                "id": str(i),
                names[0]: x["input"].replace("\n", " "),
                names[1]: x["target"],
            }
            for i, x in enumerate(_pairs(count))
        ]

    return invented


# --- official files -------------------------------------------------------------------


def _aclimdb(folder):
    texts = dict(zip(("neg/0_1.txt", "pos/1_9.txt"), TEXTS, strict=True))
    return classification_samples.aclimdb(folder, texts)


def _articles(folder):
    names, labels = ("0000001", "0000002"), ("false", "true")
    inside = (f"<p>{text}</p>" for text in TEXTS)
    article, truth = (
        classification_samples.article_xml,
        classification_samples.truth_xml,
    )
    return classification_samples.release(
        folder, list(map(article, names, inside)), list(map(truth, names, labels))
    )


def _conll_2012(folder):
    text = coreference_samples.conll_2012()
    return coreference_samples.write_text(folder, text)


def _conll(folder):
    """Sentences without documents are records."""
    value, path = SAMPLES["token_classification"].value, folder / "dev.conll"
    pairs = zip(value["tokens"], value["tags"], strict=True)
    texts = ("".join(map("{} {}\n".format, *pair)) for pair in pairs)
    path.write_text("\n".join(texts))
    return path


def _quality(folder):
    """Questions stand in their article."""
    question = dict(SAMPLES["multiple_choice"].value)
    article = {"article": question.pop("article")}
    other = {**question, "question_unique_id": "b", "difficult": 0}
    return in_lines(folder, [{**article, "questions": [question, other]}])


# --- the table ------------------------------------------------------------------------

SAMPLES = {
    "hotpotqa": Sample(
        multihop_samples.HOTPOT,
        "answer",
        _drawn(hotpotqa, contexts=4),
        in_array,
        id="_id",
    ),
    "wikihop": Sample(
        multihop_samples.WIKIHOP,
        "answer",
        _drawn(wikihop, contexts=4, candidates=4),
        in_array,
    ),
    "natural_questions": Sample(
        natural_questions_samples.original(
            said=(natural_questions_samples.ANN, natural_questions_samples.ANN)
        ),
        "annotations",
        _drawn(natural_questions, contexts=4),
        id="example_id",
        # The article has several windows.
        inputs={None: {"question_tokens": 4, "stride": 8}},
        lengths=(24, 16),
        untrained="no annotation",
    ),
    "openkp": Sample(
        # With fewer than three keyphrases the precision of three cannot be 1.
        openkp_samples.page(phrases=("old mill", "Ton", "mill burned")),
        "KeyPhrases",
        _drawn(openkp, words=40, mentions=1, others=2),
        id="url",
        untrained="no gold keyphrases",
    ),
    "triviaqa": Sample(
        triviaqa_samples.VALUE,
        "Answer",
        _drawn(triviaqa, contexts=3, apart=10),
        triviaqa_samples.release_of,
        id="QuestionId",
    ),
    "imdb": Sample(
        {**classification_samples.REVIEW, "label": 1},
        "label",
        _labelled((0, 1)),
        release=_aclimdb,
        untrained="no gold label",
    ),
    "hyperpartisan": Sample(
        {**classification_samples.ARTICLE, "label": "true"},
        "label",
        _labelled(("true", "false"), title="T"),
        release=_articles,
        untrained="no gold label",
    ),
    "classification": Sample(
        {"id": "a", "text": "the old mill stands.", "label": "b c"},
        "label",
        _labelled(LABELS),
        broken=[3],
        options={"labels": LABELS},
        untrained="no gold label",
    ),
    "coreference": Sample(
        coreference_samples.VALUE,
        "clusters",
        _documents,
        release=_conll_2012,
        id="doc_key",
        inputs={None: {"candidates": 512}},
        lengths=(96, 1),
        untrained="no gold clusters",
    ),
    "text_to_text": Sample(
        {"id": "a", "input": "who owned the old mill?", "target": "ann lee"},
        "target",
        _pairs,
    ),
    "wmt14_en_de": Sample(
        written_samples.TRANSLATION,
        "de",
        _as_columns("de", "en"),
        release=written_samples.write_pair,
    ),
    "squad": Sample(
        written_samples.QUESTION,
        "answers",
        _questions,
        written_samples.write_release,
        inputs=dict.fromkeys(("sequence", "structured"), {"question_tokens": 16}),
    ),
    "token_classification": Sample(
        {
            "id": "a",
            "tokens": [
                ["ann", "lee", "owned", "it", "."],
                ["who", "burned", "ton", "?"],
            ],
            "tags": [["B-p", "I-p", "O", "O", "O"], ["O", "O", "B-t", "O"]],
        },
        "tags",
        _drawn(token_classification),
        release=_conll,
        options={"labels": TAGS, "scheme": "iob2"},
        untrained="no gold tags",
    ),
    "multiple_choice": Sample(
        {
            "question_unique_id": "a",
            "question": "who owned the mill?",
            "options": ["a baker", "ann lee", "new york"],
            "article": "the old mill stands in ton. ann lee owned the mill.",
            "gold_label": 2,
            "difficult": 1,
        },
        "gold_label",
        _drawn(multiple_choice),
        release=_quality,
        id="question_unique_id",
        untrained="no gold (answer|label)",
        broken=4,
        inputs={"sequence": {"most_options": 4}},
    ),
    "retrieval": Sample(
        {
            "id": "a",
            "query": "who owned it?",
            "passage": "ann lee owned it.",
            "negatives": ["the mill burned."],
        },
        "passage",
        _as_columns("passage", "query"),
    ),
}

FORMATS = [
    (name, format) for name in SAMPLES for format in task_lib.find(name).converters
]


def release_of(name: str, folder: pathlib.Path) -> Any:
    """The path of official files with some records."""
    sample = SAMPLES[name]
    if sample.release is not None:
        return sample.release(folder)
    other = {**sample.value, sample.id: 8 if name == "natural_questions" else "b"}
    return sample.write(folder, [sample.value, other], "dev")


def options_of(name: str, format: str) -> dict[str, Any]:
    """With which the sample is read, and is an input of a format."""
    sample = SAMPLES[name]
    inputs = sample.inputs.get(format, sample.inputs.get(None, {}))
    return sample.options | inputs


def as_texts(options: dict[str, Any]) -> tuple[str, ...]:
    """Options as configs have them."""
    return tuple(
        f"{name}={json.dumps(x) if isinstance(x, tuple) else x}"
        for name, x in options.items()
    )


@functools.cache
def task_of(name: str, format: str | None = None) -> Task:
    """A data set with the options that the sample needs; None: its first format."""
    task = task_lib.find_task(name, format)
    return task.with_options(options_of(name, task.format))


def tokenizer_of(task: Task) -> Tokenizer:
    """A vocabulary for the sample."""
    if task.name != "natural_questions":
        return multihop_samples.tokenizer_for(task)
    made = natural_questions_samples.tokenizer()
    return grown(made, task.tokens) if task.tokens else made


@pytest.fixture
def sentences_at_stops(monkeypatch):
    """Sentences end at full stops: no model is asked."""
    stand_in = types.SimpleNamespace(sent_tokenize=multihop_samples.split_at_stops)
    monkeypatch.setattr(sentences, "_nupunkt", lambda: stand_in)


def windows_of(
    task: Task, without: str = "", model: Tokenizer | None = None, how=None, **changes
) -> list:
    """The sample's windows, without a field or with others; `features` takes `how`."""
    sample = SAMPLES[task.name]
    value = {**sample.value, **changes}
    value.pop(without, None)
    record = task.parse(value, lambda *note: None)
    sizes = type(task.sizes)(*sample.lengths)
    return task.features(record, model or tokenizer_of(task), sizes, **how or {})
