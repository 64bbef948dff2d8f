import json
import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tokenizer_samples import BPE_PIECES, MERGES, byte_bpe

from etc_jax.data.tokenizers.byte_bpe import ByteBpeTokenizer

SMALL = byte_bpe()
ASCII = "the cats'12 .,;\n\t"
# GPT-2's pattern (Radford et al. 2019) for ASCII text.
WORDS = re.compile(
    r"'s|'t|'re|'ve|'m|'ll|'d| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+|\s+(?!\S)|\s+"
)


def _parts(tokenizer, text):
    ((ids, starts),) = tokenizer.encode_batch([text])
    assert len(ids) == len(starts)
    return np.split(ids, np.flatnonzero(starts)[1:]) if len(ids) else []


def _files(folder, pieces=BPE_PIECES, merges=MERGES):
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    lines = ["#version: 0.2", *(" ".join(pair) for pair in merges), ""]
    (folder / "merges.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder / "vocab.json", folder / "merges.txt"


def test_merges_are_made_in_their_order():
    ((ids, starts),) = SMALL.encode_batch(["the cat's caths"])
    assert SMALL.pieces(ids) == [*("the", "\u0120cat", "'s", "\u0120", "ca", "th", "s")]
    assert starts.tolist() == [True, True, True, True, False, False, False]
    assert ids.dtype == np.uint16 and starts.dtype == bool


@given(st.text())
def test_no_text_is_lost_at_words_and_in_all(text):
    parts = _parts(SMALL, text)
    assert "".join(SMALL.decode(part) for part in parts) == text
    assert SMALL.decode(np.concatenate(parts) if parts else []) == text


@given(st.text(ASCII))
def test_cutting_at_word_starts_gives_the_words_of_gpt2(text):
    words = [SMALL.decode(part) for part in _parts(SMALL, text)]
    assert words == WORDS.findall(text)


@given(st.text(ASCII, min_size=1))
def test_the_first_piece_starts_a_word(text):
    ((_, starts),) = SMALL.encode_batch([text])
    assert starts[0]


def test_prefix_space_makes_the_first_word_like_the_others():
    spaced = byte_bpe(add_prefix_space=True)
    plain, same, other = SMALL.encode_batch([" cat cat", "cat cat", "cat"])
    got, kept, empty = spaced.encode_batch(["cat cat", " cat cat", ""])
    np.testing.assert_array_equal(got[0], plain[0])
    np.testing.assert_array_equal(kept[0], plain[0])
    assert same[0][0] == other[0][0] != plain[0][0]
    assert len(empty[0]) == len(empty[1]) == 0


def test_special_tokens_in_text_are_text():
    text = "<mask> <s></s><pad> <unk>"
    ((ids, _),) = SMALL.encode_batch([text])
    special = [BPE_PIECES.index(p) for p in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")]
    assert not np.isin(ids, special).any()
    assert SMALL.decode(ids) == text


def test_special_tokens_are_spelled_out():
    ((ids, _),) = SMALL.encode_batch(["the cat"])
    assert SMALL.decode([0, *ids, len(BPE_PIECES) - 1, 2]) == "<s>the cat<mask></s>"


def test_roles_and_regular_ids():
    ids = SMALL.token_ids
    last = len(BPE_PIECES) - 1
    assert (ids.pad, ids.sentence, ids.cpc_mask, ids.mask) == (1, 2, 0, last)
    assert ids.regular_ids == (4, last) and ids.vocab_size == last + 1


def test_a_vocabulary_without_special_tokens_encodes_but_says_what_it_lacks():
    gpt2 = ByteBpeTokenizer([*BPE_PIECES[4:-1], "<|endoftext|>"], MERGES)
    ((ids, _),) = gpt2.encode_batch(["the"])
    assert gpt2.decode(ids) == "the"
    with pytest.raises(
        ValueError,
        match=r"lacks: pad \(<pad>\), sentence \(</s>\), cpc_mask \(<s>\), mask",
    ):
        _ = gpt2.token_ids


def test_everything_that_changes_ids_changes_the_fingerprint():
    made = [
        SMALL,
        byte_bpe(add_prefix_space=True),
        ByteBpeTokenizer(BPE_PIECES, MERGES[:-1]),
        ByteBpeTokenizer(BPE_PIECES, [MERGES[-1], *MERGES[:-1]]),
        ByteBpeTokenizer(BPE_PIECES[:-1], MERGES),
    ]
    assert len({t.fingerprint() for t in made}) == len(made)
    assert byte_bpe().fingerprint() == SMALL.fingerprint()


def test_files_are_read(tmp_path):
    read = ByteBpeTokenizer.from_files(*_files(tmp_path))
    assert read.fingerprint() == SMALL.fingerprint()


@pytest.mark.parametrize(
    "pieces, merges, message",
    [
        (BPE_PIECES[4:20], [], "without 240 of the 256 single bytes"),
        (BPE_PIECES, [("q", "z")], "merge 0, 'q' with 'z', is not of pieces"),
        (BPE_PIECES, [("q", "zz", "z")], r"merges.txt:2: 'q zz z' is not a BPE merge"),
        (BPE_PIECES, [("q", "")], r"merges.txt:2: 'q ' is not a BPE merge"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, pieces, merges, message):
    with pytest.raises(ValueError, match=message) as error:
        ByteBpeTokenizer.from_files(*_files(tmp_path, pieces, merges))
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "vocab.json is not a BPE vocabulary.*expected a JSON object"),
        (b"\xff\xfe\x00", "vocab.json is not a BPE vocabulary"),
        (b"[1, 2]", "vocab.json is not a BPE vocabulary: a list"),
        (b"{}", "0 pieces do not have the ids"),
        (b'{"a": 0, "b": 2}', r"2 pieces do not have the ids 0\.\.1"),
        (b'{"a": "x"}', "1 pieces do not have the ids"),
        (b'{"a": [0]}', "1 pieces do not have the ids"),
    ],
)
def test_a_garbage_vocabulary_is_named(tmp_path, content, message):
    vocabulary, merges = _files(tmp_path)
    vocabulary.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        ByteBpeTokenizer.from_files(vocabulary, merges)


def test_garbage_merges_are_named(tmp_path):
    vocabulary, merges = _files(tmp_path)
    merges.write_bytes(b"\x80\x81")
    with pytest.raises(ValueError, match="merges.txt is not a file of BPE merges"):
        ByteBpeTokenizer.from_files(vocabulary, merges)
