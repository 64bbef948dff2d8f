"""Ids of real vocabularies, against golden cases of other programs."""

import json

import numpy as np
import pytest
from golden_data import require_shared
from golden_tokenizers import BERT_MASK, FOLDERS, open_golden

from etc_jax.data.tokenizers.tokenizer import SentencePieceTokenizer, open_tokenizer

CASES = "data/metric_goldens/tokenizers/cases.json"
T5_UNKNOWN = 2

every_kind = pytest.mark.parametrize("kind", FOLDERS)
byte_level = pytest.mark.parametrize("kind", ["roberta_bart", "gpt2"])


@pytest.fixture(scope="module")
def cases():
    cases = json.loads(require_shared(CASES).read_text(encoding="utf-8"))["cases"]
    assert len(cases) > 10
    return cases


def _has_bert_mask(case) -> bool:
    """Whether the program behind the BERT cases read "[MASK]" as a special token.

    That must not happen to a document here, where it is plain text.
    """
    ids = case["bert"]["ids"]
    assert case["text"].count("[MASK]") == ids.count(BERT_MASK)
    return BERT_MASK in ids


@every_kind
def test_ids_are_those_of_the_golden_cases(kind, cases):
    got = open_golden(kind).encode_batch([case["text"] for case in cases])
    compared = 0
    for case, (ids, _) in zip(cases, got, strict=True):
        if kind == "bert" and _has_bert_mask(case):
            continue
        assert ids.tolist() == case[kind]["ids"], case["text"]
        compared += 1
    assert compared >= len(cases) - 1


def test_bert_mask_in_text_is_text_and_the_rest_is_as_in_the_golden_case(cases):
    (case,) = filter(_has_bert_mask, cases)
    tokenizer = open_golden("bert")
    ((ids, _),) = tokenizer.encode_batch([case["text"]])
    tokens = case["bert"]["tokens"]
    at = tokens.index("[MASK]")
    want = [*tokens[:at], "[", "mask", "]", *tokens[at + 1 :]]
    assert tokenizer.pieces(ids) == want
    assert ids[at + 3 :].tolist() == case["bert"]["ids"][at + 1 :]


@pytest.mark.parametrize("kind, spelled", [("bert", "tokens"), ("t5", "pieces")])
def test_pieces_are_those_of_the_golden_cases(kind, spelled, cases):
    for case in cases:
        ids, want = case[kind]["ids"], case[kind][spelled]
        if kind == "t5":
            # Unknown text is spelled there as the text that it was.
            pairs = zip(ids, want, strict=True)
            want = [p if i != T5_UNKNOWN else "<unk>" for i, p in pairs]
        assert open_golden(kind).pieces(ids) == want


def _after_space(case, kind):
    """For each piece: whether white space, or nothing, is right before its text."""
    end = 0
    for start, stop in case[kind]["offsets"]:
        text = case["text"][start:stop]
        begin = start + len(text) - len(text.lstrip())
        free = begin == 0 or case["text"][begin - 1].isspace()
        # A later part of the same character, or white space itself, is left out.
        yield free and start >= end and begin < stop
        end = stop


@pytest.mark.parametrize("kind", ["bert", "roberta_bart"])
def test_a_piece_after_white_space_starts_a_word(kind, cases):
    count = 0
    for case in cases:
        if kind == "bert" and _has_bert_mask(case):
            continue
        ((_, starts),) = open_golden(kind).encode_batch([case["text"]])
        free = np.fromiter(_after_space(case, kind), bool)
        assert len(free) == len(starts)
        assert starts[free].all(), case["text"]
        count += free.sum()
    assert count > 40


@pytest.mark.parametrize(
    "kind, ids, regular_ids",
    [
        ("bert", (0, 1, 2, 103), (999, 30522)),
        ("roberta_bart", (1, 2, 0, 50264), (4, 50260)),
    ],
)
def test_special_ids_of_real_vocabularies(kind, ids, regular_ids):
    got = open_golden(kind).token_ids
    assert (got.pad, got.sentence, got.cpc_mask, got.mask) == ids
    assert got.regular_ids == regular_ids


@pytest.mark.parametrize(
    "kind, lacking",
    [("gpt2", "pad .*, sentence .*, cpc_mask .*, mask"), ("t5", "cpc_mask .*, mask")],
)
def test_lacking_special_tokens_are_named(kind, lacking):
    with pytest.raises(ValueError, match=f"lacks: {lacking}"):
        _ = open_golden(kind).token_ids


@every_kind
def test_sizes(kind):
    sizes = {"bert": 30522, "roberta_bart": 50265, "gpt2": 50257, "t5": 32000}
    assert open_golden(kind).vocab_size == sizes[kind]
    assert open_golden(kind).id_dtype == np.uint16


@byte_level
def test_byte_level_text_comes_back(kind, cases):
    for case in cases:
        ((ids, _),) = open_golden(kind).encode_batch([case["text"]])
        assert open_golden(kind).decode(ids) == case["text"]


@every_kind
def test_saved_real_vocabularies_are_loaded(kind, tmp_path):
    open_golden(kind).save(tmp_path / "t.json")
    loaded = open_tokenizer(tmp_path / "t.json")
    assert loaded.fingerprint() == open_golden(kind).fingerprint()


def test_a_small_model_with_the_ids_of_t5_is_opened():
    path = require_shared("data/tokenizers/seqio_test_sp/sentencepiece.model")
    tokenizer = open_tokenizer(path)
    ((ids, starts),) = tokenizer.encode_batch(["that is a test"])
    assert tokenizer.decode(ids) == "that is a test" and starts.sum() == 4


def test_commas_after_digits_are_split_in_a_real_model():
    model = require_shared("data/tokenizers/t5/spiece.model")
    split = SentencePieceTokenizer.from_model_file(model, split_digit_commas=True)
    text = "1,234.56 and 10,000, or 12, cats,"
    plain, resplit = (
        t.pieces(t.encode_batch([text])[0][0]) for t in (open_golden("t5"), split)
    )
    assert plain == [
        *("▁1,", "23", "4.5", "6", "▁and", "▁10,000", ",", "▁or", "▁12,", "▁cats", ",")
    ]
    assert resplit == [
        *("▁1", ",", "23", "4.5", "6", "▁and", "▁10,000", ",", "▁or", "▁12", ","),
        *("▁cats", ","),
    ]
