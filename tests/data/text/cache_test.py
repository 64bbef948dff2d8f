import os

import numpy as np
import pytest
from caches_before import without_checksums

from etc_jax.data.text import cache
from etc_jax.data.text.corpus import Document

MADE_BY = {"corpus": "test"}


@pytest.fixture
def built(documents, trained, tmp_path):
    return cache.build_cache(
        documents, trained, tmp_path / "c", made_by=MADE_BY, split_fn=list
    )


def test_the_text_comes_back(built, documents, trained):
    assert built.num_documents == len(documents)
    decoded, sentence_words = [], []
    for s in range(built.num_sentences):
        start, stop = built.sentence_offsets[s : s + 2]
        decoded.append(trained.decode(built.tokens[start:stop]))
        sentence_words.append(int(built.word_starts(start, stop).sum()))
    borders = built.document_offsets
    for d, document in enumerate(documents):
        assert tuple(decoded[borders[d] : borders[d + 1]]) == document.paragraphs
    assert sentence_words == [len(text.split()) for text in decoded]
    assert built.tokens.dtype == np.uint16


def test_word_starts_of_any_range(built):
    whole = built.word_starts(0, built.num_tokens)
    for start in range(0, 20):
        for stop in (start, start + 1, start + 17, built.num_tokens):
            np.testing.assert_array_equal(
                built.word_starts(start, stop), whole[start:stop]
            )


def test_no_documents_give_an_empty_cache(trained, tmp_path):
    made = cache.build_cache([], trained, tmp_path / "c", made_by={})
    assert (made.num_documents, made.num_sentences, made.num_tokens) == (0, 0, 0)


def test_failure_leaves_nothing(trained, tmp_path):
    def failing():
        yield Document("d/0", ("alpha beta",))
        raise RuntimeError("disk gone")

    with pytest.raises(RuntimeError, match="disk gone"):
        cache.build_cache(failing(), trained, tmp_path / "c", made_by={})
    assert os.listdir(tmp_path) == []


def test_id_out_of_range_is_named(built, trained):
    without_checksums(built.path)
    tokens = np.array(built.tokens)
    tokens[5] = trained.vocab_size
    np.save(built.path / "tokens.npy", tokens)
    with pytest.raises(ValueError, match="tokens.npy holds id 145, but the vocab"):
        cache.TokenCache.open(built.path, trained.fingerprint())


@pytest.mark.parametrize("name", ["sentence_offsets", "document_offsets"])
def test_offsets_that_do_not_rise_are_named(built, trained, name):
    without_checksums(built.path)
    offsets = np.array(getattr(built, name))
    offsets[3], offsets[4] = offsets[4] + 1, offsets[3]
    np.save(built.path / f"{name}.npy", offsets)
    with pytest.raises(ValueError, match=f"{name}.npy.* does not rise"):
        cache.TokenCache.open(built.path, trained.fingerprint())
