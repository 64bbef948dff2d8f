import dataclasses
import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from natural_questions_samples import ANN, ARTICLE, annotation, record, tokenizer

from etc_jax.formats.structured import StructuredSizes
from etc_jax.scoring import natural_questions as scoring
from etc_jax.tasks.natural_questions import DATA_SET
from etc_jax.tasks.natural_questions.decoding import (
    NO_ANSWER,
    Outputs,
    gold_outputs,
    official,
    official_gold,
    pool,
    summarise,
)
from etc_jax.tasks.natural_questions.inputs import NaturalQuestionsOptions, features
from etc_jax.tasks.natural_questions.labels import LONG, NO, NULL, PLACES, SHORT, YES
from etc_jax.tasks.natural_questions.spans import (
    DISJOINT,
    EXHAUSTIVE,
    JOINT,
    MODES,
    SpanBoundary,
    best_candidate,
    best_short,
)

SMALL = StructuredSizes(long_length=24, global_length=16)
WHOLE = StructuredSizes(long_length=80, global_length=20)
WORDS = ARTICLE.split(" ")


def windows(made=None, sizes=SMALL, stride=8):
    options = NaturalQuestionsOptions(question_tokens=4, stride=stride)
    return features(made or record(), tokenizer(), sizes, options=options)


def one_window(**changes):
    [window] = windows(record(**changes), WHOLE, stride=60)
    return window


def outputs_of(window, **logits) -> Outputs:
    """Logits by word, `short_begin={9: 3.0}`, and of types; 0 elsewhere."""
    span = np.zeros((1, len(window.word), 4))
    for kind, name in enumerate(PLACES):
        for word, logit in logits.get(name, {}).items():
            at = 0 if word == "cls" else np.flatnonzero(window.word == word)
            span[0, at, kind] = logit
    return Outputs(np.array([logits.get("types", [0.0] * 5)]), span)


def decoded(window, mode=JOINT, *, official_quirks=False, **logits):
    made = summarise(
        outputs_of(window, **logits), [window], official_quirks=official_quirks
    )
    return pool(made, mode, official_quirks=official_quirks)


def random_outputs(made, seed=0) -> Outputs:
    rng = np.random.default_rng(seed)
    b, n = len(made), len(made[0].word)
    return Outputs(rng.normal(size=(b, 5)), rng.normal(size=(b, n, 4)))


# --- spans ----------------------------------------------------------------------------

places = st.lists(
    st.tuples(st.integers(-40, 40), st.integers(0, 30)), min_size=0, max_size=12
).map(
    lambda found: sorted(
        (SpanBoundary(score / 4, word, -1, 0) for score, word in found),
        key=lambda place: -place.score,
    )
)


def pairs(begins, ends, most, low=0, high=31):
    for a, b in itertools.product(begins, ends):
        if low <= a.word <= b.word < high and b.word - a.word < most:
            yield a.score + b.score, a, b


@settings(max_examples=200, deadline=None)
@given(begins=places, ends=places, most=st.integers(1, 12), low=st.integers(0, 20))
def test_the_exhaustive_short_answer_is_the_best_of_all_pairs(begins, ends, most, low):
    got = best_short(begins, ends, EXHAUSTIVE, most, (low, low + 8))
    want = [score for score, _, _ in pairs(begins, ends, most, low, low + 8)]
    assert (got is None) == (not want)
    if got:
        assert got.score == max(want)
        assert low <= got.span[0] < got.span[1] <= low + 8
        assert got.span[1] - got.span[0] <= most


@settings(max_examples=200, deadline=None)
@given(begins=places, ends=places, most=st.integers(1, 12))
def test_the_joint_short_answer_takes_the_best_begin_then_the_best_end(
    begins, ends, most
):
    got = best_short(begins, ends, JOINT, most)
    able = [p for p in pairs(begins, ends, most)]
    if not able:
        assert got is None
        return
    best_begin = max(a.score for _, a, _ in able)
    want = max(
        b.score
        for _, a, b in able
        if a == next(x for x in begins if any(x == y for _, y, _ in able))
    )
    assert got.score == best_begin + want


def test_the_disjoint_short_answer_is_the_two_bests_or_nothing():
    begins = [SpanBoundary(3.0, 5, -1, 0), SpanBoundary(2.0, 1, -1, 0)]
    near, before = SpanBoundary(4.0, 6, -1, 0), SpanBoundary(4.0, 2, -1, 0)
    late = SpanBoundary(1.0, 8, -1, 0)
    assert best_short(begins, [near, late], DISJOINT, 9).span == (5, 7)
    assert best_short(begins, [before, late], DISJOINT, 9) is None
    assert best_short(begins, [before, late], JOINT, 9).span == (5, 9)


def test_a_begin_without_an_end_in_reach_gives_way_to_the_next():
    begins = [SpanBoundary(3.0, 20, -1, 0), SpanBoundary(2.0, 1, -1, 0)]
    got = best_short(begins, [SpanBoundary(1.0, 2, -1, 0)], JOINT, 5)
    assert (got.span, got.score) == ((1, 3), 3.0)


def test_a_short_answer_has_so_many_words_at_most():
    begins, ends = (
        [SpanBoundary(1.0, 0, -1, 0)],
        [SpanBoundary(9.0, 5, -1, 0), SpanBoundary(1.0, 4, -1, 0)],
    )
    assert best_short(begins, ends, JOINT, 6).span == (0, 6)
    assert best_short(begins, ends, JOINT, 5).span == (0, 5)


@settings(max_examples=100, deadline=None)
@given(begins=places, ends=places, seed=st.integers(0, 99))
def test_the_long_answer_is_the_candidate_with_the_best_sum(begins, ends, seed):
    rng = random.Random(seed)
    spans = sorted(
        {(a := rng.randrange(30), rng.randrange(a + 1, 32)) for _ in "x" * 9}
    )
    got = best_candidate(begins, ends, [(*s, -1, -1) for s in spans])
    sums = [
        a.score + b.score
        for a, b in itertools.product(begins, ends)
        if (a.word, b.word + 1) in spans
    ]
    assert (got is None) == (not sums)
    if got:
        assert got.score == max(sums) and got.span in spans


# --- pooling --------------------------------------------------------------------------


def test_scores_are_logits_over_that_of_cls():
    window = one_window()
    got = decoded(
        window,
        short_begin={9: 5.0, "cls": 2.0},
        short_end={9: 4.0, "cls": -1.0},
        long_begin={3: 3.0, "cls": 0.5},
        long_end={11: 2.0, "cls": 0.5},
    )
    assert (got["short"], got["short_score"]) == ([9, 10], 8.0)
    assert (got["long"], got["long_score"]) == ([3, 12], 4.0)
    assert got["yes_no"] == "none"


def test_a_constant_on_the_logits_of_a_window_changes_nothing():
    made = windows()
    outputs = random_outputs(made)
    moved = outputs._replace(span=outputs.span + np.arange(len(made))[:, None, None])
    first, second = (pool(summarise(x, made)) for x in (outputs, moved))
    for name in ("long", "short", "yes_no"):
        assert first[name] == second[name]
    for name in ("long_score", "short_score"):
        assert first[name] == pytest.approx(second[name], abs=1e-9)


def test_a_long_answer_is_a_candidate_whatever_the_best_words_are():
    window = one_window()
    logits = {"long_begin": {8: 9.0, 16: 3.0}, "long_end": {10: 9.0, 18: 3.0, 33: 2.0}}
    assert decoded(window, **logits)["long"] == [15, 19]
    officially = decoded(
        window,
        official_quirks=True,
        **{k: {**v, "cls": 1.0} for k, v in logits.items()},
        short_begin={"cls": 1.0},
        short_end={"cls": 1.0},
    )
    assert officially["long"] == [8, 11]


def test_an_answer_is_put_together_from_two_windows():
    made = windows(
        record(said=[annotation((14, 24))]), StructuredSizes(16, 16), stride=3
    )
    ends = [(w.labels["long_begin"], w.labels["long_end"]) for w in made]
    assert not any(all(x) for x in ends), "the table fits into a window"
    got = pool(summarise(gold_outputs(made), made))
    assert (got["long"], got["long_score"]) == ([14, 24], 40.0)


def test_the_order_of_windows_and_a_way_through_json_change_nothing():
    made = windows()
    summaries = summarise(random_outputs(made, seed=3), made)
    mixed = random.Random(1).sample(summaries, len(summaries))
    for mode in MODES:
        assert pool(summaries, mode) == pool(json.loads(json.dumps(mixed)), mode)


def test_windows_decoded_one_by_one_give_the_same_summaries():
    made = windows()
    outputs = random_outputs(made, seed=4)
    alone = [
        summarise(Outputs(*(x[i : i + 1] for x in outputs)), [w])[0]
        for i, w in enumerate(made)
    ]
    assert alone == summarise(outputs, made)


@pytest.mark.parametrize("mode", MODES)
def test_with_all_places_kept_pooling_equals_a_plain_search(mode):
    made = windows()
    outputs = random_outputs(made, seed=5)
    found = {name: {} for name in PLACES}
    for window, span in zip(made, outputs.span, strict=True):
        for at, kind in itertools.product(range(len(window.word)), range(4)):
            word = int(window.word[at])
            if word >= 0:
                score = span[at, kind] - span[0, kind]
                best = found[PLACES[kind]]
                best[word] = max(best.get(word, -np.inf), score)
    long = max(
        record().candidates,
        key=lambda c: found["long_begin"][c[0]] + found["long_end"][c[1] - 1],
    )
    got = pool(summarise(outputs, made, top=10_000), mode, max_short_words=4)
    assert tuple(got["long"]) == long
    begins, ends = (found[f"short_{x}"] for x in ("begin", "end"))
    allowed = [
        (a, b)
        for a, b in itertools.product(begins, ends)
        if 0 <= b - a < 4 and (mode != EXHAUSTIVE or long[0] <= a <= b < long[1])
    ]
    if mode == DISJOINT:
        best = max(begins, key=begins.get), max(ends, key=ends.get)
        allowed = [best] if best in allowed else []
    if mode == JOINT:
        best = max((a for a, _ in allowed), key=begins.get)
        allowed = [pair for pair in allowed if pair[0] == best]
    want = max(allowed, key=lambda p: begins[p[0]] + ends[p[1]], default=(-1, -2))
    assert got["short"] == [want[0], want[1] + 1]


def test_pooling_asks_for_every_window_of_one_record():
    made = summarise(random_outputs(windows()), windows())
    with pytest.raises(ValueError, match="no window to pool"):
        pool([])
    with pytest.raises(ValueError, match=r"windows \[1, 2.*; expected 0 to "):
        pool(made[1:])
    other = [{**made[0], "id": "other"}]
    with pytest.raises(ValueError, match=r"\['7', 'other'\]"):
        pool(made + other)
    with pytest.raises(ValueError, match="no mode 'best'; there are: joint, disjoint"):
        pool(made, "best")


def test_no_window_has_no_summary():
    assert summarise(Outputs(np.zeros((0, 5)), np.zeros((0, 24, 4))), []) == []


# --- yes and no -----------------------------------------------------------------------


def types(**logits):
    order = {"null": NULL, "yes": YES, "no": NO, "long": LONG, "short": SHORT}
    found = [0.0] * 5
    for name, logit in logits.items():
        found[order[name]] = logit
    return found


@pytest.mark.parametrize(
    "logits, want",
    [
        ({"yes": 2.0}, "yes"),
        ({"no": 2.0}, "no"),
        ({"yes": 2.0, "no": 3.0, "short": 2.5}, "no"),
        ({"yes": 2.0, "short": 2.0}, "none"),
        ({"yes": 2.0, "long": 2.1}, "none"),
        ({"yes": 2.0, "null": 2.1}, "none"),
        ({}, "none"),
    ],
)
def test_yes_or_no_is_said_if_above_short_long_and_null(logits, want):
    got = decoded(
        one_window(),
        types=types(**logits),
        long_begin={3: 3.0},
        long_end={11: 2.0},
        short_begin={9: 1.0},
        short_end={9: 1.0},
    )
    assert got["yes_no"] == want
    if want == "none":
        assert (got["short"], got["short_score"]) == ([9, 10], 2.0)
    else:
        assert (got["short"], got["short_score"]) == ([-1, -1], 5.0)
    assert got["long"] == [3, 12]


def test_the_type_is_that_of_the_window_that_shows_the_long_answer():
    made = windows()
    assert len(made) > 2
    shows = next(i for i, w in enumerate(made) if 3 in w.word and 11 in w.word)
    outputs = gold_outputs(made)
    for said in (shows, len(made) - 1):
        kinds = np.zeros((len(made), 5))
        kinds[said, YES] = 1.0
        summaries = summarise(outputs._replace(answer_type=kinds), made)
        assert (pool(summaries)["yes_no"] == "yes") == (said == shows)
        # The official code takes the last window, whatever it shows.
        given = outputs._replace(answer_type=kinds, span=outputs.span + 1.0)
        officially = pool(
            summarise(given, made, official_quirks=True), official_quirks=True
        )
        assert (officially["yes_no"] == "yes") == (said == len(made) - 1)


# --- official -------------------------------------------------------------------------


def test_officially_a_score_is_a_ratio():
    got = decoded(
        one_window(),
        official_quirks=True,
        short_begin={9: 6.0, "cls": 2.0},
        short_end={9: 4.0, "cls": -4.0},
        long_begin={3: 3.0, "cls": 0.5},
        long_end={11: 2.0, "cls": 0.5},
    )
    # Divided by -4, the end's logits that are 0 are above that of the answer.
    assert got["long_score"] == 3.0 / 0.5 + 2.0 / 0.5
    assert got["short_score"] == 6.0 / 2.0 + 0.0
    with pytest.raises(ValueError, match=r"'7', window 0: the logit of \[CLS\] is 0"):
        decoded(one_window(), official_quirks=True)


def test_officially_the_best_places_are_looked_for_in_the_question_too():
    window = one_window()
    outputs = random_outputs([window], seed=8)
    outputs.span[0, 1:4] += 50.0
    [sound] = summarise(outputs, [window], top=3)
    [quirky] = summarise(outputs, [window], top=3, official_quirks=True)
    for name in PLACES:
        assert len(sound[name]) == 3
        assert quirky[name] == []
    assert pool([quirky], official_quirks=True)["short"] == [0, 1]


def test_predictions_in_the_official_form_spell_their_answer(tmp_path):
    made = windows()
    predictions = {"7": pool(summarise(gold_outputs(made), made))}
    [got] = official(predictions)["predictions"]
    assert got["example_id"] == 7 and got["yes_no_answer"] == "none"
    for span, want in (
        (got["long_answer"], "<P> the mill was built by ann . </P>"),
        (got["short_answers"][0], "ann"),
    ):
        assert ARTICLE[span["start_byte"] : span["end_byte"]] == want
        assert " ".join(WORDS[span["start_token"] : span["end_token"]]) == want
    DATA_SET.in_format().write(predictions, tmp_path / "predictions.json")
    written = json.loads((tmp_path / "predictions.json").read_text())
    assert written == official(predictions)
    gold = official_gold(record(said=[ANN, ANN]))
    assert scoring.score([gold], written).metrics[scoring.AVERAGE_F1] == 1.0


def test_a_record_without_bytes_is_predicted_in_words():
    plain = dataclasses.replace(record(), word_bytes=None)
    made = windows(plain)
    got = pool(summarise(gold_outputs(made), made))
    assert got["long_bytes"] == got["short_bytes"] == [-1, -1]
    predictions = official({"7": got})
    gold = official_gold(record(said=[ANN, ANN]))
    assert scoring.score([gold], predictions).metrics[scoring.AVERAGE_F1] == 1.0


def test_no_answer_and_other_ids_have_an_official_form_too():
    found = official({"a7": NO_ANSWER, "-8": NO_ANSWER, "007": NO_ANSWER})
    names = [p["example_id"] for p in found["predictions"]]
    assert names == ["a7", -8, "007"]
    assert found["predictions"][0]["short_answers"] == []
    gold = [{**official_gold(record()), "example_id": name} for name in names]
    assert scoring.score(gold, found).count == 3
