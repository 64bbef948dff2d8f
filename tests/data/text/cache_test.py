import json
import os

import numpy as np
import pytest
from caches_before import without_checksums

from etc_jax.data.text import cache, statistics
from etc_jax.data.text.corpus import Document
from etc_jax.data.tokenizers import tokenizer

MADE_BY = {"corpus": "test"}


def _lines(paragraphs):
    return list(paragraphs)


@pytest.fixture(scope="module")
def documents():
    rng = np.random.default_rng(0)
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "alphabetical"]
    texts = [
        tuple(
            " ".join(rng.choice(words, rng.integers(1, 9)))
            for _ in range(rng.integers(0, 6))
        )
        for _ in range(150)
    ]
    return [Document(f"d/{i}", text) for i, text in enumerate(texts)]


@pytest.fixture(scope="module")
def trained(documents):
    texts = [p for d in documents for p in d.paragraphs]
    return tokenizer.train(texts, vocab_size=145, min_char_count=1)


@pytest.fixture
def built(documents, trained, tmp_path):
    return cache.build_cache(
        documents, trained, tmp_path / "c", made_by=MADE_BY, split_fn=_lines
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


def test_equal_cache_is_reused_without_reading_documents(built, trained):
    def unread():
        raise AssertionError("documents were read")
        yield

    again = cache.build_cache(unread(), trained, built.path, made_by=MADE_BY)
    np.testing.assert_array_equal(again.tokens, built.tokens)


def test_other_cache_is_an_error(built, documents, trained):
    with pytest.raises(ValueError, match="made differently.*choose another folder"):
        cache.build_cache(documents, trained, built.path, made_by={"corpus": "else"})


def test_folder_of_other_files_is_an_error(documents, trained, tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="exists and is not a token cache"):
        cache.build_cache(
            documents, trained, tmp_path / "c", made_by={}, split_fn=_lines
        )
    assert os.listdir(tmp_path) == ["c"]
    assert os.listdir(tmp_path / "c") == ["thesis.txt"]


def test_failure_leaves_nothing(trained, tmp_path):
    def failing():
        yield Document("d/0", ("alpha beta",))
        raise RuntimeError("disk gone")

    with pytest.raises(RuntimeError, match="disk gone"):
        cache.build_cache(failing(), trained, tmp_path / "c", made_by={})
    assert os.listdir(tmp_path) == []


def test_wrong_vocabulary_is_an_error(built):
    with pytest.raises(ValueError, match="made with vocabulary .* in use is feedbeef"):
        cache.TokenCache.open(built.path, "feedbeef")


def test_a_cache_brings_its_own_tokenizer(built, trained):
    opened = cache.TokenCache.open(built.path)
    own = opened.load_tokenizer()
    assert own.fingerprint() == trained.fingerprint()
    assert own.decode(opened.tokens[:50]) == trained.decode(built.tokens[:50])


def test_a_tokenizer_that_did_not_make_the_cache_is_named(built, documents):
    texts = [p for d in documents for p in d.paragraphs]
    other = tokenizer.train(texts, vocab_size=144, min_char_count=1)
    other.save(built.path / "tokenizer.json")
    with pytest.raises(ValueError, match="tokenizer.json is vocabulary .* made with"):
        built.load_tokenizer()
    (built.path / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="tokenizer.json"):
        built.load_tokenizer()
    with pytest.raises(ValueError, match="tokenizer.json is damaged .*No such file"):
        cache.TokenCache.open(built.path)


def test_missing_cache_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="no token cache in .*nowhere"):
        cache.TokenCache.open(tmp_path / "nowhere", "")


@pytest.mark.parametrize(
    "name", ["tokens", "word_bits", "sentence_offsets", "document_offsets"]
)
def test_truncated_file_is_named(built, trained, name):
    file = built.path / f"{name}.npy"
    os.truncate(file, file.stat().st_size - 2)
    with pytest.raises(ValueError, match=f"{name}.npy is damaged"):
        cache.TokenCache.open(built.path, trained.fingerprint())


def test_file_of_another_length_is_named(built, trained):
    without_checksums(built.path)
    np.save(built.path / "tokens.npy", np.zeros(3, np.uint16))
    with pytest.raises(ValueError, match=r"tokens.npy holds uint16\[3\], expected"):
        cache.TokenCache.open(built.path, trained.fingerprint())


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


def test_damaged_or_newer_header_is_named(built, trained):
    file = built.path / "header.json"
    header = json.loads(file.read_text())
    file.write_text(json.dumps(header | {"format_version": 99}))
    with pytest.raises(ValueError, match="format version 99, expected 3"):
        cache.TokenCache.open(built.path, trained.fingerprint())
    file.write_text("{")
    with pytest.raises(ValueError, match="header.json is damaged"):
        cache.TokenCache.open(built.path, trained.fingerprint())


def test_unigram_entropy_of_known_texts():
    assert statistics.unigram_entropy(np.array([7, 7, 7])) == 0.0
    uniform = np.repeat(np.arange(100, dtype=np.uint16), 5)
    assert statistics.unigram_entropy(uniform) == pytest.approx(np.log(100))
    skewed = statistics.unigram_entropy(np.array([1, 1, 1, 2]))
    assert skewed == pytest.approx(-(0.75 * np.log(0.75) + 0.25 * np.log(0.25)))
    with pytest.raises(ValueError, match="no tokens"):
        statistics.unigram_entropy(np.zeros(0, np.uint16))


def test_unigram_entropy_does_not_depend_on_chunks(monkeypatch):
    tokens = np.random.default_rng(0).integers(0, 300, 5000)
    whole = statistics.unigram_entropy(tokens)
    monkeypatch.setattr(statistics, "_CHUNK_TOKENS", 7)
    assert statistics.unigram_entropy(tokens) == pytest.approx(whole, rel=1e-12)
