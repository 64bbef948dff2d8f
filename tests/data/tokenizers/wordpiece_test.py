import re

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tokenizer_samples import WORDPIECES, wordpiece

from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer, open_tokenizer

SMALL = wordpiece()


def _ids(tokenizer, text):
    ((ids, _),) = tokenizer.encode_batch([text])
    return ids.tolist()


def _write(folder, pieces, end="\n"):
    path = folder / "vocab.txt"
    path.write_bytes((end.join(pieces) + end).encode())
    return path


def test_longest_match_from_the_left():
    assert SMALL.pieces(_ids(SMALL, "cats the them")) == [
        *("cat", "##s", "the", "the", "##m")
    ]


@given(st.lists(st.text("abcmskte.,[] \n", max_size=12)))
def test_cutting_at_word_starts_gives_the_words(words):
    text = " ".join(words)
    ((ids, starts),) = SMALL.encode_batch([text])
    assert len(ids) == len(starts) and starts[:1].all()
    parts = np.split(ids, np.flatnonzero(starts)[1:]) if len(ids) else []
    assert [SMALL.decode(p) for p in parts] == re.findall(r"\w+|[^\w\s]", text)


def test_special_tokens_in_text_are_text():
    assert SMALL.pieces(_ids(SMALL, "[MASK]")) == ["[", "mask", "]"]


def test_cased_text_keeps_capitals_and_accents():
    cased = wordpiece(lower_case=False)
    assert cased.pieces(_ids(cased, "Cat")) == ["Cat"]
    assert cased.pieces(_ids(cased, "\u00e9")) == ["[UNK]"]
    assert SMALL.pieces(_ids(SMALL, "Cat \u00e9")) == ["cat", "e"]


def test_words_may_have_200_characters():
    assert len(_ids(SMALL, "a" * 200)) == 200
    assert SMALL.pieces(_ids(SMALL, "a" * 201)) == ["[UNK]"]
    short = wordpiece(max_word_chars=3)
    assert short.pieces(_ids(short, "aaa aaaa")) == ["a", "##a", "##a", "[UNK]"]


def test_the_reader_strips_lines_and_keeps_first_ids(tmp_path):
    lines = ["[PAD]", " [UNK]\t", "a", "[UNK]", "b ", "a", "", "c"]
    tokenizer = WordPieceTokenizer.from_vocab_file(_write(tmp_path, lines))
    assert tokenizer.pieces(range(tokenizer.vocab_size)) == [
        *("[PAD]", "[UNK]", "a", "b", "", "c")
    ]


def test_line_ends_of_windows_and_odd_pieces_are_read(tmp_path):
    lines = ["[PAD]", "[UNK]", "a\u2028b", "c\u0085d"]
    tokenizer = WordPieceTokenizer.from_vocab_file(_write(tmp_path, lines, "\r\n"))
    assert tokenizer.pieces([2, 3]) == lines[2:]
    assert tokenizer.vocab_size == 4


@pytest.mark.parametrize("pieces, lower", [(WORDPIECES, False), (["a"], True)])
def test_case_is_read_off_the_vocabulary(tmp_path, pieces, lower):
    path = _write(tmp_path, ["[UNK]", *pieces])
    assert open_tokenizer(path).lower_case is lower
    assert open_tokenizer(path, lower_case=not lower).lower_case is not lower


def test_everything_that_changes_ids_changes_the_fingerprint():
    made = [
        SMALL,
        wordpiece(lower_case=False),
        wordpiece(max_word_chars=100),
        WordPieceTokenizer(WORDPIECES[::-1]),
        WordPieceTokenizer(WORDPIECES[:-1]),
    ]
    assert len({t.fingerprint() for t in made}) == len(made)
    assert wordpiece().fingerprint() == SMALL.fingerprint()


def test_roles_and_regular_ids():
    ids = SMALL.token_ids
    assert (ids.pad, ids.sentence, ids.cpc_mask, ids.mask) == (0, 1, 2, 6)
    assert ids.regular_ids == (8, len(WORDPIECES))
    assert SMALL.special_id("cls") == 4
    with pytest.raises(ValueError, match="no special token 'end'; there are pad, "):
        SMALL.special_id("end")
    with pytest.raises(ValueError, match=r"lacks nq_html_start \(\[unused102\]\)"):
        SMALL.special_id("nq_html_start")


def test_wrong_vocabularies_are_errors(tmp_path):
    with pytest.raises(ValueError, match=r"1 pieces without \[UNK\]"):
        WordPieceTokenizer(["a"])
    with pytest.raises(ValueError, match="3 pieces, 2 of them different"):
        WordPieceTokenizer(["a", "[UNK]", "a"])
    with pytest.raises(ValueError, match=r"vocab.txt is not a WordPiece.*\[UNK\]"):
        WordPieceTokenizer.from_vocab_file(_write(tmp_path, ["some", "text"]))
    (tmp_path / "vocab.txt").write_bytes(b"[UNK]\n\xff\xfe\n")
    with pytest.raises(ValueError, match="vocab.txt is not a WordPiece.*UTF-8"):
        WordPieceTokenizer.from_vocab_file(tmp_path / "vocab.txt")
    lacking = WordPieceTokenizer(["[PAD]", "the", "[UNK]", "a"])
    with pytest.raises(ValueError, match=r"lacks: sentence \(.*1\), mask \(\[MASK\]\)"):
        _ = lacking.token_ids
    assert _ids(lacking, "the") == [1]


def test_ids_of_another_vocabulary_are_refused():
    with pytest.raises(ValueError, match="id 5000 is outside of this WordPiece"):
        SMALL.decode([0, 5000])
    with pytest.raises(ValueError, match="id -1 is outside"):
        SMALL.pieces([-1])
