"""Where pieces stand in a text, by tokenizers of all kinds."""

import pathlib
import re
import tempfile
import unicodedata

import numpy as np
import pytest
from hub_samples import unigram_json
from hypothesis import given, settings, strategies as st
from tokenizer_samples import byte_bpe, sentence_pieces, t5_model, wordpiece

from etc_jax.data.tokenizers.special_in_text import with_special_tokens
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.datasets.offsets import encode


def packaged() -> Tokenizer:
    with tempfile.TemporaryDirectory() as folder:
        return open_tokenizer(unigram_json(pathlib.Path(folder)))


TOKENIZERS = {
    "WordPiece": wordpiece(),
    "WordPiece, cased": wordpiece(lower_case=False),
    "byte-level BPE": byte_bpe(),
    "byte-level BPE, space first": byte_bpe(add_prefix_space=True),
    "sentencepiece": sentence_pieces(),
    "sentencepiece, commas split": sentence_pieces(split_digit_commas=True),
    "T5": sentence_pieces(t5_model()),
    "packaged": packaged(),
}
TOKENIZERS |= {
    f"{kind}, special tokens": with_special_tokens(TOKENIZERS[kind])
    for kind in ("byte-level BPE", "sentencepiece")
}
# Accents, composed and not, vowel signs of Devanagari, a syllable of Hangul, joiners.
TEXTS = st.lists(
    st.sampled_from(
        [
            *"the cat 1,9\x1c\u200b \u00e9\u0301\u0323\u212b\uff21\u00bd.\u4e2d\n\t",
            *"\u00a0Q\u0939\u0948\u093f\u1112\u1161\u11ab\u200d",
            *("<s>", "<mask>", " <s>", "</s> "),
        ]
    ),
    max_size=24,
).map("".join)


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=100, deadline=None)
@given(texts=st.lists(TEXTS, max_size=4))
def test_pieces_have_their_characters(kind, texts):
    model: Tokenizer = TOKENIZERS[kind]
    got = encode(model, texts)
    assert [p.text for p in got] == texts
    for pieces, (ids, _) in zip(got, model.encode_batch(texts), strict=True):
        assert pieces.ids == ids.tolist()
        starts, stops = np.array(pieces.offsets, int).reshape(-1, 2).T
        assert (starts <= stops).all() and (np.diff(starts) >= 0).all()
        assert (starts >= 0).all() and (stops <= len(pieces.text)).all()
        assert (np.diff(stops) >= 0).all()
        in_pieces = set()
        for start, stop in pieces.offsets:
            spelled = pieces.text[start:stop]
            assert spelled.strip() in (spelled, "")
            if spelled.strip():
                in_pieces |= set(range(start, stop))
        for place, character in enumerate(pieces.text):
            if unicodedata.category(character)[0] == "M" and place - 1 in in_pieces:
                assert place in in_pieces


# (text, word whose pieces are exact) of decomposed texts.
DECOMPOSED = [
    ("Un cafe\u0301 , un the\u0301 .", "cafe\u0301"),
    ("the e\u0301te\u0301 cat", "e\u0301te\u0301"),
    ("Nguye\u0302\u0303n Hue\u0323\u0302 a", "Hue\u0323\u0302"),
    ("a \u1112\u1161\u11ab \u1100\u116e\u11a8 a", "\u1100\u116e\u11a8"),
    ("\u0939\u0948 \u0926\u093f\u0932\u094d\u0932\u0940 \u0939\u0948", "\u0939\u0948"),
    ("\u2764\ufe0f a", "\u2764\ufe0f"),
]


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("kind", TOKENIZERS)
def test_words_are_exact_in_decomposed_text(kind, form):
    for text, word in DECOMPOSED:
        text, word = (unicodedata.normalize(form, x) for x in (text, word))
        [pieces] = encode(TOKENIZERS[kind], [text])
        for match in re.finditer(re.escape(word), text):
            assert pieces.is_exact(pieces.covering(*match.span()), *match.span())
