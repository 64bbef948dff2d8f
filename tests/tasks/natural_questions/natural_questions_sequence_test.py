"""Natural Questions in one sequence: inputs, and a run from raw files to the score."""

import jax
import numpy as np
import pytest
from learning import batch_of, evaluated, learner_of, random_params
from natural_questions_samples import (
    ANN,
    annotation,
    original,
    tokenizer as plain_tokenizer,
)

from etc_jax.data.tokenizers.tokenizer import grown
from etc_jax.datasets.task import find_task
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.models.bert.config import BertConfig
from etc_jax.tasks.natural_questions.labels import LONG, NULL, PLACES, SHORT
from etc_jax.tasks.natural_questions.records import parse

TASK = find_task("natural_questions", "sequence")
WHOLE = {"question_tokens": 4, "stride": 60}
PARTS = {"question_tokens": 4, "stride": 6}


def words():
    return grown(plain_tokenizer(), TASK.tokens)


def record(**changes):
    return parse(original(**{"said": (ANN,), **changes}), lambda *note: None)


def windows(sizes, made=None, **options):
    task = TASK.with_options(options)
    return task.features(made or record(), words(), sizes)


def test_a_whole_article_is_question_and_text_with_its_tags():
    [got] = windows(SequenceSizes(80, 5), **WHOLE)
    used = int(got.example_ids.sum())
    said = " ".join(words().pieces(got.tokens[:used]))
    assert said.startswith("[CLS] who built the mill [SEP] [tag] the mill was built")
    assert said.endswith("river [/tag] [/tag] [SEP]") and said.count("[SEP]") == 2
    # The words of candidates, each with its candidate.
    shown = sorted({w for w in got.word.tolist() if w >= 0})
    assert shown == [*range(3, 12), *range(14, 34)]
    assert set(got.candidate[got.word >= 14].tolist()) == {1, 4}
    assert got.global_index.tolist() == [0, 1, 2, 3, 4]
    # [CLS] who built the mill [SEP], then text up to its separator.
    assert got.types[:used].tolist() == [0] * 6 + [1] * (used - 6)
    assert not got.types[used:].any()


def test_labels_are_the_first_and_last_tokens_of_the_answers():
    [got] = windows(SequenceSizes(80, 5), **WHOLE)
    begin, end, first, last = (int(got.labels[name]) for name in PLACES)
    assert got.labels["answer_type"] == SHORT
    assert "".join(words().pieces(got.tokens[begin : end + 1])) == "a##n##n"
    text = words().pieces(got.tokens[first : last + 1])
    assert text[0] == "[tag]" and text[-1] == "[/tag]"


def test_windows_overlap_and_say_what_they_show():
    made = windows(SequenceSizes(20, 5), **PARTS)
    assert [w.number for w in made] == list(range(len(made))) and len(made) > 2
    kinds = [int(w.labels["answer_type"]) for w in made]
    assert kinds[0] in (SHORT, LONG) and kinds[-1] == NULL
    # Together they show every word, in order.
    seen = [x for w in made for x in w.word.tolist() if x >= 0]
    [whole] = windows(SequenceSizes(80, 5), **WHOLE)
    assert set(seen) == {x for x in whole.word.tolist() if x >= 0}
    none = windows(SequenceSizes(80, 5), record(said=(annotation(),)), **WHOLE)
    assert none[0].labels["answer_type"] == NULL


@pytest.mark.parametrize(
    "sizes, message",
    [
        (SequenceSizes(12, 5), "hold 5 of the text beside a question of 4, fewer"),
        (SequenceSizes(80, 4), "global_length is 4, expected 5 at least"),
    ],
)
def test_sizes_without_room_are_named(sizes, message):
    with pytest.raises(ValueError, match=message):
        windows(sizes, **PARTS)


def test_the_loss_is_the_mean_of_five_cross_entropies():
    model = BertConfig(
        vocab_size=words().vocab_size,
        embed_dim=8,
        num_layers=1,
        num_heads=2,
        mlp_dim=16,
        max_length=24,
        attention="dense",
    )
    learner = learner_of(TASK, model)
    batch = batch_of(windows(SequenceSizes(20, 5), **PARTS)[:3], (1, 1, 0))
    assert learner.problems(batch) == []
    loss, _, grads, outputs = evaluated(learner)(random_params(learner), batch)
    outputs = jax.tree.map(np.float64, outputs)
    assert outputs.answer_type.shape == (3, 5) and outputs.span.shape == (3, 20, 4)

    def cross_entropy(logits, target):
        return np.log(np.exp(logits).sum()) - logits[target]

    want = 0.0
    for row in range(2):
        labels = {name: x[row] for name, x in batch["labels"].items()}
        kind = cross_entropy(outputs.answer_type[row], labels["answer_type"])
        ends = [
            cross_entropy(outputs.span[row, :, i], labels[name])
            for i, name in enumerate(PLACES)
        ]
        want += (kind + sum(ends)) / 5 / 2

    np.testing.assert_allclose(loss, want, rtol=1e-5)
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(grads))
