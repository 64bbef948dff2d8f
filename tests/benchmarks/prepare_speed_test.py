"""The benchmarks of making inputs, at tiny sizes; flat memory, at a larger one."""

import json
import pathlib
import subprocess
import sys

import pytest

from benchmarks import prepare, prepare_memory
from tasks import task as task_lib
from tasks.records import Problems

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """{task: (file, vocabulary)}."""
    folder = tmp_path_factory.mktemp("made_up")
    files = {name: prepare.made_up_file(name, folder, 30) for name in prepare.SYNTHETIC}
    return {name: (f, prepare.made_up_vocabulary(f)) for name, f in files.items()}


def texts_of(record):
    """All that is tokenised of a record, in one string."""
    if hasattr(record, "paragraphs"):
        parts = [record.question]
        for paragraph in record.paragraphs:
            parts += [paragraph.title, *paragraph.sentences]
    else:
        parts = [*record.candidates, record.query, *record.documents]
    return "".join("".join(parts).split())


@pytest.mark.parametrize("name", prepare.SYNTHETIC)
def test_the_package_gets_the_texts_of_the_features(made_up, tmp_path, name):
    file, vocabulary = made_up[name]
    task = task_lib.find(name)
    work = prepare._Work(task, [file], vocabulary, tmp_path)
    records = list(task.read([file], Problems()))
    got = ["".join("".join(batch).split()) for batch in work.batches]
    assert got == [texts_of(record) for record in records]
    ids = [i for batch in work.package() for e in batch for i in e.ids]
    own = [i for texts in work.batches for i, _ in vocabulary.encode_batch(texts)]
    assert ids == [i for x in own for i in x.tolist()]


def test_sentences_that_are_given_make_the_same_windows(made_up, tmp_path):
    work = prepare._Work(task_lib.find("wikihop"), *_as_list(made_up), tmp_path)
    for a, b in zip(work.features(), work.given(), strict=True):
        assert (a.tokens.long == b.tokens.long).all()


def _as_list(made_up):
    file, vocabulary = made_up["wikihop"]
    return [file], vocabulary


def test_json_and_table(tmp_path, capsys):
    out = tmp_path / "out.json"
    argv = ["--records=20", "--rounds=1", "--allow_busy", f"--out={out}"]
    assert prepare.main(argv) == 0
    got = json.loads(out.read_text())
    assert got["benchmark"] == "prepare"
    sides = {x["task"]: [row["name"] for row in x["rows"]] for x in got["tasks"]}
    assert sides == {
        "hotpotqa": ["package", "features", "prepare"],
        "wikihop": ["package", "features", "given", "prepare"],
    }
    for task in got["tasks"]:
        assert task["records"] == 20 and task["tokens"] > 1000
        for row in task["rows"]:
            speed = task["speed_of_package"][row["name"]]
            assert speed == pytest.approx(1 / row["ratio"]) and speed > 0
    assert "speed / package" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv, message",
    [
        (["x.json"], "files are of one task"),
        (["--task=wikihop", "x.json"], "files need their vocabulary"),
        (["--task=chess"], "chess"),
    ],
)
def test_bad_arguments_are_named(argv, message, capsys):
    with pytest.raises(SystemExit):
        prepare.parse(argv)
    assert message in capsys.readouterr().err


def test_a_long_file_is_one_that_can_be_read(tmp_path):
    count = prepare_memory.long_file(tmp_path / "long.json", 1.5)
    assert (tmp_path / "long.json").stat().st_size == pytest.approx(1.5e6, rel=0.01)
    problems = Problems()
    task = task_lib.find("hotpotqa")
    records = list(task.read([tmp_path / "long.json"], problems))
    assert len(records) == count > 200 and not problems.counts
    assert {len(record.id) for record in records} == {24}
    assert len({record.question for record in records}) > 90


def measured(tmp_path, megabytes, workers):
    """What the command finds, in a process of its own."""
    out = tmp_path / "memory.json"
    command = [sys.executable, "-m", "benchmarks.prepare_memory"]
    command += [f"--megabytes={megabytes}", f"--workers={workers}", f"--out={out}"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return json.loads(out.read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
def test_peaks_are_those_of_all_processes(tmp_path):
    got = measured(tmp_path, 0.2, workers=1)
    peaks = got["peak_bytes"]
    # This one, a worker, and the helper that multiprocessing starts.
    assert len(peaks) == 3 and "self" in peaks
    assert sum(x > 50 * 2**20 for x in peaks.values()) == 2
    assert got["growth"] >= 0 and got["records"] > 20


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
def test_memory_does_not_grow_with_the_file(tmp_path):
    assert measured(tmp_path, 100, workers=2)["growth"] < 0.1
