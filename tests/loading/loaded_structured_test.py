"""An ETC reads the sentences of a text."""

import jax
import numpy as np
import pytest
from tiny_texts import tiny_etc

import etc_jax
from etc_jax.models.etc.body import Etc
from etc_jax.structure import builders

pytest.importorskip("nupunkt")

# Sentences of 3, 1 and 2 words; the second ends with its paragraph.
TEXT = "Red is green. Blue\n\nThe colour."
IDS = ("red is green", "blue", "the colour")


def alone(model):
    """Hidden states of `TEXT`, whose structure is made by hand."""
    pieces = model.tokenizer.pieces(range(model.tokenizer.vocab_size))
    unknown = pieces.index("[UNK]")
    rows = [[pieces.index(word) for word in part.split()] for part in IDS]
    # A full stop is no piece of the vocabulary.
    rows[0].append(unknown)
    rows[2].append(unknown)
    structure = builders.plain_text([len(row) for row in rows])
    tokens = np.array([sum(rows, [])], np.int32)
    sentences = np.ones((1, 3), np.int32)
    one = jax.tree.map(lambda x: x[None], structure)
    own = {"params": model.params["encoder"]}
    return Etc(model.config).apply(own, tokens, sentences, one)


def test_states_and_vectors_are_those_of_the_structure():
    model = tiny_etc()
    want = alone(model)
    found = model(["", TEXT, "blue"])
    assert found.lengths.tolist() == [0, 8, 1]
    np.testing.assert_allclose(found.states[1], want.long[0], atol=1e-5)
    texts = ["red. " * 9, TEXT, ""]
    means = model.encode(texts)
    np.testing.assert_allclose(means[1], want.long[0].mean(axis=0), atol=1e-5)
    assert not means[2].any()
    got = model.encode(texts, pooling="global")
    np.testing.assert_allclose(got[1], want.global_[0].mean(axis=0), atol=1e-5)
    assert got[2].any()
    assert len(model.inputs_of(texts)[0].global_ids) == 9


def test_a_long_text_is_cut_with_its_sentences():
    model = tiny_etc()
    with pytest.warns(UserWarning, match="1 of 1 texts have more than the 24 tokens"):
        [cut] = model.inputs_of(["red is green. " * 9])
    assert len(cut.ids) == 24 and cut.sentences.tolist() == sorted(list(range(6)) * 4)
    assert len(cut.global_ids) == 6


def test_it_comes_back_and_its_length_is_limited_by_positions_alone(tmp_path):
    model = tiny_etc()
    model.save(tmp_path / "etc")
    back = etc_jax.load(tmp_path / "etc")
    assert back.max_length == 16384
    np.testing.assert_array_equal(back.encode([TEXT]), model.encode([TEXT]))
    with pytest.raises(ValueError, match="EtcConfig has no counterpart"):
        model.save_pretrained(tmp_path / "hf")


def test_what_an_etc_does_not_read_is_told():
    with pytest.raises(ValueError, match="reads the sentences of a text; give texts"):
        tiny_etc().encode([[3, 4]])
    with pytest.raises(ValueError, match="expected mean or global"):
        tiny_etc().encode([TEXT], pooling="cls")
