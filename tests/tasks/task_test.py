"""What every data set tells the command lines, and that it is consistent."""

import dataclasses
import gzip
import json
import re

import jax
import multihop_samples
import numpy as np
import pytest
from data_sets import FORMATS, SAMPLES, in_lines, task_of, tokenizer_of, windows_of
from multihop_samples import HOTPOT, WIKIHOP, write_json
from score_packages import require_for

from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer, grown
from etc_jax.datasets import task
from etc_jax.datasets.explained import Explained, Passage
from etc_jax.datasets.file_summary import summarised
from etc_jax.datasets.records import (
    BadRecordError,
    PassedOverError,
    Problems,
    read_records,
)
from etc_jax.tasks import hotpotqa, wikihop

pytestmark = pytest.mark.usefixtures("sentences_at_stops")
# Inputs that follow official code, whose quirks can be asked for.
OFFICIAL = [
    (name, "structured")
    for name in ("hotpotqa", "wikihop", "natural_questions", "openkp")
]
# Whose labels are 0 where there is no gold answer; others are -1.
NONE_IS_0 = ("natural_questions", "openkp", "coreference")
IN_LINES = [name for name, sample in SAMPLES.items() if sample.write is in_lines]


@pytest.fixture(params=FORMATS, ids="-".join)
def found(request):
    require_for(request.param[0])
    return task_of(*request.param)


def test_an_unknown_name_is_told_the_known_ones():
    with pytest.raises(ValueError, match="no data set named 'nq'; .*hotpotqa"):
        task.find_task("nq")


def test_gold_outputs_score_full_marks_in_every_setting(found):
    windows = windows_of(found)
    decoded = found.decode(found.gold_outputs(windows), windows, found.settings)
    # What is kept of a window is small, and can be kept anywhere.
    predictions = found.predictions(json.loads(json.dumps(decoded)))
    assert len(windows) > 1 or found.name != "natural_questions"
    assert len(predictions) == len(found.settings) and found.setting in found.settings
    record = windows[0].record
    for setting, prediction in zip(found.settings, predictions, strict=True):
        if setting in (0.0, 1.0):
            continue  # everything supports, nothing does
        read_back = json.loads(json.dumps(prediction))
        scores = found.score(
            [found.gold(record)], found.official({record.id: read_back})
        )
        assert scores.metrics[found.metric] == 1.0


def test_a_record_of_one_window_says_what_that_window_says():
    made = task.find_task("hotpotqa")
    assert made.predictions([["a", "b"]]) == ["a", "b"]
    with pytest.raises(ValueError, match="too many values"):
        made.predictions([["a"], ["b"]])


def test_an_unread_record_adds_nothing_that_is_right():
    made = task_of("natural_questions")
    windows = windows_of(made)
    [[right]] = [
        made.predictions(made.decode(made.gold_outputs(windows), windows, (None,)))
    ]
    gold = [made.gold(windows[0].record), made.unread_gold("x")]
    official = made.official({windows[0].record.id: right, "x": made.no_answer})
    metrics = made.score(gold, official).metrics
    for part in ("long", "short"):
        assert metrics[f"{part}-answer-precision"] == 1.0
        assert metrics[f"{part}-answer-recall"] == 0.5


def test_no_answer_is_wrong_and_is_an_answer(found):
    window = windows_of(found)[0]
    official = found.official({window.record.id: found.no_answer})
    scores = found.score([found.gold(window.record)], official)
    assert scores.metrics[found.metric] == 0.0 and scores.problems() == []


def test_records_of_test_files_have_no_gold(found):
    sample = SAMPLES[found.name]
    windows = windows_of(found, without=sample.gold)
    assert found.gold(windows[0].record) is None
    why = "no target" if found.format == "text_to_text" else sample.untrained
    most = 0 if found.name in NONE_IS_0 else -1
    for window in windows:
        assert re.fullmatch(why, window.unusable)
        labels = [x for name, x in window.labels.items() if "key" not in name]
        # Which sentences support an answer is said apart from it.
        assert found.name == "hotpotqa" or all((x <= most).all() for x in labels)
    with pytest.raises(ValueError, match="has no (gold answer|target)"):
        found.gold_outputs(windows)


def test_a_vocabulary_without_special_tokens_is_told_what_it_lacks(found):
    bare = WordPieceTokenizer(["[PAD]", "[UNK]", "the"])
    if (found.name, found.format) == ("openkp", "structured"):
        return  # of a page it needs one that every vocabulary has
    with pytest.raises(ValueError, match="lacks"):
        windows_of(found, model=grown(bare, found.tokens) if found.tokens else bare)
    if found.tokens:
        names = ",".join(found.tokens)
        with pytest.raises(ValueError, match="lacks the added tokens") as error:
            windows_of(found, model=multihop_samples.tokenizer())
        assert f"etc-jax grow --from=MODEL --tokens='{names}'" in str(error.value)


def test_quirks_are_those_of_official_inputs_alone(found):
    if (found.name, found.format) in OFFICIAL:
        assert windows_of(found, how={"official_quirks": True})
    else:
        with pytest.raises(ValueError, match="no official inputs .*leave official_qui"):
            windows_of(found, how={"official_quirks": True})


def test_a_whole_record_is_as_long_as_an_input_that_nothing_is_cut_from(
    found, tmp_path
):
    """Nothing of an invented record is cut off."""
    sample, model, seen = SAMPLES[found.name], tokenizer_of(found), set()
    file = sample.write(tmp_path, sample.invented(5), "a")
    whole = type(found.sizes)(1 << 12, 1 << 9)
    room = {"question_tokens": 100, "stride": None, "candidates": 1 << 14}
    room = {k: x for k, x in room.items() if k in found.option_values}
    found = found.with_options(room)
    for record in found.read([file], None):
        [window] = found.features(record, model, whole)
        mark = window.arrays()[window.schema.marks[window.schema.text[0]]]
        used = np.nonzero(mark)[0].max() + 1
        assert found.record_length(record, model) == used < 1 << 12
        seen.add(int(used))
    assert len(seen) > 1


def test_outputs_of_other_windows_are_refused(found):
    if found.learner == "text":
        return  # they are texts already
    windows = windows_of(found)
    gold = found.gold_outputs(windows)
    with pytest.raises(ValueError, match="give the outputs of these windows, in their"):
        found.decode(gold, [*windows, windows[0]], found.settings)
    broken = jax.tree.map(lambda x: np.full(x.shape, np.nan), gold)
    if found.name == "coreference":
        broken = gold._replace(scores=broken.scores)
    with pytest.raises(ValueError, match="NaN"):
        found.decode(broken, windows, found.settings)
    assert found.answers(jax.tree.map(lambda x: x[:0], gold), []) == {}


def test_settings_of_users_are_checked():
    assert task.find_task("hotpotqa").checked_setting(0.35) == 0.35
    with pytest.raises(ValueError, match="threshold is nan; expected 0 to 1"):
        task.find_task("hotpotqa").checked_setting(float("nan"))
    with pytest.raises(ValueError, match="wikihop has none"):
        task.find_task("wikihop").checked_setting(0.5)


# --- thresholds -----------------------------------------------------------------------


def test_each_threshold_is_decoded_as_by_itself():
    rng = np.random.default_rng(4)
    made = task_of("hotpotqa")
    windows = windows_of(made) * 30
    outputs = hotpotqa.decoding.Outputs(
        support=rng.normal(size=(30, 40)),
        answer_type=rng.normal(size=(30, 3)) + [2.0, 0.0, 0.0],
        span=rng.integers(0, 3, (30, 80, 2)).astype(float),
    )
    together = made.decode(outputs, windows, made.settings)
    several = set()
    for i, row in enumerate(together):
        alone = hotpotqa.decoding.Outputs(*(x[i : i + 1] for x in outputs))
        for threshold, got in zip(made.settings, row, strict=True):
            assert [[got]] == made.decode(alone, windows[:1], (threshold,))
        several.add(len({p["answer"] for p in row}))
    assert max(several) > 2


# --- files ----------------------------------------------------------------------------


def test_the_official_file_is_what_the_scorer_reads(found, tmp_path):
    window = windows_of(found)[0]
    content = found.official({window.record.id: found.no_answer})
    text = found.official_files(content)[found.prediction_file]
    if found.lines:
        assert found.prediction_file == "predictions.jsonl"
        assert [json.loads(line) for line in text.splitlines()] == content
    else:
        assert found.prediction_file == "predictions.json"
        if found.several:
            content = content[found.prediction_file]
        assert json.loads(text) == content


# --- explanations ---------------------------------------------------------------------


def test_a_hotpotqa_answer_shows_its_place_and_support():
    found = task_of("hotpotqa")
    windows = windows_of(found)
    [told] = found.explain(found.gold_outputs(windows), windows, 0.4)
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
    found = task.find_task("hotpotqa")
    record = found.parse(HOTPOT, lambda *note: None)
    tokenizer = multihop_samples.tokenizer()
    windows = found.features(record, tokenizer, type(found.sizes)(28, 40))
    [told] = found.explain(found.gold_outputs(windows), windows, 0.0)
    shown = [p.probability is not None for d in told.documents for p in d.passages]
    assert True in shown and False in shown
    assert [p.is_support for d in told.documents for p in d.passages] == shown


def test_yes_marks_nothing():
    found = task_of("hotpotqa")
    windows = windows_of(found, answer="yes")
    [told] = found.explain(found.gold_outputs(windows), windows, 0.4)
    assert told.answer == "yes"
    assert not any(p.marks for d in told.documents for p in (d.title, *d.passages))


def test_a_wikihop_answer_shows_candidates_and_mentions():
    found = task.find_task("wikihop")
    windows = windows_of(found)
    logits = np.full((1, 40), 7.0)  # of no candidate
    logits[0, :4] = np.log([0.5, 0.25, 0.2, 0.05])
    told = found.pool_explained(found.explain(logits, windows, None))
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


# --- summary of files -----------------------------------------------------------------


def test_a_summary_counts_all_there_is(found, tmp_path):
    sample = SAMPLES[found.name]
    value = sample.value
    broken = {**value, sample.gold: sample.broken}
    other = {**value, sample.id: "second"}
    first = sample.write(tmp_path, [value, broken], "a")
    second = sample.write(tmp_path, [value, other], "b")
    got = summarised(found, [first, second])
    assert got.ids == (str(value[sample.id]), "second")
    # Of lines with one url all but one are passed over, officially.
    twice, lost = ("url twice", 0) if found.name == "openkp" else ("id twice", 1)
    assert got.unreadable == 1 + lost
    of_labels = found.name in ("imdb", "hyperpartisan")
    wrong = "unknown label" if of_labels else "wrong type"
    assert dict(got.problems.counts) == {wrong: 1, twice: 1}
    read = [found.gold(record) for record in found.read([first, second], Problems())]
    assert list(got.gold) == read and None not in read
    assert len(set(got.sha256)) == 2


def test_a_summary_refuses_a_file_that_is_cut_short(found, tmp_path):
    sample = SAMPLES[found.name]
    other = {**sample.value, sample.id: "second"}
    path = sample.write(tmp_path, [sample.value, other], "a")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadRecordError, match="file cut short: .*/a.json"):
        summarised(found, [path])


@pytest.mark.parametrize("name", IN_LINES)
def test_a_line_that_is_no_json_is_one_unreadable_record(name, tmp_path):
    path = tmp_path / "a.jsonl.gz"
    lines = [json.dumps(SAMPLES[name].value), "{", "", "[1]"]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    got = summarised(task_of(name), [path])
    assert (len(got.ids), got.unreadable) == (1, 2)
    assert got.problems.counts["broken line"] == 1


@pytest.mark.parametrize("name", SAMPLES)
def test_a_missing_file_is_an_error_of_its_own(name, tmp_path):
    path = SAMPLES[name].write(tmp_path, [SAMPLES[name].value], "a")
    path.unlink()
    with pytest.raises(FileNotFoundError):
        list(task_of(name).read([path], Problems()))


def test_a_record_that_is_passed_over_is_not_lost(tmp_path):
    def read(paths, problems):
        return read_records(paths, parse, problems)

    def parse(value, note):
        if value["id"] == "worse":
            raise PassedOverError("url twice", "another line is taken")
        return wikihop.records.parse(value, note)

    found = dataclasses.replace(task.find_task("wikihop"), read=read)
    path = write_json(tmp_path, [WIKIHOP, {**WIKIHOP, "id": "worse"}])
    got = summarised(found, [path])
    assert got.unreadable == 0 and dict(got.problems.counts) == {"url twice": 1}
