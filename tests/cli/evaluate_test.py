"""From raw official files to the official figures."""

import json
import os
import shutil
import signal
import time

import finetuned_run
import jax
import numpy as np
import programs
import pytest

from etc_jax.cli import evaluate
from etc_jax.data.schema import stacked
from etc_jax.data.windows.cache import CONTENTS_VERSION
from etc_jax.formats.structured import StructuredSizes
from etc_jax.objectives.learners import finetuning
from etc_jax.prediction import answer_parts
from etc_jax.scoring import (
    hotpotqa as hotpotqa_scoring,
    openkp as openkp_scoring,
    wikihop as wikihop_scoring,
)
from etc_jax.tasks import hotpotqa, openkp, wikihop

HOTPOTQA_TASK = hotpotqa.DATA_SET.in_format()

COUNT = 70  # three parts, the last one short
SCORING = {
    "hotpotqa": hotpotqa_scoring,
    "openkp": openkp_scoring,
    "wikihop": wikihop_scoring,
}


class Setup:
    """A run of a task, and a file of records."""

    def __init__(self, folder, name):
        self.name, self.folder = name, folder
        self.config = finetuned_run.config(name)
        self.run = finetuned_run.save_run(folder / "run", self.config)
        self.records = finetuned_run.records(name, COUNT)
        self.file = finetuned_run.write_records(folder, name, self.records)
        self.whole = folder / "whole"
        assert self.evaluate(self.whole) == 0

    def evaluate(self, out, *more, file=None):
        # Of options that come twice the last one counts. One size is compiled once.
        usual = [f"--model={self.run}", "--workers=0", "--batch_size=8"]
        return evaluate.main([*usual, f"--out={out}", *more, file or self.file])


@pytest.fixture(scope="module")
def hotpot(tmp_path_factory):
    return Setup(tmp_path_factory.mktemp("hotpotqa"), "hotpotqa")


@pytest.fixture(scope="module")
def wiki(tmp_path_factory):
    return Setup(tmp_path_factory.mktemp("wikihop"), "wikihop")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    return Setup(tmp_path_factory.mktemp("openkp"), "openkp")


@pytest.fixture(params=["hotpot", "wiki", "pages"])
def setup(request):
    return request.getfixturevalue(request.param)


def prediction_file(out):
    """The one file of predictions, in either form."""
    [path] = out.glob("predictions.*")
    return path


def predictions(out):
    path = prediction_file(out)
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    return json.loads(path.read_text())


def scores(out):
    return json.loads((out / evaluate.SCORES).read_text())


def one_by_one(setup, module):
    """(outputs, window) of each record, with no batch and on one device."""
    task = finetuning.of_config(setup.config)
    params = finetuned_run.random_params(setup.config, seed=finetuned_run.STEP)
    outputs = jax.jit(task.outputs)
    sizes, model = (
        StructuredSizes(*finetuned_run.LENGTHS[setup.name]),
        finetuned_run.tokenizer(),
    )
    data = module.DATA_SET.in_format()
    for record in data.read([setup.file]):
        windows = data.features(record, model, sizes)
        # One at a time, so that all are of one shape.
        inputs = (jax.tree.map(np.asarray, stacked([window])) for window in windows)
        got = [jax.device_get(outputs(params, x)) for x in inputs]
        yield jax.tree.map(lambda *parts: np.concatenate(parts), *got), windows


@pytest.mark.full
def test_hotpotqa_is_that_of_a_plain_loop(hotpot):
    found = list(one_by_one(hotpot, hotpotqa))
    files = []
    for threshold in HOTPOTQA_TASK.settings:
        together = {}
        for outputs, windows in found:
            together |= HOTPOTQA_TASK.answers(outputs, windows, threshold)
        files.append(json.loads(json.dumps(HOTPOTQA_TASK.official(together))))
    figures = [hotpotqa_scoring.score(hotpot.records, f).metrics for f in files]
    joint = [f["joint_f1"] for f in figures]
    best = joint.index(max(joint))
    assert len(set(joint)) > 3 and 0 < best < 10  # there was something to choose
    assert {"yes"} < set(files[best]["answer"].values())
    assert predictions(hotpot.whole) == files[best]
    told = scores(hotpot.whole)
    assert told["threshold"] == best / 10 and told["chosen_by"] == "best joint_f1"
    assert told["metrics"] == figures[best]
    assert [row.pop("threshold") for row in told["thresholds"]] == [
        i / 10 for i in range(11)
    ]
    assert told["thresholds"] == figures


@pytest.mark.full
def test_wikihop_is_that_of_a_plain_loop(wiki):
    want = {}
    for outputs, windows in one_by_one(wiki, wikihop):
        want |= wikihop.DATA_SET.in_format().answers(outputs, windows)
    assert predictions(wiki.whole) == want
    accuracy = np.mean([want[r["id"]] == r["answer"] for r in wiki.records])
    assert 0 < accuracy < 1
    told = scores(wiki.whole)
    assert told["metrics"] == {"accuracy": accuracy}
    assert told["records"] == COUNT and "threshold" not in told


def test_openkp_is_that_of_a_plain_loop(pages):
    want = {}
    for outputs, windows in one_by_one(pages, openkp):
        want |= openkp.DATA_SET.in_format().answers(outputs, windows)
    given = {line["url"]: line["KeyPhrases"] for line in predictions(pages.whole)}
    assert given == want and list(given) == [r["url"] for r in pages.records]
    assert len({phrase for p in want.values() for [phrase, *_] in p}) > 20
    told = scores(pages.whole)
    assert told["records"] == COUNT and "threshold" not in told
    assert 0 < told["metrics"]["F1@3"] < 1


def test_of_lines_with_one_url_one_is_answered_and_the_others_are_counted(
    pages, tmp_path, capsys
):
    nothing = [["no", "such", "phrase"]]
    worse = [{**r, "KeyPhrases": nothing} for r in pages.records[:5]]
    lines = [*worse, *pages.records[:20], *worse[:2]]
    file = finetuned_run.write_lines(tmp_path / "dev.jsonl", lines)
    assert pages.evaluate(tmp_path / "out", file=file) == 0
    told = scores(tmp_path / "out")
    assert (told["records"], told["unreadable"], told["without_input"]) == (20, 0, 0)
    assert told["problems"] == {"url twice": 7, "no keyphrase found": 7}
    assert predictions(tmp_path / "out") == predictions(pages.whole)[:20]
    official = openkp_scoring.score(pages.records[:20], predictions(tmp_path / "out"))
    assert told["metrics"] == official.metrics
    printed = capsys.readouterr().out
    assert "7 x url twice" in printed and repr(worse[0]["url"]) in printed


def test_the_files_are_those_of_the_official_scorer(setup):
    got = SCORING[setup.name].score(setup.records, predictions(setup.whole))
    assert got.problems() == []
    assert scores(setup.whole)["metrics"] == got.metrics


def test_the_report_is_printed(wiki, capsys):
    capsys.readouterr()
    assert wiki.evaluate(wiki.whole) == 0  # all parts are there
    out, err = capsys.readouterr()
    assert f"of {COUNT} records" in out and "accuracy" in out and err == ""


def test_records_that_are_cut_are_counted(wiki, tmp_path, capsys):
    short = wiki.records[0]
    long = {**short, "id": "long", "supports": [9 * x for x in short["supports"]]}
    file = finetuned_run.write(tmp_path / "dev.json", [long, short])
    assert wiki.evaluate(tmp_path / "out", file=file) == 0
    told = "1 of 2 records have more than the 256 tokens that the model reads, up to "
    assert f"{told}1787; they were cut" in capsys.readouterr().out.splitlines()


# --- records that cannot be answered --------------------------------------------------


def test_what_cannot_be_answered_is_wrong_and_named(hotpot, tmp_path, capsys):
    good = hotpot.records[:6]
    long = {**good[0], "_id": "long", "question": "who " * 600}
    broken = {**good[0], "_id": "broken", "context": []}
    values = [*good[:3], long, broken, *good[3:]]
    file = finetuned_run.write(tmp_path / "dev.json", values)
    assert hotpot.evaluate(tmp_path / "out", file=file) == 0
    got = predictions(tmp_path / "out")
    assert got["answer"]["long"] == "" and got["sp"]["long"] == []
    told = scores(tmp_path / "out")
    assert (told["records"], told["unreadable"], told["without_input"]) == (8, 1, 1)
    assert told["problems"] == {"no context": 1, "question too long": 1}
    official = hotpotqa_scoring.score(values, got)
    assert official.count == 8
    assert told["metrics"] == pytest.approx(official.metrics, abs=1e-15)
    printed = capsys.readouterr().out
    assert "'broken' has no paragraph" in printed and "'long': 600 tokens" in printed


def test_without_gold_answers_there_are_predictions_alone(hotpot, tmp_path, capsys):
    hidden = ("answer", "supporting_facts")
    values = [
        {k: v for k, v in r.items() if k not in hidden} for r in hotpot.records[:9]
    ]
    file = finetuned_run.write(tmp_path / "test.json", values)
    assert hotpot.evaluate(tmp_path / "out", file=file) == 0
    assert "no gold answers" in capsys.readouterr().out
    assert not (tmp_path / "out" / evaluate.SCORES).exists()
    fixed = tmp_path / "fixed"
    assert hotpot.evaluate(fixed, "--threshold=0.4") == 0
    got, with_gold = predictions(tmp_path / "out"), predictions(fixed)
    for part in ("answer", "sp"):
        want = {r["_id"]: with_gold[part][r["_id"]] for r in values}
        assert got[part] == want


def test_a_threshold_can_be_fixed(hotpot, tmp_path):
    shutil.copytree(hotpot.whole, tmp_path / "out")
    assert hotpot.evaluate(tmp_path / "out", "--threshold=0.1") == 0
    told = scores(tmp_path / "out")
    assert told["threshold"] == 0.1 and told["chosen_by"] == "as given"
    [want] = [row for row in told["thresholds"] if row["threshold"] == 0.1]
    assert told["metrics"] == {k: v for k, v in want.items() if k != "threshold"}
    assert told["metrics"] != scores(hotpot.whole)["metrics"]


# --- parts, shards, devices -----------------------------------------------------------


# How parts are shared out is one code for all data sets.
def one_data_set(name):
    """Runs a test on this data set, on the others where all tests are run."""
    others = {"hotpot", "wiki", "pages"} - {name}
    full = [pytest.param(x, marks=pytest.mark.full) for x in sorted(others)]
    return pytest.mark.parametrize("setup", [name, *full], indirect=True)


@one_data_set("pages")
def test_a_killed_evaluation_goes_on_where_it_was(setup, tmp_path):
    out = tmp_path / "out"
    process = programs.start(
        *("etc_jax.cli.evaluate", f"--model={setup.run}", f"--out={out}"),
        *("--workers=0", "--batch_size=8", setup.file),
        stdout=tmp_path / "printed",
    )
    while not list(out.glob("parts/0*.jsonl")) and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    assert process.wait() == -signal.SIGKILL, (tmp_path / "printed").read_text()
    there = sorted(out.glob("parts/0*.jsonl"))
    assert 0 < len(there) < 3 and not list(out.glob("predictions*"))
    before = [os.stat(path).st_mtime_ns for path in there]
    assert setup.evaluate(out) == 0
    assert [os.stat(path).st_mtime_ns for path in there] == before
    assert same(out, setup.whole)


def same(one, other):
    """Whether both evaluations ended with the same bytes."""
    names = (prediction_file(other).name, evaluate.SCORES)
    return all((one / n).read_bytes() == (other / n).read_bytes() for n in names)


def test_a_stopped_evaluation_says_how_to_go_on(hotpot, tmp_path, monkeypatch, capsys):
    write = answer_parts.Parts.write

    def stop(self, part, answers):
        if part == 1:
            raise KeyboardInterrupt
        write(self, part, answers)

    monkeypatch.setattr(answer_parts.Parts, "write", stop)
    assert hotpot.evaluate(tmp_path / "out") == 130
    assert "the same command goes on" in capsys.readouterr().err
    monkeypatch.undo()
    assert hotpot.evaluate(tmp_path / "out") == 0
    assert same(tmp_path / "out", hotpot.whole)


@one_data_set("hotpot")
def test_shards_together_are_the_whole(setup, tmp_path, capsys):
    out = tmp_path / "out"
    capsys.readouterr()
    assert setup.evaluate(out, "--shard=1/2") == 0
    assert "2 of 3 parts" in capsys.readouterr().out
    # The number of shards may change.
    assert setup.evaluate(out, "--shard=2/3") == 0
    assert not list(out.glob("predictions*"))
    assert setup.evaluate(out, "--shard=0/2") == 0
    assert same(out, setup.whole)


@one_data_set("wiki")
@pytest.mark.usefixtures("one_device")
def test_one_device_gives_what_eight_give(setup, tmp_path):
    assert (len(jax.local_devices()), jax.local_device_count()) == (1, 8)
    assert setup.evaluate(tmp_path / "out", "--batch_size=5") == 0
    assert same(tmp_path / "out", setup.whole)


def test_worker_processes_change_nothing(wiki, tmp_path):
    assert wiki.evaluate(tmp_path / "out", "--workers=1") == 0
    assert same(tmp_path / "out", wiki.whole)


def test_the_flat_structure_of_a_run_is_that_of_its_evaluation(wiki, tmp_path):
    flat = finetuned_run.config("wikihop", data__flat=True)
    run = finetuned_run.save_run(tmp_path / "run", flat)
    assert wiki.evaluate(tmp_path / "out", f"--model={run}") == 0
    assert predictions(tmp_path / "out") != predictions(wiki.whole)


def test_the_step_of_a_run_can_be_chosen(wiki, tmp_path):
    run = finetuned_run.save_run(tmp_path / "run", wiki.config, steps=(12, 14))
    newest, chosen, lone = (tmp_path / name for name in "abc")
    assert wiki.evaluate(newest, f"--model={run}") == 0
    assert scores(newest)["model"]["step"] == 14
    assert predictions(newest) != predictions(wiki.whole)
    assert wiki.evaluate(chosen, f"--model={run}", "--step=12") == 0
    assert wiki.evaluate(lone, f"--model={run}/checkpoints/12") == 0
    assert predictions(chosen) == predictions(lone) == predictions(wiki.whole)


# --- what is refused ------------------------------------------------------------------


@pytest.fixture
def refused(capsys, tmp_path, monkeypatch):
    """Runs a command that must fail before anything is compiled; gives its message."""

    def never(*args):
        raise AssertionError("compiled")

    def refused(setup, *more, file=None, out=None, code=2):
        with monkeypatch.context() as patch:
            patch.setattr("etc_jax.prediction.runner._compiled", lambda task: never)
            capsys.readouterr()
            assert setup.evaluate(out or tmp_path / "out", *more, file=file) == code
        return capsys.readouterr().err

    return refused


def test_parts_of_another_evaluation_are_refused(
    hotpot, refused, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    shutil.copytree(hotpot.whole, out)
    message = refused(hotpot, "--threshold=0.55", out=out)
    assert "another evaluation" in message and "thresholds: [0.0, 0.1" in message
    with monkeypatch.context() as patch:
        patch.setattr(evaluate, "CONTENTS_VERSION", 99)
        message = refused(hotpot, out=out)
    assert f"contents: {CONTENTS_VERSION} there, 99 now" in message
    other = finetuned_run.write(tmp_path / "other.json", hotpot.records[:-1])
    message = refused(hotpot, file=other, out=out)
    assert "records: 70 there, 69 now" in message and "files: [" in message
    assert "model" not in message
    run = finetuned_run.save_run(tmp_path / "run", hotpot.config, steps=(14,))
    message = refused(hotpot, f"--model={run}", out=out)
    assert "model: '" in message and "step: 12 there, 14 now" in message
    assert same(out, hotpot.whole)


def test_a_damaged_part_is_named_and_made_anew(wiki, tmp_path, caplog):
    out = tmp_path / "out"
    shutil.copytree(wiki.whole, out)
    part = out / "parts" / "00001.jsonl"
    lines = part.read_text().splitlines(keepends=True)
    part.write_text("".join(lines[:-1]))
    assert wiki.evaluate(out) == 0
    assert "00001.jsonl is damaged" in caplog.text
    for aside in part.parent.glob("*.damaged-*"):
        aside.unlink()
    assert same(out, wiki.whole)


def test_half_a_character_in_a_record_costs_no_more_than_the_record(
    wiki, tmp_path, capsys
):
    """JSON can spell half a surrogate pair, which is legal in no encoding of text."""
    records = json.loads(json.dumps(wiki.records[:3]))
    records[0]["id"] += "\ud800"
    records[1]["query"] += " \udfff"
    records[2]["answer"] = records[2]["candidates"][0] = "\ud800"
    file = finetuned_run.write_records(tmp_path, "wikihop", records)
    for _ in range(2):  # again: nothing is left to do but to report
        assert wiki.evaluate(tmp_path / "out", file=file) == 0
        assert "no Unicode" in capsys.readouterr().out
    assert set(predictions(tmp_path / "out")) == {r["id"] for r in records}


def test_a_folder_with_something_else_is_left_alone(wiki, refused, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    assert "something else" in refused(wiki, out=tmp_path / "mine")


def test_records_with_and_without_gold_do_not_mix(wiki, refused, tmp_path):
    values = [dict(r) for r in wiki.records[:5]]
    del values[3]["answer"]
    file = finetuned_run.write(tmp_path / "mixed.json", values)
    message = refused(wiki, file=file)
    assert "1 of 5 records have no gold answer, such as 'WH_synthetic_0_3'" in message


def test_a_broken_file_is_refused(wiki, refused, tmp_path):
    path = tmp_path / "cut.json"
    path.write_text(json.dumps(wiki.records)[:-2])
    assert "file cut short" in refused(wiki, file=str(path))
    assert "No such file" in refused(wiki, file=str(tmp_path / "none.json"))
    path.write_text("[]")
    assert "no record" in refused(wiki, file=str(path))


def test_options_that_do_not_fit_are_named(hotpot, wiki, refused):
    assert "wikihop has none" in refused(wiki, "--threshold=0.5")
    assert "expected 0 to 1" in refused(hotpot, "--threshold=1.5")
    message = refused(wiki, "--batch_size=12")
    assert "multiple of the 8 devices: nearest valid: 8 or 16" in message
    message = refused(wiki, "--batch_size=100000000")
    assert "--batch_size is 100000000: a batch of" in message and "GB" in message
    assert "expected 0 or more" in refused(wiki, "--workers=-1")
    with pytest.raises(SystemExit):
        wiki.evaluate("unused", "--shard=2/2")


def test_a_model_that_cannot_answer_is_refused(hotpot, wiki, refused, tmp_path):
    assert "there is no folder" in refused(wiki, f"--model={tmp_path / 'none'}")
    assert "of step 3 in" in refused(wiki, "--step=3")

    def changed(name, made=wiki.config):
        return finetuned_run.save_run(tmp_path / name, made)

    run = changed("tokenless")
    (run / "tokenizer.json").unlink()
    assert "tokenizer.json is missing" in refused(wiki, f"--model={run}")
    run = changed("small", finetuned_run.config("wikihop", model__num_types=5))
    message = refused(wiki, f"--model={run}")
    assert "global_types holds ids from 0 to 7, but model.num_types is 5" in message
    made = finetuned_run.config("wikihop", model__vocab_size=500, data__vocab_size=500)
    message = refused(wiki, f"--model={changed('large', made)}")
    assert "text up to id 1462, but the table of the model has 500 rows" in message
    assert "missing field" in refused(wiki, file=hotpot.file)


def test_damage_is_refused(wiki, refused, tmp_path):
    run = finetuned_run.save_run(tmp_path / "run", wiki.config)
    files = [p for p in (run / "checkpoints/12/state").rglob("*") if p.is_file()]
    part = max(files, key=lambda path: path.stat().st_size)
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 4
    part.write_bytes(content)
    assert "is damaged" in refused(wiki, f"--model={run}", code=4)


def test_logits_that_are_no_numbers_are_an_error(wiki, tmp_path, capsys, monkeypatch):
    random = finetuned_run.random_params

    def poisoned(made, seed=0):
        params = random(made, seed)
        params["head"]["candidate"]["bias"][:] = np.nan
        return params

    monkeypatch.setattr(finetuned_run, "random_params", poisoned)
    run = finetuned_run.save_run(tmp_path / "run", wiki.config)
    assert wiki.evaluate(tmp_path / "out", f"--model={run}") == 2
    assert "NaN or infinity" in capsys.readouterr().err
