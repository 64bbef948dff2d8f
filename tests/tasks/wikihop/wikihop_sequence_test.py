"""WikiHop as one sequence: layout, documents in several inputs, answers."""

import json

import numpy as np
import pytest
from multihop_samples import WIKIHOP, tokenizer, write_json
from tokenizer_samples import byte_bpe

from etc_jax.data.tokenizers.tokenizer import grown
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.tasks import wikihop
from etc_jax.tasks.synthetic import wikihop as synthetic
from etc_jax.tasks.wikihop.records import parse
from etc_jax.tasks.wikihop.sequence_inputs import TOKENS, _parts

WIKIHOP_SEQUENCE = wikihop.DATA_SET.in_format("sequence")

SIZES = SequenceSizes(input_length=70, global_length=24)
BERT = grown(tokenizer(), TOKENS)
# 9 tokens of documents in each input.
SMALL = SequenceSizes(input_length=31, global_length=24)


def record(**changes):
    return parse({**WIKIHOP, **changes}, lambda kind, message: None)


def windows_of(sizes=SIZES, model=BERT, **changes):
    return WIKIHOP_SEQUENCE.features(record(**changes), model, sizes)


def pieces(window, model=BERT):
    used = window.example_ids > 0
    return model.pieces(window.tokens[used])


# --- layout ---------------------------------------------------------------------------

HEAD = "[CLS] [q] country old mill [/q] [ent] norland [/ent] [ent] sudland [/ent]"
HEAD += " [ent] new york [/ent] [ent] new york city [/ent]"


def test_the_layout_with_a_vocabulary_of_bert():
    [made] = windows_of()
    said = pieces(made)
    assert said[:21] == HEAD.split() and said[21] == "[SEP]"
    assert " ".join(said[22:]) == (
        "the old mill stands in ton . it burned . [SEP] ton is a town in norland . "
        "norland ##s is no town . new york city is a city . [SEP]"
    )
    assert made.global_index.tolist() == [*range(21), -1, -1, -1]
    assert made.extra["candidates"].tolist() == [6, 9, 12, 16, *[-1] * 20]
    assert made.types.tolist() == (
        [0] * 22 + [1] * (len(said) - 22) + [0] * (70 - len(said))
    )
    assert made.labels["candidate"] == 0 and made.unusable is None


def test_the_layout_with_a_vocabulary_of_roberta():
    model = grown(byte_bpe(), TOKENS)
    changes = {"query": "the cat", "candidates": ["cat", "cats"], "answer": "cats"}
    [made] = windows_of(model=model, supports=["the  cat\n", " ", "cat"], **changes)
    assert pieces(made, model) == [
        *("<s>", "[q]", "the", "Ġcat", "[/q]", "[ent]", "cat", "[/ent]"),
        *("[ent]", "cat", "s", "[/ent]", "</s>", "</s>"),
        *("the", "Ġcat", "</s>", "cat", "</s>"),
    ]
    assert made.extra["candidates"].tolist()[:3] == [5, 8, -1]
    assert not made.types.any() and made.labels["candidate"] == 1


def test_documents_that_spell_an_added_token_do_not_hold_it():
    [made] = windows_of(supports=["[ent] norland [/ent] [q]"])
    told = made.tokens[22:].tolist()
    assert not set(told) & set(BERT.added_ids.values())
    assert pieces(made).count("[ent]") == 4


# --- several inputs -------------------------------------------------------------------


def test_documents_go_on_in_further_inputs_after_query_and_candidates():
    [whole] = windows_of()
    parts = windows_of(SMALL)
    assert len(parts) == 4
    for part in parts:
        assert pieces(part)[:22] == pieces(whole)[:22]
        assert pieces(part)[-1] == "[SEP]"
        for name, places in part.extra.items():
            np.testing.assert_array_equal(places, whole.extra[name])
        assert part.labels["candidate"] == 0
    # Nothing is lost, and no input but the last has room for one more token.
    text = [p for part in parts for p in pieces(part)[22:] if p != "[SEP]"]
    assert text == [p for p in pieces(whole)[22:] if p != "[SEP]"]
    assert all(len(pieces(part)) >= 30 for part in parts[:-1])


@pytest.mark.parametrize("lengths", [(4, 4), (8,), (9,), (3, 3, 1), (1,), (40, 2)])
@pytest.mark.parametrize("room", [2, 5, 9])
def test_parts_are_full_and_lose_nothing(lengths, room):
    documents = [[100 * i + j + 1 for j in range(n)] for i, n in enumerate(lengths)]
    parts = _parts(documents, room, 0)
    assert [t for part in parts for t in part if t] == sum(documents, [])
    for part in parts:
        assert 2 <= len(part) <= room and part[-1] == 0
        assert all(a or b for a, b in zip(part, part[1:], strict=False))
        # Documents stay apart.
        pairs = zip(part, part[1:], strict=False)
        assert all(a // 100 == b // 100 for a, b in pairs if a and b)
    # A token more would need a separator too, but where its document was begun.
    for part, after in zip(parts, parts[1:], strict=False):
        assert len(part) + (2 if part[-2] // 100 != after[0] // 100 else 1) > room


def test_a_candidate_is_rated_by_the_mean_of_all_inputs():
    windows = windows_of(SMALL)
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(len(windows), 24))
    decoded = WIKIHOP_SEQUENCE.decode(logits, windows)
    [prediction] = WIKIHOP_SEQUENCE.predictions(json.loads(json.dumps(decoded)))
    best = int(np.argmax(logits[:, :4].sum(axis=0)))
    assert prediction == WIKIHOP["candidates"][best]
    # It is not what most of the inputs say, nor what the first one says.
    logits[:] = 0
    logits[:3, 0], logits[3, 1] = 1.0, 3.1
    [prediction] = WIKIHOP_SEQUENCE.predictions(
        WIKIHOP_SEQUENCE.decode(logits, windows)
    )
    assert prediction == "sudland"
    seen = WIKIHOP_SEQUENCE.explain(logits, windows, None)
    told = WIKIHOP_SEQUENCE.pool_explained(seen)
    assert told.answer == "sudland" and told.question == WIKIHOP["query"]
    odds = np.exp([3.1 / 4, 3 / 4, 0, 0])
    want = (odds / odds.sum()).tolist()
    assert [c.probability for c in told.candidates] == pytest.approx(want)
    assert [c.text for c in told.candidates][:2] == ["sudland", "norland"]
    assert len(told.documents) == 2


def test_the_mean_of_logits_is_the_logit_of_the_mean_row():
    rng = np.random.default_rng(0)
    rows, kernel = rng.normal(size=(3, 4, 6)), rng.normal(size=6)
    named = lambda logits: [("a candidate", x) for x in logits]  # noqa: E731
    got = WIKIHOP_SEQUENCE.pool_explained(
        [(record(), named(of_window)) for of_window in rows @ kernel + 0.3]
    )
    want = np.mean(rows, axis=0) @ kernel + 0.3
    texts = [WIKIHOP["candidates"][i] for i in np.argsort(-want)]
    assert [c.text for c in got.candidates] == texts


# --- what cannot be -------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes, changes, message",
    [
        (
            SequenceSizes(70, 20),
            {},
            "too large: 'WH_0': a query and 4 candidates of 21 tokens",
        ),
        (SequenceSizes(23, 24), {}, "too large"),
        (SIZES, {"supports": ["\u200b"]}, "no text: 'WH_0'"),
        (
            SIZES,
            {"candidates": ["norland", "\u200b"]},
            r"empty candidate: 'WH_0': '\\u200b' has no token",
        ),
    ],
)
def test_what_has_no_room_or_no_token_is_refused(sizes, changes, message):
    with pytest.raises(BadRecordError, match=message):
        windows_of(sizes, **changes)


def test_the_smallest_input_has_one_token_of_a_document():
    made = windows_of(SequenceSizes(24, 21))
    assert len(made) == 30 and all(len(pieces(w)) == 24 for w in made)


# --- upper bound ----------------------------------------------------------------------


def test_gold_outputs_over_several_inputs_are_right(tmp_path):
    path = write_json(tmp_path, list(synthetic.records(12, seed=2)))
    sizes = SequenceSizes(300, 256)
    got = WIKIHOP_SEQUENCE.upper_bound([path], BERT, sizes)
    assert got.scores.metrics == {"accuracy": 1.0} and got.losses == ()
    windows = [
        len(WIKIHOP_SEQUENCE.features(r, BERT, sizes))
        for r in wikihop.records.read([path])
    ]
    assert max(windows) > 1


def test_what_does_not_fit_is_a_loss(tmp_path):
    path = write_json(tmp_path, [WIKIHOP])
    got = WIKIHOP_SEQUENCE.upper_bound([path], BERT, SequenceSizes(70, 20))
    assert got.scores.metrics == {"accuracy": 0.0}
    assert "too large: 'WH_0'" in got.losses[0].reason
