"""Texts to be classified as structured inputs, and what learns them."""

import jax
import numpy as np
import pytest
from classification_samples import review
from learning import batch_of, evaluated, learner_of, random_params
from multihop_samples import small_etc, split_at_stops, tokenizer

from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks.classification.inputs import features

TEXT = "The mill is old. It burned.\nIt stands in Ton."
SIZES = StructuredSizes(20, 6)


def split(paragraphs):
    return [s for p in paragraphs for s in split_at_stops(p)]


def window(text=TEXT, sizes=SIZES, label=1, **changes):
    made = review(id="r", text=text, label=label, rating=None, **changes)
    [found] = features(made, tokenizer(), sizes, split_fn=split)
    return found


def pieces(ids):
    return tokenizer().pieces(np.asarray(ids).tolist())


def test_each_sentence_has_a_global_token_and_the_first_is_of_the_text():
    made = window()
    words = "[CLS] the mill is old . it burned . it stands in ton .".split()
    assert pieces(made.tokens.long[: len(words)]) == words
    assert not made.tokens.long[len(words) :].any()
    cls, sentence = (tokenizer().special_id(x) for x in ("cls", "sentence"))
    assert made.tokens.global_.tolist() == [cls, *[sentence] * 3, 0, 0]
    links = made.structure.links[: len(words), 0]
    assert links.tolist() == [-1, *[1] * 5, *[2] * 3, *[3] * 5]
    assert made.structure.exempt_g2l.tolist() == [True, *[False] * 5]
    assert made.structure.long_example_ids.tolist() == [1] * 14 + [0] * 6
    assert made.labels["label"] == 1 and made.unusable is None
    assert made.num_chars == len(TEXT)


def test_the_head_of_a_long_text_is_kept():
    made = window(sizes=StructuredSizes(8, 6))
    assert pieces(made.tokens.long) == "[CLS] the mill is old . it burned".split()
    assert TEXT[: made.num_chars] == "The mill is old. It burned"
    assert made.tokens.global_.astype(bool).sum() == 3


def test_sentences_without_a_global_token_share_the_last():
    made = window(sizes=StructuredSizes(20, 3))
    assert made.structure.links[:14, 0].tolist() == [-1, *[1] * 5, *[2] * 8]


def test_what_cannot_be_an_input_is_named():
    assert window(label=None).unusable == "no gold label"
    with pytest.raises(ValueError, match="leave no room for a text"):
        window(sizes=StructuredSizes(20, 1))
    made = review(id="r", text="a", label=0, rating=None)
    with pytest.raises(BadRecordError, match="no text: 'r' has no token"):
        features(made, tokenizer(), SIZES, split_fn=lambda paragraphs: [])


def test_the_loss_is_the_cross_entropy_of_the_global_token():
    learner = learner_of(find_task("imdb", "structured"), small_etc())
    windows = [window(), window("It burned.", label=0), window("Old.", label=1)]
    batch = batch_of(windows, (1, 1, 0))
    assert learner.problems(batch) == []
    run, params = evaluated(learner), random_params(learner)
    loss, sums, grads, outputs = run(params, batch)
    logits = np.float64(outputs)
    assert logits.shape == (3, 2)
    right = logits[[0, 1], [1, 0]]
    want = np.mean(np.log(np.exp(logits[:2]).sum(-1)) - right)
    np.testing.assert_allclose(loss, want, rtol=1e-5)
    assert float(sums["accuracy"][1]) == 2
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(grads))
    # A row of weight 0 changes nothing.
    other = {**batch, "labels": {"label": np.array([1, 0, -1])}}
    np.testing.assert_array_equal(run(params, other)[0], loss)
