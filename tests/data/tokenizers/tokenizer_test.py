import json
import os
import pickle

import numpy as np
import pytest
import tokenizers
from tokenizer_samples import (
    BPE_PIECES,
    MERGES,
    SENTENCES,
    WORDPIECES,
    byte_bpe,
    official_model,
    sentence_pieces,
    t5_model,
    wordpiece,
)
from tokenizers import models

from etc_jax.data.tokenizers import tokenizer
from etc_jax.data.tokenizers.encoding import NoUnicodeError, encodings
from etc_jax.data.tokenizers.tokenizer import open_tokenizer

ADDED = ("[q]", "[/q]")
SAMPLES = {
    "wordpiece": wordpiece(),
    "cased wordpiece": wordpiece(lower_case=False, max_word_chars=5),
    "byte-level BPE": byte_bpe(),
    "byte-level BPE with prefix space": byte_bpe(add_prefix_space=True),
    "sentencepiece": sentence_pieces(t5_model()),
    "official sentencepiece": sentence_pieces(
        official_model(), split_digit_commas=True
    ),
    "grown WordPiece": tokenizer.grown(wordpiece(), ADDED),
    "grown BPE": tokenizer.grown(byte_bpe(), ADDED),
    "grown sentencepiece": tokenizer.grown(sentence_pieces(t5_model()), ADDED),
}
TEXTS = [*SENTENCES[:3], "", "The Cat <mask> [MASK] 1,"]
VOCABULARY = {piece: i for i, piece in enumerate(BPE_PIECES)}
FILES = {
    "vocab.txt": "\n".join(WORDPIECES).encode(),
    "vocab.json": json.dumps(VOCABULARY).encode(),
    "encoder.json": json.dumps(VOCABULARY).encode(),
    "merges.txt": "\n".join(" ".join(pair) for pair in MERGES).encode(),
    "vocab.bpe": "\n".join(" ".join(pair) for pair in MERGES).encode(),
    "spiece.model": t5_model(),
}


def _folder(path, *names):
    for name in names:
        (path / name).write_bytes(FILES[name])
    return path


def _same_ids(a, b):
    pairs = zip(a.encode_batch(TEXTS), b.encode_batch(TEXTS), strict=True)
    for (x, xs), (y, ys) in pairs:
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(xs, ys)


@pytest.fixture(params=SAMPLES)
def sample(request):
    return SAMPLES[request.param]


def test_saved_is_loaded_whatever_the_name(sample, tmp_path):
    for name in ("tokenizer.json", ".part-12"):
        sample.save(tmp_path / name)
        for read in (tokenizer.Tokenizer.load, open_tokenizer):
            loaded = read(tmp_path / name)
            assert type(loaded) is type(sample)
            assert loaded.fingerprint() == sample.fingerprint()
            assert loaded.special == sample.special
            _same_ids(loaded, sample)
    assert open_tokenizer(tmp_path).fingerprint() == sample.fingerprint()


def test_saving_twice_writes_the_same_bytes(sample, tmp_path):
    sample.save(tmp_path / "a")
    tokenizer.Tokenizer.load(tmp_path / "a").save(tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_tokenizer_goes_to_other_processes(sample):
    _same_ids(pickle.loads(pickle.dumps(sample)), sample)


def test_one_text_is_encoded_as_among_others(sample):
    for text, (ids, starts) in zip(TEXTS, sample.encode_batch(TEXTS), strict=True):
        ((alone, alone_starts),) = sample.encode_batch([text])
        np.testing.assert_array_equal(alone, ids)
        np.testing.assert_array_equal(alone_starts, starts)
        assert ids.dtype == sample.id_dtype and starts.dtype == bool


def test_fingerprints_differ_between_kinds():
    assert len({t.fingerprint() for t in SAMPLES.values()}) == len(SAMPLES)


def test_large_vocabularies_take_wider_ids():
    pieces = ["[UNK]", *map(str, range(2**16))]
    large = tokenizer.WordPieceTokenizer(pieces)
    ((ids, _),) = large.encode_batch(["65535"])
    assert ids.dtype == np.uint32 and ids.tolist() == [2**16]


@pytest.mark.parametrize(
    "names, kind",
    [
        (["vocab.txt"], "WordPiece"),
        (["vocab.json", "merges.txt"], "BPE"),
        (["encoder.json", "vocab.bpe"], "BPE"),
        (["spiece.model"], "sentencepiece"),
    ],
)
def test_standard_files_are_opened_by_folder_and_by_file(tmp_path, names, kind):
    folder = _folder(tmp_path, *names)
    for path in (folder, *(folder / name for name in names)):
        assert open_tokenizer(path).kind == kind


def test_standard_files_come_before_a_foreign_tokenizer_json(tmp_path):
    folder = _folder(tmp_path, "vocab.txt")
    (folder / "tokenizer.json").write_text("{}")
    assert open_tokenizer(folder).kind == "WordPiece"


def test_a_bpe_vocabulary_may_have_any_name(tmp_path):
    folder = _folder(tmp_path, "merges.txt")
    (folder / "other.json").write_bytes(FILES["vocab.json"])
    assert open_tokenizer(folder / "other.json").kind == "BPE"


@pytest.mark.parametrize("names", [["vocab.json"], ["merges.txt"]])
def test_half_of_a_bpe_is_an_error(tmp_path, names):
    (name,) = names
    with pytest.raises(FileNotFoundError, match=f"{name} needs .* beside it"):
        open_tokenizer(_folder(tmp_path, name) / name)


def test_missing_is_named_with_what_is_there(tmp_path):
    with pytest.raises(FileNotFoundError, match="no tokenizer at .*/no; expected voc"):
        open_tokenizer(tmp_path / "no")
    with pytest.raises(FileNotFoundError, match="has: nothing; expected vocab.txt"):
        open_tokenizer(tmp_path)
    (tmp_path / "model.bin").write_bytes(b"")
    with pytest.raises(FileNotFoundError, match="which has: model.bin; expected"):
        open_tokenizer(tmp_path)


def test_two_vocabularies_are_an_error(tmp_path):
    folder = _folder(tmp_path, "vocab.txt", "spiece.model")
    with pytest.raises(ValueError, match="more than one .*: spiece.model, vocab.txt;"):
        open_tokenizer(folder)
    assert open_tokenizer(folder / "vocab.txt").kind == "WordPiece"


def test_lower_case_is_for_wordpiece_alone(tmp_path):
    folder = _folder(tmp_path, "vocab.txt")
    assert open_tokenizer(folder, lower_case=True).lower_case
    model = _folder(tmp_path, "spiece.model") / "spiece.model"
    with pytest.raises(ValueError, match="lower_case=True with .*spiece.model: only"):
        open_tokenizer(model, lower_case=True)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"3",
        b"\xff\xfe",
        b'{"model": "x"}',
        b'{"model": {"type": "Unigram"}}',
        b'{"model": {"type": "BPE"}}',
        b'{"kind": "sentencepiece"}',
        b'{"kind": "sentencepiece", "model_base64": "AAAA", "special": {}}',
    ],
)
def test_a_broken_file_is_named(tmp_path, content):
    (tmp_path / "t.json").write_bytes(content)
    with pytest.raises(ValueError, match="t.json is not a tokenizer saved by etc_jax"):
        open_tokenizer(tmp_path / "t.json")


def test_a_cut_off_file_is_named(sample, tmp_path):
    sample.save(tmp_path / "t.json")
    os.truncate(tmp_path / "t.json", os.path.getsize(tmp_path / "t.json") // 2)
    with pytest.raises(ValueError, match="t.json is not a tokenizer saved by etc_jax"):
        open_tokenizer(tmp_path / "t.json")


def test_a_tokenizer_of_the_package_is_read(tmp_path):
    vocabulary = {piece: i for i, piece in enumerate(WORDPIECES)}
    foreign = tokenizers.BertWordPieceTokenizer(vocabulary)
    foreign.save(str(tmp_path / "t.json"))
    ours = open_tokenizer(tmp_path / "t.json")
    assert ours.kind == "WordPiece" and ours.max_word_chars == 100
    unigram = tokenizers.Tokenizer(models.Unigram([("a", 0.0), ("b", -1.0)], unk_id=0))
    unigram.save(str(tmp_path / "t.json"))
    assert open_tokenizer(tmp_path / "t.json").kind == "packaged"
    with pytest.raises(ValueError, match="another added_tokens, post_processor than"):
        foreign.save(str(tmp_path / "t.json"))
        type(ours).load(tmp_path / "t.json")


def test_load_gives_the_class_asked_for(tmp_path):
    SAMPLES["wordpiece"].save(tmp_path / "t.json")
    with pytest.raises(ValueError, match="a WordPiece tokenizer, not a BPE"):
        tokenizer.ByteBpeTokenizer.load(tmp_path / "t.json")


def test_an_expression_that_gives_up_at_a_text_is_a_value_error():
    """It is a panic of the package, which is no Exception of Python."""
    description = {
        **json.loads(tokenizers.Tokenizer(tokenizers.models.BPE()).to_str()),
        "normalizer": {
            "type": "Replace",
            "pattern": {"Regex": "(a+)+$"},
            "content": "x",
        },
    }
    package = tokenizers.Tokenizer.from_str(json.dumps(description))
    assert encodings(package.encode_batch, ["a b"])
    with pytest.raises(ValueError, match="cannot encode a text of 43 char.*retry-lim"):
        encodings(package.encode_batch, ["a b", "a" * 40 + "b c"])
    with pytest.raises(NoUnicodeError, match="half a character in 'a "):
        encodings(package.encode_batch, ["a b", "a \ud800"])
