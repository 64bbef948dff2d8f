"""Texts to be read and written: where they end, and what is cut."""

import types

import numpy as np
import pytest

from etc_jax.data.tokenizers import special_tokens as sp
from etc_jax.data.tokenizers.special_in_text import with_special_tokens
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.formats.text_to_text import (
    TextToTextSizes,
    end_id,
    parts_of,
    written_text,
)


def vocabulary(special, pieces):
    ids = sp.resolve(special, pieces)
    return types.SimpleNamespace(special=special, special_id=ids.__getitem__)


@pytest.mark.parametrize(
    "special, pieces, end",
    [
        (sp.BYTE_LEVEL, ["<s>", "<pad>", "</s>", "<unk>"], 2),  # BART
        (sp.SENTENCEPIECE, ["<pad>", "</s>", "<unk>", "_a"], 1),  # T5
        (sp.WORDPIECE, ["[PAD]", "[unused0]", "[CLS]", "[SEP]"], 3),
    ],
)
def test_texts_end_with_the_token_of_their_models(special, pieces, end):
    assert end_id(vocabulary(special, pieces)) == end


def test_the_end_of_a_text_is_kept_where_it_is_cut():
    def made(ids, target):
        return parts_of(TextToTextSizes(4, 3), ids, [1] * len(ids), target)

    short, long = made([5, 2], [6, 2]), made([5, 6, 7, 8, 9, 2], [3, 4, 5, 2])
    assert short["input_tokens"].tolist() == [5, 2, 0, 0]
    assert short["target_weights"].tolist() == [1, 1, 0]
    assert long["input_tokens"].tolist() == [5, 6, 7, 2]
    assert long["target_tokens"].tolist() == [3, 4, 2]
    nothing = made([5, 2], None)
    assert not nothing["target_tokens"].any() and not nothing["target_weights"].any()
    assert {x.dtype for x in nothing.values()} == {np.dtype("i4"), np.dtype("f4")}


def test_what_stands_for_no_text_is_left_out():
    tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[SEP]", "red", "blue"])
    written = np.array([0, 3, 5, 1, 4, 9, 2, 3])
    assert written_text(written, tokenizer) == "red blue"
    tokenizer = with_special_tokens(tokenizer)
    assert written_text(written, tokenizer) == "[PAD] red [UNK] blue"
