"""Special tokens in texts, where they are asked for."""

import pytest
from hub_samples import FOLDERS
from tokenizer_samples import byte_bpe, sentence_pieces, t5_model, wordpiece

from etc_jax.data.tokenizers.special_in_text import with_special_tokens
from etc_jax.data.tokenizers.tokenizer import Tokenizer, grown, open_tokenizer

UNUSED = ["u", *(f"##{letter}" for letter in "nused")]


def pieces_of(tokenizer, text):
    [(ids, starts)] = tokenizer.encode_batch([text])
    return tokenizer.pieces(ids), starts.tolist()


@pytest.mark.parametrize(
    "base, text, pieces, starts",
    [
        (
            wordpiece(),
            "the[MASK]s [SEP] cats [unused]",
            ["the", "[MASK]", "s", "[SEP]", "cat", "##s", "[", *UNUSED, "]"],
            [True] * 5 + [False, True, True] + [False] * 5 + [True],
        ),
        # The mask has the space before it.
        (
            byte_bpe(),
            "the <mask> cat</s>",
            ["the", "<mask>", "\u0120cat", "</s>"],
            [True] * 4,
        ),
        (
            sentence_pieces(),
            "the <mask>cats</s>",
            ["\u2581the", "<mask>", "\u2581cats", "</s>"],
            [True] * 4,
        ),
        (
            grown(sentence_pieces(t5_model()), ["<extra_id_1>", "<extra_id_0>"]),
            "<extra_id_0> the<extra_id_1>",
            ["<extra_id_0>", "\u2581the", "<extra_id_1>"],
            [True] * 3,
        ),
    ],
    ids=["WordPiece", "BPE", "sentencepiece", "grown"],
)
def test_they_are_found(base, text, pieces, starts):
    tokenizer = with_special_tokens(base)
    found, word_starts = pieces_of(tokenizer, text)
    assert (found, word_starts) == (pieces, starts)
    assert tokenizer.vocab_size == base.vocab_size
    assert tokenizer.added_ids == base.added_ids
    # It is another tokenizer, also when it is read again.
    again = Tokenizer.from_bytes(tokenizer.saved(), "saved")
    assert again.fingerprint() == tokenizer.fingerprint() != base.fingerprint()
    assert pieces_of(again, text) == (found, word_starts)


@pytest.mark.parametrize("name", FOLDERS)
def test_texts_without_them_are_the_same(tmp_path, name):
    base = open_tokenizer(FOLDERS[name](tmp_path / "hf"))
    tokenizer = with_special_tokens(base)
    for text in ("the cat, the dog", "", " the <b> [x] cats "):
        assert pieces_of(tokenizer, text) == pieces_of(base, text)
    # A mask, or the last sentinel.
    number = base._roles.get("mask", base.vocab_size - 1)
    [piece] = base.pieces([number])
    for model, found in ((tokenizer, True), (base, False)):
        [(ids, _)] = model.encode_batch([f"the {piece}"])
        assert (ids[-1] == number) == found


def test_flags_of_the_config_count(tmp_path):
    mask = {"content": "<mask>", "lstrip": True}
    files = FOLDERS["roberta merges.txt"]
    folder = files(tmp_path / "hf", mask_token=mask, add_bos_token=True)
    tokenizer = with_special_tokens(open_tokenizer(folder))
    assert pieces_of(tokenizer, "the <mask>")[0] == ["the", "<mask>"]
    without = with_special_tokens(open_tokenizer(files(tmp_path / "none")))
    assert pieces_of(without, "the <mask>")[0] == ["the", "\u0120", "<mask>"]
