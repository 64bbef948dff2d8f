import pytest
from multihop_samples import tokenizer
from tokenizer_samples import byte_bpe, official_model, sentence_pieces

from etc_jax.datasets.offsets import encode

TOKENIZERS = {
    "WordPiece": tokenizer(),
    "byte-level BPE": byte_bpe(),
    "sentencepiece": sentence_pieces(official_model()),
    "sentencepiece, commas split": sentence_pieces(
        official_model(), split_digit_commas=True
    ),
}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_every_word_is_after_its_own_pieces(kind):
    text = "the cat  saw 1,234 dogs in 1999, and caf\u00e9s;\n the\u00a0cats"
    [pieces] = encode(TOKENIZERS[kind], [text])
    for word in text.split():
        start = text.index(word)
        first, last = pieces.covering(start, start + len(word))
        assert pieces.is_exact((first, last), start, start + len(word))


def test_pieces_of_wordpiece_spell_their_characters():
    text = "Caf\u00e9 Mills (Ton)"
    [pieces] = encode(tokenizer(), [text])
    spelled = [text[a:b] for a, b in pieces.offsets]
    # The vocabulary has "mill", "##s" and "ton", and letters for all else.
    assert "".join(spelled) == "Caf\u00e9Mills(Ton)"
    assert spelled[-5:] == ["Mill", "s", "(", "Ton", ")"]


def test_characters_without_a_piece_are_covered_by_none():
    [pieces] = encode(tokenizer(), ["a  b"])
    assert pieces.covering(1, 3) is None
    assert pieces.covering(0, 1) == (0, 0)
    assert pieces.covering(0, 4) == (0, 1)
    assert pieces.covering(3, 4) == (1, 1)
    assert not pieces.is_exact((0, 1), 0, 3)


def test_part_of_a_piece_is_covered_and_not_exact():
    [pieces] = encode(tokenizer(), ["norland"])
    assert pieces.covering(1, 4) == (0, 0)
    assert not pieces.is_exact((0, 0), 1, 4)


def test_unknown_pieces_stand_for_what_is_between_the_known():
    model = sentence_pieces(official_model())
    text = "the \u4e2d\u6587 cat"
    [pieces] = encode(model, [text])
    unknown = [i for i, p in enumerate(model.pieces(pieces.ids)) if p == "<unk>"]
    assert unknown
    spelled = "".join(text[slice(*pieces.offsets[i])] for i in unknown)
    assert spelled == "\u4e2d\u6587"
