"""Documents of Tasks, as a stream and in token caches."""

import json
import subprocess
import sys

import limits
import numpy as np
import pytest
from repository import ROOT
from seqio_samples import (
    CORPORA,
    TFDS_EXAMPLES,
    read,
)

from etc_jax.data.text.sentences import split_sentences
from etc_jax.data.tokenizers.tokenizer import train


def _expected(tokenizer, paragraphs):
    """(tokens, word starts, sentence lengths) of a document."""
    sentences = [s for p in paragraphs for s in split_sentences([p])]
    pairs = [tokenizer.encode_batch([s])[0] for s in sentences]
    return (
        np.concatenate([ids for ids, _ in pairs]),
        np.concatenate([starts for _, starts in pairs]),
        [len(ids) for ids, _ in pairs],
    )


def _flat(documents):
    return (
        np.concatenate([d.tokens for d in documents]),
        np.concatenate([d.word_starts for d in documents]),
        np.concatenate([d.sentence_lengths for d in documents]).tolist(),
        [len(d.sentence_lengths) for d in documents],
    )


def _assert_same_text(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [*TFDS_EXAMPLES, "notes"])
@pytest.mark.full(but=["notes"])
def test_documents_keep_paragraphs_sentences_and_tokens(
    sio, tokenizer, registered, name
):
    documents = read(sio, name)
    if name == "wikipedia":  # the first hundredth is kept for validation
        validation = read(sio, name, "validation")
        assert len(validation) == 2
        documents += validation
    assert documents[0].tokens.dtype == documents[0].sentence_lengths.dtype == np.int32
    assert documents[0].word_starts.dtype == bool
    # TFDS stores examples in an order of its own.
    expected = [_expected(tokenizer, paragraphs) for paragraphs in CORPORA[name]]
    assert _sorted(documents) == _sorted(expected)


def _sorted(documents):
    return sorted(
        (tokens.tolist(), starts.tolist(), list(lengths))
        for tokens, starts, lengths in documents
    )


@pytest.mark.parametrize("name", [*TFDS_EXAMPLES, "notes"])
@pytest.mark.full(but=["notes"])
def test_stream_equals_export_token_for_token(sio, registered, name, tmp_path):
    caches = sio.export.export(name, "train", tmp_path)
    assert list(caches) == [name]
    cache = caches[name]
    offsets, borders = cache.sentence_offsets, cache.document_offsets
    _assert_same_text(
        _flat(read(sio, name)),
        (
            cache.tokens,
            cache.word_starts(0, cache.num_tokens),
            np.diff(offsets),
            np.diff(borders),
        ),
    )
    again = sio.export.export(name, "train", tmp_path)[name]
    assert again.header == cache.header


def test_export_of_a_mixture_is_a_cache_a_task(sio, registered, tmp_path):
    caches = sio.export.export("etc_pretraining", "train", tmp_path)
    counts = {name: cache.num_documents for name, cache in caches.items()}
    assert counts == {"notes": 30, "pg19": 12}
    assert sio.pretraining.rates_of("etc_pretraining") == {"notes": 0.75, "pg19": 0.25}


def test_export_depends_on_the_text_and_says_so(
    sio, tokenizer, registered, notes, tmp_path
):
    sio.export.export("notes", "train", tmp_path)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"text": "Some other text."}) + "\n")
    sio.pretraining.register_files("notes", {"train": other}, tokenizer)
    with pytest.raises(ValueError, match="made differently .*; choose another folder"):
        sio.export.export("notes", "train", tmp_path)


def test_shards_share_the_documents(sio, tokenizer, registered):
    whole = {d.tokens.tobytes() for d in read(sio, "notes")}
    shards = [
        {d.tokens.tobytes() for d in read(sio, "notes", shard=(i, 3), shuffle=True)}
        for i in range(3)
    ]
    assert not shards[0] & shards[1] and not shards[1] & shards[2]
    assert set.union(*shards) == whole and len(whole) > 25
    with pytest.raises(ValueError, match="'notes' has 3 files for 4 shards .* cut the"):
        read(sio, "notes", shard=(0, 4))
    with pytest.raises(ValueError, match=r"shard is \(3, 3\), expected"):
        read(sio, "notes", shard=(3, 3))


@pytest.mark.full
def test_shuffling_depends_on_the_seed_alone(sio, registered):
    def order(seed):
        documents = read(sio, "c4", seed=seed, shuffle=True)
        return [d.tokens.tobytes() for d in documents]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))
    assert order(1) != [d.tokens.tobytes() for d in read(sio, "c4")]


def test_vocabulary_is_that_of_the_tokenizer(sio, tokenizer):
    vocabulary = sio.vocabulary.TokenizerVocabulary(tokenizer)
    assert vocabulary.vocab_size == 200 and vocabulary.pad_id == 0
    text = "every river carried some forest"
    ids = tokenizer.encode_batch([text])[0][0].tolist()
    assert vocabulary.encode(text) == ids
    assert vocabulary.decode(ids) == text
    np.testing.assert_array_equal(vocabulary.encode_tf(text), ids)
    assert vocabulary.decode_tf(sio.tf.constant(ids)).numpy() == text.encode()
    both = vocabulary.decode_tf(sio.tf.constant([ids, ids[::-1]])).numpy()
    assert both.tolist() == [text.encode(), tokenizer.decode(ids[::-1]).encode()]


def test_vocabularies_are_equal_by_content(sio, tokenizer):
    of = sio.vocabulary.TokenizerVocabulary
    other = train(["some other text " * 9] * 9, vocab_size=126, min_char_count=1)
    assert of(tokenizer) == of(tokenizer) and hash(of(tokenizer)) == hash(of(tokenizer))
    assert of(tokenizer) != of(other) and of(tokenizer) != "text"


def test_errors_in_files_name_the_line(sio, tokenizer, registered, tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text('{"text": "Fine."}\n{"texts": "Not fine."}\n')
    sio.pretraining.register_files("bad", {"train": file}, tokenizer)
    with pytest.raises(ValueError, match=r"^\S*bad.jsonl:2: no field 'text'"):
        read(sio, "bad")
    with pytest.raises(ValueError, match=r"^\S*bad.jsonl:2: no field 'text'"):
        sio.export.export("bad", "train", tmp_path)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        sio.pretraining.register_files(
            "none", {"train": tmp_path / "*.gone"}, tokenizer, format="text"
        )


def test_a_closed_stream_says_so(sio, registered):
    stream = sio.streaming.stream_documents("c4", "train", seed=0)
    next(stream)
    stream.close()
    with pytest.raises(ValueError, match="the stream is closed"):
        next(stream)


OPEN_STREAM = """
import sys
from etc_jax.data.tokenizers.tokenizer import train
from etc_jax.tasks.seqio import pretraining as seqio_pretraining
from etc_jax.tasks.seqio import streaming as seqio_streaming

tokenizer = train(["the river runs."] * 30, vocab_size=130, min_char_count=1)
for name in "ab":
    seqio_pretraining.register_files(name, {"train": sys.argv[1:]}, tokenizer)
seqio_pretraining.register_mixture({"a": 1, "b": 2})
stream = seqio_streaming.stream_documents("etc_pretraining", "train", seed=0)
for _ in range(50):
    next(stream)
print("last line")
"""


@pytest.mark.full
def test_a_process_ends_though_a_stream_is_open(sio, tmp_path):
    files = [tmp_path / f"{i}.jsonl" for i in range(4)]
    for file in files:
        row = json.dumps({"text": "The river runs. " * 20})
        file.write_text(f"{row}\n" * 200)
    run = subprocess.run(
        [sys.executable, "-c", OPEN_STREAM, *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=limits.SECS,
    )
    assert (run.returncode, run.stdout) == (0, "last line\n"), run.stderr
