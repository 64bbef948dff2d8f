import dataclasses

import numpy as np
import pytest
from hypothesis import given, strategies as st
from tokenizer_samples import official_model, sentence_pieces, t5_model, train_model

from etc_jax.data.tokenizers.sentence_pieces import SentencePieceTokenizer
from etc_jax.data.tokenizers.special_tokens import SENTENCEPIECE

SPACE = "\u2581"
MODEL = official_model()
OFFICIAL = sentence_pieces(MODEL)
SPLIT = sentence_pieces(MODEL, split_digit_commas=True)
T5 = sentence_pieces(t5_model())
KNOWN = "acdehmnorst012,. "  # characters of the training text


def _pieces(tokenizer, text):
    ((ids, _),) = tokenizer.encode_batch([text])
    return tokenizer.pieces(ids)


def test_official_special_ids():
    ids = OFFICIAL.token_ids
    assert (ids.pad, ids.sentence, ids.cpc_mask) == (0, 1, 2)
    assert OFFICIAL.pieces([ids.mask]) == ["<mask>"]
    roles = ("cls", "question", "candidate", "paragraph", "nq_cls", "nq_sep")
    assert [OFFICIAL.special_id(r) for r in roles] == [40, 41, 42, 43, 64, 3]
    assert ids.vocab_size == OFFICIAL.vocab_size == 200
    assert ids.regular_ids == (70, 200)  # after <unk> = 68 and <mask> = 69, or so
    regular = OFFICIAL.pieces(range(*ids.regular_ids))
    assert not any(SENTENCEPIECE.is_reserved(p) for p in regular)


def test_t5_encodes_but_says_what_it_lacks():
    assert T5.decode(T5.encode_batch(["the cat"])[0][0]) == "the cat"
    with pytest.raises(
        ValueError, match=r"lacks: cpc_mask \(<s>\), mask \(<mask>\); pre-training"
    ):
        _ = T5.token_ids
    assert T5.special_id("pad") == 0 and T5.special_id("sentence") == 1
    with pytest.raises(ValueError, match=r"lacks question \(.* with id 41\)"):
        T5.special_id("question")


def test_other_names_of_special_tokens_may_be_given():
    special = dataclasses.replace(SENTENCEPIECE, mask="<unused_5>")
    assert sentence_pieces(MODEL, special=special).token_ids.mask == 6


@given(st.lists(st.text(KNOWN.strip(), min_size=1, max_size=8)))
def test_cutting_at_word_starts_gives_the_words(words):
    ((ids, starts),) = T5.encode_batch(["  ".join(words)])
    assert len(ids) == len(starts) and starts[:1].all()
    parts = np.split(ids, np.flatnonzero(starts)[1:]) if len(ids) else []
    assert [T5.decode(part) for part in parts] == words


@given(st.text())
def test_the_first_piece_of_any_text_starts_a_word(text):
    ((ids, starts),) = OFFICIAL.encode_batch([text])
    assert len(ids) == len(starts) and starts[:1].all()
    assert ids.dtype == np.uint16 and starts.dtype == bool


SPELLED = ["<mask>", "<unused_2>", "<unused_66>", "<s>", "</s>", "<pad>", "<unk>"]
FULL_WIDTH = "\uff1cmask\uff1e"  # the model's normalisation makes <mask> of it


@given(st.lists(st.sampled_from([*SPELLED, FULL_WIDTH, "<", ">", "a", " ", "mask"])))
def test_special_tokens_in_text_are_text(parts):
    text = "".join(parts)
    ((ids, _),) = OFFICIAL.encode_batch([text])
    unknown = OFFICIAL.pieces(range(OFFICIAL.vocab_size)).index("<unk>")
    regular = OFFICIAL.token_ids.regular_ids
    assert all(i == unknown or regular[0] <= i < regular[1] for i in ids)
    plain = " ".join(text.replace(FULL_WIDTH, "<mask>").split())
    assert OFFICIAL.decode(ids) == plain


def test_the_model_alone_would_take_them_for_special():
    assert "<mask>" in OFFICIAL._model.Encode("a <mask>", out_type=str)
    assert "<mask>" in OFFICIAL._model.Encode(FULL_WIDTH, out_type=str)


def test_a_piece_that_only_begins_words_is_spelled_inside_of_one():
    pieces = OFFICIAL.pieces(range(OFFICIAL.vocab_size))
    assert f"{SPACE}mask" in pieces and "mask" not in pieces
    assert _pieces(OFFICIAL, "a <mask>") == [
        *(f"{SPACE}a", f"{SPACE}<", "m", "a", "s", "k", ">")
    ]


def test_special_tokens_are_spelled_out():
    ((ids, _),) = OFFICIAL.encode_batch(["the cat"])
    assert OFFICIAL.decode([1, 2, *ids, 0, 3]) == "</s> <s> the cat <pad> <unused_2>"


def test_commas_after_digits_are_split():
    text = "it cost 1,000, or 10, not 2,500. cats, they"
    plain, split = _pieces(OFFICIAL, text), _pieces(SPLIT, text)
    assert "".join(split) == "".join(plain)
    ends = [p[-2:] for p in plain if len(p) > 1]
    assert any(e[0].isdigit() and e[1] == "," for e in ends)  # else nothing is shown
    assert not any(len(p) > 1 and p[-2].isdigit() and p[-1] == "," for p in split)
    (_, starts), (_, kept) = (t.encode_batch([text])[0] for t in (SPLIT, OFFICIAL))
    assert starts.sum() == kept.sum()  # words stay what they were


def test_other_commas_stay():
    text = "the mat, cats, dogs 1999"
    assert f"{SPACE}mat," in _pieces(OFFICIAL, text)
    assert _pieces(SPLIT, text) == _pieces(OFFICIAL, text)


@pytest.mark.parametrize(
    "options",
    [
        {"add_dummy_prefix": False},
        {"normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    ],
)
@pytest.mark.parametrize("text", ["<mask>", "cat <mask>cat", "the cat", "a <a> <mask>"])
def test_models_with_other_rules_of_white_space(options, text):
    model = train_model(vocab_size=90, user_defined_symbols=["<mask>"], **options)
    tokenizer = sentence_pieces(model)
    ((ids, starts),) = tokenizer.encode_batch([text])
    assert starts[0] and starts.sum() == len(text.split())
    assert tokenizer.decode(ids) == text
    assert tokenizer.special_id("mask") not in ids


def test_everything_that_changes_ids_changes_the_fingerprint():
    special = dataclasses.replace(SENTENCEPIECE, reserved="<mask>")
    made = [OFFICIAL, SPLIT, T5, sentence_pieces(MODEL, special=special)]
    assert len({t.fingerprint() for t in made}) == len(made)
    assert sentence_pieces(MODEL).fingerprint() == OFFICIAL.fingerprint()


def test_no_texts_and_empty_texts():
    assert T5.encode_batch([]) == []
    for ids, starts in T5.encode_batch(["", "   "]):
        assert len(ids) == len(starts) == 0


@pytest.mark.parametrize("content", [b"", b"garbage", b"\x00" * 100, MODEL[:1000]])
def test_a_garbage_model_is_named(tmp_path, content):
    path = tmp_path / "broken.model"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="broken.model: .*not a sentencepiece model"):
        SentencePieceTokenizer.from_model_file(path)
