"""What every data set tells the command lines, and that it is consistent."""

import dataclasses
import gzip
import json

import classification_samples
import coreference_samples
import jax
import multihop_samples
import natural_questions_samples
import numpy as np
import openkp_samples
import pytest
import triviaqa_samples
import written_samples
from multihop_samples import HOTPOT, WIKIHOP, split_at_stops, write_json
from natural_questions_samples import ANN, original, write_lines
from score_packages import require_for
from structured_batch import stacked_labels
from written_windows import write_windows

from etc_jax.data.schema import at, stacked
from etc_jax.data.tokenizers.tokenizer import grown
from etc_jax.data.windows.cache import WindowReader
from etc_jax.data.windows.writing import WindowSource
from etc_jax.datasets import choice_inputs, span_inputs, task
from etc_jax.datasets.explained import Explained, Passage
from etc_jax.datasets.file_summary import summarised
from etc_jax.datasets.records import (
    BadRecordError,
    PassedOverError,
    Problems,
    read_records,
)
from etc_jax.tasks import (
    hotpotqa,
    wikihop,
)
from etc_jax.tasks.classification import structured as structured_text
from etc_jax.tasks.multiple_choice import structured as structured_choice

HOTPOTQA_TASK = hotpotqa.DATA_SET.in_format()

SIZES = (80, 40)
SHORT = (24, 16)  # the article has several windows
VALUES = {
    "hotpotqa": HOTPOT,
    "wikihop": WIKIHOP,
    "natural_questions": original(said=(ANN, ANN)),
    # With fewer than three keyphrases the precision of three cannot be 1.
    "openkp": openkp_samples.page(phrases=("old mill", "Ton", "mill burned")),
    "triviaqa": triviaqa_samples.VALUE,
    "imdb": {**classification_samples.REVIEW, "label": 1},
    "hyperpartisan": {**classification_samples.ARTICLE, "label": "true"},
    "classification": {"id": "a", "text": "the old mill stands.", "label": "b c"},
    "coreference": coreference_samples.VALUE,
    "text_to_text": {
        "id": "a",
        "input": "who owned the old mill?",
        "target": "ann lee",
    },
    "wmt14_en_de": written_samples.TRANSLATION,
    "squad": written_samples.QUESTION,
    "token_classification": {
        "id": "a",
        "tokens": [["ann", "lee", "owned", "it", "."], ["who", "burned", "ton", "?"]],
        "tags": [["B-p", "I-p", "O", "O", "O"], ["O", "O", "B-t", "O"]],
    },
    "multiple_choice": {
        "question_unique_id": "a",
        "question": "who owned the mill?",
        "options": ["a baker", "ann lee", "new york"],
        "article": "the old mill stands in ton. ann lee owned the mill.",
        "gold_label": 2,
        "difficult": 1,
    },
    "retrieval": {
        "id": "a",
        "query": "who owned it?",
        "passage": "ann lee owned it.",
        "negatives": ["the mill burned."],
    },
}
# What a task must be told before it can read.
OPTIONS = {
    "classification": {"labels": ("a", "b c", "d")},
    "token_classification": {
        "labels": ("B-p", "B-t", "I-p", "I-t", "O"),
        "scheme": "iob2",
    },
}
# A value that is no gold answer, where it is not 3.
BROKEN = {"classification": [3], "multiple_choice": 4}
ID = {
    "classification": "id",
    "hotpotqa": "_id",
    "wikihop": "id",
    "natural_questions": "example_id",
    "openkp": "url",
    "triviaqa": "QuestionId",
    "imdb": "id",
    "hyperpartisan": "id",
    "coreference": "doc_key",
    "text_to_text": "id",
    "wmt14_en_de": "id",
    "squad": "id",
    "token_classification": "id",
    "multiple_choice": "question_unique_id",
    "retrieval": "id",
}
GOLD = {
    "classification": "label",
    "hotpotqa": "answer",
    "wikihop": "answer",
    "natural_questions": "annotations",
    "openkp": "KeyPhrases",
    "triviaqa": "Answer",
    "imdb": "label",
    "hyperpartisan": "label",
    "coreference": "clusters",
    "text_to_text": "target",
    "wmt14_en_de": "de",
    "squad": "answers",
    "token_classification": "tags",
    "multiple_choice": "gold_label",
    "retrieval": "passage",
}


LINES = ("natural_questions", "openkp", "imdb", "hyperpartisan", "coreference")
LINES += ("text_to_text", "wmt14_en_de", "classification", "retrieval")
LINES += ("token_classification", "multiple_choice")
RELEASES = {
    "triviaqa": triviaqa_samples.release_of,
    "squad": written_samples.write_release,
}


@pytest.fixture(autouse=True)
def no_model_of_sentences(monkeypatch):
    split = lambda texts: [s for t in texts for s in split_at_stops(t)]  # noqa: E731
    modules = (choice_inputs, span_inputs, structured_text, structured_choice)
    for module in modules:
        monkeypatch.setattr(module, "split_sentences", split)


EVERY = [(name, form) for name in task.names() for form in task.find(name).converters]


@pytest.fixture(params=EVERY, ids="-".join)
def found(request):
    require_for(request.param[0])
    return found_task(*request.param)


def found_task(name, format):
    """The data set with the options that it needs."""
    return task.find_task(name, format).with_options(OPTIONS.get(name, {}))


def windows_of(found, without="", **changes):
    value = {**VALUES[found.name], **changes}
    value.pop(without, None)
    record = found.parse(value, lambda *note: None)
    if found.name == "squad" and found.format != "text_to_text":
        found = found.with_options({"question_tokens": 16})
    if found.name == "natural_questions":
        found = found.with_options({"question_tokens": 4, "stride": 8})
        return found.features(record, tokenizer_of(found), type(found.sizes)(*SHORT))
    return found.features(record, tokenizer_of(found), type(found.sizes)(*SIZES))


def tokenizer_of(found):
    if found.name != "natural_questions":
        return multihop_samples.tokenizer_for(found)
    tokenizer = natural_questions_samples.tokenizer()
    return grown(tokenizer, found.tokens) if found.tokens else tokenizer


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
    made = task.find_task("natural_questions")
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
    value = dict(VALUES[found.name])
    del value[GOLD[found.name]]
    assert found.gold(found.parse(value, lambda *note: None)) is None
    with pytest.raises(ValueError, match="has no (gold answer|target)"):
        found.gold_outputs(windows_of(found, without=GOLD[found.name]))


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


def test_windows_come_back_from_a_cache(found, tmp_path):
    window = windows_of(found)[0]
    lengths = window.schema.window_lengths(window)
    sizes = {window.schema.lengths[axis]: length for axis, length in lengths.items()}
    source = WindowSource(found.name, found.format, sizes)
    cache = write_windows([window] * 2, tokenizer_of(found), tmp_path / "c", source)
    assert (cache.format, cache.sizes) == (found.format, lengths)
    given = {"lengths": lengths, "batch_size": 3, "seed": 0, "evaluation": True}
    got = WindowReader([cache], **given).batch_at(0)
    assert got.pop("weights").tolist() == [1, 1, 0]
    want = stacked([window] * 2)
    if window.labels:
        want["labels"] = stacked_labels([window] * 2)
    assert got.keys() == want.keys()
    jax.tree.map(lambda x, y: np.testing.assert_array_equal(x[:2], y), got, want)
    for axis, mark in window.schema.marks.items():
        assert (at(got, mark)[2] == window.schema.fields[mark].padding).all(), axis


def test_settings_of_users_are_checked():
    assert task.find_task("hotpotqa").checked_setting(0.35) == 0.35
    with pytest.raises(ValueError, match="threshold is nan; expected 0 to 1"):
        task.find_task("hotpotqa").checked_setting(float("nan"))
    with pytest.raises(ValueError, match="wikihop has none"):
        task.find_task("wikihop").checked_setting(0.5)


# --- thresholds -----------------------------------------------------------------------


def test_each_threshold_is_decoded_as_by_itself():
    rng = np.random.default_rng(4)
    windows = windows_of(task.find_task("hotpotqa")) * 30
    outputs = hotpotqa.Outputs(
        support=rng.normal(size=(30, 40)),
        answer_type=rng.normal(size=(30, 3)) + [2.0, 0.0, 0.0],
        span=rng.integers(0, 3, (30, 80, 2)).astype(float),
    )
    together = HOTPOTQA_TASK.decode(outputs, windows, HOTPOTQA_TASK.settings)
    several = set()
    for i, row in enumerate(together):
        alone = hotpotqa.Outputs(*(x[i : i + 1] for x in outputs))
        for threshold, got in zip(HOTPOTQA_TASK.settings, row, strict=True):
            assert [[got]] == HOTPOTQA_TASK.decode(alone, windows[:1], (threshold,))
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
    found = task.find_task("hotpotqa")
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
    found = task.find_task("hotpotqa")
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


def write_values(folder, found, values, name):
    """A file as the data set has them."""
    if found.name in RELEASES:
        return RELEASES[found.name](folder, values, name)
    if found.name in LINES:
        return write_lines(folder / f"{name}.jsonl.gz", values)
    return write_json(folder, values, f"{name}.json")


def test_a_summary_counts_all_there_is(found, tmp_path):
    value, key, gold = VALUES[found.name], ID[found.name], GOLD[found.name]
    broken = {**value, gold: BROKEN.get(found.name, 3)}
    other = {**value, key: "second"}
    first = write_values(tmp_path, found, [value, broken], "a")
    second = write_values(tmp_path, found, [dict(value), other], "b")
    got = summarised(found, [first, second])
    assert got.ids == (str(value[key]), "second")
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
    other = {**VALUES[found.name], ID[found.name]: "second"}
    path = write_values(tmp_path, found, [VALUES[found.name], other], "a")
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(BadRecordError, match="file cut short: .*/a.json"):
        summarised(found, [path])


def test_a_line_that_is_no_json_is_one_unreadable_record(tmp_path):
    found = task.find_task("natural_questions")
    path = tmp_path / "a.jsonl.gz"
    lines = [json.dumps(VALUES[found.name]), "{", "", "[1]"]
    path.write_bytes(gzip.compress("\n".join(lines).encode()))
    got = summarised(found, [path])
    assert (len(got.ids), got.unreadable) == (1, 2)


def test_a_record_that_is_passed_over_is_not_lost(tmp_path):
    def read(paths, problems):
        return read_records(paths, parse, problems)

    def parse(value, note):
        if value["id"] == "worse":
            raise PassedOverError("url twice", "another line is taken")
        return wikihop.parse(value, note)

    found = dataclasses.replace(task.find_task("wikihop"), read=read)
    path = write_json(tmp_path, [WIKIHOP, {**WIKIHOP, "id": "worse"}])
    got = summarised(found, [path])
    assert got.unreadable == 0 and dict(got.problems.counts) == {"url twice": 1}
