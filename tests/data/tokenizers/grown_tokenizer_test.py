"""Tokens after a vocabulary: their ids, and that no text is tokenised into one."""

import numpy as np
import pytest
from tokenizer_samples import (
    SENTENCES,
    byte_bpe,
    official_model,
    sentence_pieces,
    wordpiece,
)

from etc_jax.data.tokenizers.tokenizer import Tokenizer, grown

KINDS = {
    "wordpiece": wordpiece(),
    "bpe": byte_bpe(),
    "sentencepiece": sentence_pieces(official_model()),
}
TOKENS = ("[q]", "</t>", "[ent]")
TEXTS = [*SENTENCES[:3], "", "a [q]b[q] </t>[ent] <mask> [MASK]"]


@pytest.fixture(params=KINDS)
def base(request):
    return KINDS[request.param]


def test_new_ids_stand_after_the_old_ones(base):
    made, v = grown(base, TOKENS), base.vocab_size
    assert made.added_ids == {"[q]": v, "</t>": v + 1, "[ent]": v + 2}
    assert made.vocab_size == v + 3 and not base.added_ids
    assert made.pieces([0, v - 1, v + 1]) == [*base.pieces([0, v - 1]), "</t>"]
    again = grown(made, ["[s]"])
    assert again.added_ids == {**made.added_ids, "[s]": v + 3}
    assert again.fingerprint() == grown(base, [*TOKENS, "[s]"]).fingerprint()
    assert len({t.fingerprint() for t in (base, made, again)}) == 3


def test_text_that_spells_a_new_token_stays_text(base):
    made = grown(base, TOKENS)
    pairs = zip(base.encode_batch(TEXTS), made.encode_batch(TEXTS), strict=True)
    for (ids, starts), (got, got_starts) in pairs:
        np.testing.assert_array_equal(got, ids)
        np.testing.assert_array_equal(got_starts, starts)
        assert got.size == 0 or got.max() < base.vocab_size
    assert made.encode_with_offsets(TEXTS) == base.encode_with_offsets(TEXTS)


def test_special_tokens_are_those_of_the_old_vocabulary(base):
    made = grown(base, TOKENS)
    for role in ("pad", "mask", "cls"):
        assert made.special_id(role) == base.special_id(role)
    assert made._regular_ids == base._regular_ids


def test_new_tokens_are_spelled_out_between_text(base):
    made, v = grown(base, TOKENS), base.vocab_size
    [(ids, _)] = base.encode_batch(["the cat"])
    ids = ids.tolist()
    text = base.decode(ids)
    assert made.decode([v, *ids, v + 1, v + 2, *ids]) == (
        f"[q] {text} </t> [ent] {text}"
    )
    assert made.decode(ids) == text and made.decode([]) == ""
    with pytest.raises(ValueError, match="is outside of this grown vocabulary"):
        made.decode([v + 3])


def test_ids_are_wide_enough_for_the_new_tokens():
    words = ["[UNK]", *(str(i) for i in range(2**16 - 1))]
    base = type(KINDS["wordpiece"])(words)
    made = grown(base, ["[q]"])
    [(ids, _)] = made.encode_batch(["7"])
    assert base.id_dtype == np.uint16
    assert ids.dtype == made.id_dtype == np.uint32 and ids.tolist() == [8]


@pytest.mark.parametrize(
    "tokens, message",
    [
        ((), "no token to add"),
        (("[q]", ""), "token '' is blank"),
        (("[q ]",), "has white space"),
        (("[q]", "[e]", "[q]"), r"tokens \[q\], \[e\], \[q\]: name each once"),
        (("[q]", "<pad>"), "has <pad> already; leave that out"),
    ],
)
def test_tokens_that_cannot_be_added_are_refused(tokens, message):
    with pytest.raises(ValueError, match=message):
        grown(KINDS["bpe"], tokens)


def test_a_token_that_was_added_before_is_refused():
    made = grown(KINDS["bpe"], TOKENS)
    with pytest.raises(ValueError, match=r"has \[ent\] already"):
        grown(made, ["[s]", "[ent]"])


def test_a_damaged_file_is_refused(tmp_path):
    (tmp_path / "t.json").write_text('{"kind": "grown", "added": ["[q]"], "base": {}}')
    with pytest.raises(ValueError, match="is not a tokenizer saved by etc_jax"):
        Tokenizer.load(tmp_path / "t.json")
