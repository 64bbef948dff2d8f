"""What every data set tells the command lines, and that it is consistent."""

import json

import numpy as np
import pytest
from multihop_samples import HOTPOT, WIKIHOP, split_at_stops, tokenizer, write_json

from etc_jax.models.heads import AnswerLogits
from tasks import hotpotqa, task, wikihop, wikihop_features
from tasks.explained import Explained, Passage
from tasks.multihop import Sizes, batch, model_inputs
from tasks.records import BadRecordError
from tasks.survey import survey

SIZES = Sizes(80, 40)
VALUES = {"hotpotqa": HOTPOT, "wikihop": WIKIHOP}


@pytest.fixture(autouse=True)
def no_model_of_sentences(monkeypatch):
    split = lambda texts: split_at_stops(texts[0])  # noqa: E731
    monkeypatch.setattr(wikihop_features, "split_sentences", split)


@pytest.fixture(params=task.NAMES)
def found(request):
    return task.find(request.param)


def windows_of(found, **changes):
    record = found.parse({**VALUES[found.name], **changes}, lambda *note: None)
    return found.features(record, tokenizer(), SIZES)


def gold_outputs(found, windows):
    if found.name == "wikihop":
        return wikihop.gold_outputs(windows)
    gold = hotpotqa.gold_outputs(windows)
    return AnswerLogits(gold.answer_type, gold.span, gold.support)


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(ValueError, match="no task 'nq'; there are: hotpotqa, wikihop"):
        task.find("nq")


def test_gold_outputs_score_full_marks_in_every_setting(found):
    windows = windows_of(found)
    [predictions] = found.decode(gold_outputs(found, windows), windows, found.settings)
    assert len(predictions) == len(found.settings) and found.setting in found.settings
    record = windows[0].record
    for setting, prediction in zip(found.settings, predictions, strict=True):
        if setting in (0.0, 1.0):
            continue  # everything supports, nothing does
        read_back = json.loads(json.dumps(prediction))
        scores = found.score(
            [found.gold(record)], found.official({record.id: read_back})
        )
        assert scores.metrics[found.measure] == 1.0


def test_no_answer_is_wrong_and_is_an_answer(found):
    [window] = windows_of(found)
    official = found.official({window.record.id: found.no_answer})
    scores = found.score([found.gold(window.record)], official)
    assert scores.metrics[found.measure] == 0.0 and scores.problems() == []


def test_records_of_test_files_have_no_gold(found):
    value = dict(VALUES[found.name])
    del value["answer"]
    assert found.gold(found.parse(value, lambda *note: None)) is None


def test_model_inputs_are_those_of_a_batch(found):
    windows = windows_of(found) * 2
    tokens, types, structure, _ = batch(windows)
    got = model_inputs(windows)
    assert sorted(got) == [
        "global_tokens",
        "global_types",
        "long_tokens",
        "long_types",
        "structure",
    ]
    for name, want in (("tokens", tokens), ("types", types)):
        np.testing.assert_array_equal(got[f"long_{name}"], want.long)
        np.testing.assert_array_equal(got[f"global_{name}"], want.global_)
    np.testing.assert_array_equal(got["structure"].links, structure.links)


def test_settings_of_users_are_checked():
    assert task.find("hotpotqa").checked_setting(0.35) == 0.35
    with pytest.raises(ValueError, match="threshold is nan; expected 0 to 1"):
        task.find("hotpotqa").checked_setting(float("nan"))
    with pytest.raises(ValueError, match="wikihop has none"):
        task.find("wikihop").checked_setting(0.5)


# --- thresholds -----------------------------------------------------------------------


def test_each_threshold_is_decoded_as_by_itself():
    rng = np.random.default_rng(4)
    windows = windows_of(task.find("hotpotqa")) * 30
    outputs = hotpotqa.Outputs(
        support=rng.normal(size=(30, 40)),
        answer_type=rng.normal(size=(30, 3)) + [2.0, 0.0, 0.0],
        span=rng.integers(0, 3, (30, 80, 2)).astype(float),
    )
    together = hotpotqa.TASK.decode(outputs, windows, hotpotqa.TASK.settings)
    several = set()
    for i, row in enumerate(together):
        alone = hotpotqa.Outputs(*(x[i : i + 1] for x in outputs))
        for threshold, got in zip(hotpotqa.TASK.settings, row, strict=True):
            want = hotpotqa.decode(alone, windows[:1], threshold=threshold)
            assert got["answer"] == want.answer["a1"]
            assert got["support"] == want.support["a1"]
        several.add(len({p["answer"] for p in row}))
    assert max(several) > 2


# --- explanations ---------------------------------------------------------------------


def test_a_hotpotqa_answer_shows_its_place_and_support():
    found = task.find("hotpotqa")
    windows = windows_of(found)
    [told] = found.explain(gold_outputs(found, windows), windows, 0.4)
    assert isinstance(told, Explained) and told.answer == "Ann Lee"
    supporting = [(d.title.text, n) for d, n in told.supporting()]
    assert supporting == [("Old Mill", 0), ("Ann Lee", 1)]
    # The title above a supporting sentence holds the answer.
    [place] = [p for d in told.documents for p in (d.title, *d.passages) if p.marks]
    [(start, stop)] = place.marks
    assert place.text[start:stop] == "Ann Lee"
    assert [len(d.passages) for d in told.documents] == [2, 1, 2]
    assert told.documents[0].passages[0].probability == pytest.approx(1.0)
    assert told.as_json()["support"][1]["text"] == " She owned the Old Mill."


def test_what_did_not_fit_has_no_probability():
    found = task.find("hotpotqa")
    record = found.parse(HOTPOT, lambda *note: None)
    windows = found.features(record, tokenizer(), Sizes(28, 40))
    [told] = found.explain(gold_outputs(found, windows), windows, 0.0)
    shown = [p.probability is not None for d in told.documents for p in d.passages]
    assert True in shown and False in shown
    assert [p.is_support for d in told.documents for p in d.passages] == shown


def test_yes_marks_nothing():
    found = task.find("hotpotqa")
    windows = windows_of(found, answer="yes")
    [told] = found.explain(gold_outputs(found, windows), windows, 0.4)
    assert told.answer == "yes"
    assert not any(p.marks for d in told.documents for p in (d.title, *d.passages))


def test_a_wikihop_answer_shows_candidates_and_mentions():
    found = task.find("wikihop")
    windows = windows_of(found)
    logits = np.full((1, 40), 7.0)  # of no candidate
    logits[0, :4] = np.log([0.5, 0.25, 0.2, 0.05])
    [told] = found.explain(logits, windows, None)
    assert told.answer == "norland"
    assert [c.text for c in told.candidates] == WIKIHOP["candidates"]
    got = [c.probability for c in told.candidates]
    assert got == pytest.approx([0.5, 0.25, 0.2, 0.05])
    marks = [
        (number, p.text[start:stop])
        for number, d in enumerate(told.documents)
        for p in d.passages
        for start, stop in p.marks
    ]
    assert marks == [(1, "Norland")]  # "Norlands" is another word


def test_a_terminal_gets_no_control_characters():
    told = Explained("\x1b[2Jid", "who\r\nis", "a\x1b]0;b\x07", ())
    text = told.text()
    assert "\x1b" not in text and "\r" not in text and "\x07" not in text
    assert text.splitlines()[1].split() == ["question", "who", "is"]
    assert Passage("x").marks == ()


# --- survey ---------------------------------------------------------------------------


def test_a_survey_counts_all_there_is(found, tmp_path):
    value = VALUES[found.name]
    key = "_id" if found.name == "hotpotqa" else "id"
    twice = {**value}
    broken = {k: v for k, v in value.items() if k != "answer"} | {"answer": 3}
    other = {**value, key: "second"}
    first = write_json(tmp_path, [value, broken], "a.json")
    second = write_json(tmp_path, [twice, other], "b.json")
    got = survey(found, [first, second])
    assert got.ids == (value[key], "second") and got.unreadable == 2
    assert dict(got.problems.counts) == {"wrong type": 1, "id twice": 1}
    assert [g["answer"] for g in got.gold] == [value["answer"]] * 2
    assert len(set(got.sha256)) == 2


def test_a_survey_refuses_a_file_that_is_cut_short(found, tmp_path):
    path = write_json(tmp_path, [VALUES[found.name]] * 2)
    path.write_text(path.read_text()[:-9])
    with pytest.raises(BadRecordError, match="file cut short"):
        survey(found, [path])
