"""Raw files to window caches: the command, what it leaves out, and going on."""

import dataclasses
import gzip
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import coreference_samples
import jax
import limits
import natural_questions_samples as articles
import numpy as np
import openkp_samples
import pytest
from data_sets import FORMATS, SAMPLES, task_of, tokenizer_of
from multihop_samples import HOTPOT, tokenizer, write_json
from repository import ROOT
from structured_batch import stacked_labels
from task_test import OFFICIAL

from etc_jax.cli import prepare
from etc_jax.data import parts
from etc_jax.data.schema import at, stacked
from etc_jax.data.windows.cache import WindowCache, WindowReader
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import Problems
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import hotpotqa

SIZES = StructuredSizes(256, 64)
PART_BYTES = 6_000  # a few records
# Articles have some windows then.
LENGTHS = {"natural_questions": (160, 100), "coreference": (4096, 1)}


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    """A saved tokenizer."""
    path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.json"
    tokenizer().save(path)
    return path


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """{task: a file of invented records}."""
    folder = tmp_path_factory.mktemp("made_up")
    return {
        name: sample.write(folder, sample.invented(40), name)
        for name, sample in SAMPLES.items()
    }


@pytest.fixture
def command(vocabulary, tmp_path, capsys):
    """Runs the command line; gives (exit code, what it printed, its errors)."""

    def command(files, *more, task="hotpotqa", out="c", workers=0):
        files = [files] if isinstance(files, os.PathLike) else files
        argv = [f"--task={task}", f"--tokenizer={vocabulary}", f"--workers={workers}"]
        argv += [f"--out={tmp_path / out}", *more, *map(str, files)]
        code = prepare.main(argv)
        return code, *capsys.readouterr()

    return command


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


def hotpot(name="a1", **changes):
    return HOTPOT | {"_id": name} | changes


# --- what is stored -------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, form, quirks",
    [*((*x, False) for x in FORMATS), *((*x, True) for x in OFFICIAL)],
)
@pytest.mark.usefixtures("sentences_at_stops")
def test_the_cache_holds_the_features_of_the_records(
    made_up, tmp_path, name, form, quirks
):
    task = task_of(name, form).completed([made_up[name]])
    model = tokenizer_of(task)
    sizes = type(task.sizes)(*LENGTHS.get(name, (4096, 430)))
    windows = [
        window
        for record in task.read([made_up[name]], Problems())
        for window in task.features(record, model, sizes, official_quirks=quirks)
        if window.unusable is None
    ]
    cache = prepare.prepare(
        task,
        [made_up[name]],
        model,
        tmp_path / "c",
        sizes=sizes,
        official_quirks=quirks,
        part_bytes=PART_BYTES,
    )
    assert len(windows) > 20 and cache.format == form
    assert [cache.record_id(i) for i in range(cache.num_windows)] == [
        window.record.id for window in windows
    ]
    count = len(windows)
    given = {"lengths": cache.sizes, "batch_size": count + 1, "seed": 0}
    batch = WindowReader([cache], **given, evaluation=True).batch_at(0)
    assert batch.pop("weights").tolist() == [1] * count + [0]
    want = stacked(windows)
    if windows[0].labels:
        want["labels"] = stacked_labels(windows)
    assert batch.keys() == want.keys()
    jax.tree.map(assert_equal, jax.tree.map(lambda x: x[:count], batch), want)
    for axis, mark in windows[0].schema.marks.items():
        padding = windows[0].schema.fields[mark].padding
        assert (at(batch, mark)[count] == padding).all(), axis


def assert_equal(got, want):
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


def test_an_option_that_is_called_like_a_length_is_taken(command, tmp_path):
    path = coreference_samples.write_text(tmp_path, coreference_samples.conll_2012())
    flags = ("--part_length=32", "--input_length=64", "--candidates=512")
    code, _, errors = command(path, *flags, task="coreference")
    assert (code, errors) == (0, "")
    cache = WindowCache.open(tmp_path / "c")
    assert cache.header["options"]["part_length"] == 32 and cache.sizes["input"] == 64


def test_lengths_of_another_format_are_refused(command, made_up):
    code, _, errors = command([made_up["hotpotqa"]], "--input_length=64")
    assert code == 2
    assert "have no --input_length; they have --long_length, --global_len" in errors


def test_the_header_says_how_it_was_made(command, made_up, tmp_path):
    files = [made_up["hotpotqa"]]
    assert command(files, "--long_length=900", "--official_quirks")[0] == 0
    cache = WindowCache.open(tmp_path / "c")
    assert cache.task == "hotpotqa" and cache.sizes == {"long": 900, "global": 256}
    assert cache.header["options"] == {"official_quirks": True}
    [[name, size, _]] = cache.header["made_by"]["files"]
    assert (name, size) == ("hotpotqa.json", files[0].stat().st_size)
    assert cache.header["counts"]["records"] == 40


def test_the_report_says_what_a_config_has_to_say(command, made_up, tmp_path):
    articles.tokenizer().save(tmp_path / "t.json")
    usual = (f"--tokenizer={tmp_path / 't.json'}", "--long_length=512")
    for number, (flags, said) in enumerate(
        [
            (["--flat", "--stride=99"], ["\"('flat=true', 'stride=99')\""]),
            (["--null_share=0.5", "--stride=128"], ["\"('stride=128',)\""]),
            (["--null_share=0.5"], []),
        ]
    ):
        name = "natural_questions"
        more = (*usual, *flags)
        code, text, _ = command(made_up[name], *more, task=name, out=f"c{number}")
        assert code == 0
        assert re.findall("train with --config.data.input_options=(.*)", text) == said


@pytest.mark.parametrize("workers, part_bytes", [(0, 1), (2, PART_BYTES)])
@pytest.mark.full(but=["2-*"])
def test_neither_workers_nor_parts_change_a_byte(
    made_up, tmp_path, workers, part_bytes
):
    task = task_lib.find_task("hotpotqa")

    def make(out, **kwargs):
        files = [made_up["hotpotqa"]]
        made = prepare.prepare(task, files, tokenizer(), tmp_path / out, **kwargs)
        return contents(made.path)

    assert make("one") == make("two", workers=workers, part_bytes=part_bytes)
    assert sorted(os.listdir(tmp_path)) == ["one", "two"]


def test_a_gzipped_file_holds_the_same_windows(command, made_up, tmp_path):
    packed = tmp_path / "hotpotqa.json.gz"
    packed.write_bytes(gzip.compress(made_up["hotpotqa"].read_bytes()))
    assert command(made_up["hotpotqa"], out="plain")[0] == 0
    assert command(packed, out="packed")[0] == 0
    plain, packed = (contents(tmp_path / name) for name in ("plain", "packed"))
    assert plain.keys() == packed.keys()
    assert [k for k in plain if plain[k] != packed[k]] == ["header.json"]


def test_parts_are_told_apart_by_all_that_their_records_hold():
    def digest(texts, **changes):
        record = openkp_samples.record(texts)
        record = dataclasses.replace(record, **changes)
        [(digest, _)] = parts.cut_records([record], 1)
        return digest

    texts = ("Old Mill",) * 600
    features = openkp_samples.record(texts).features
    assert digest(texts) == digest(texts)
    features[300, 0] += 1  # in the middle of thousands of numbers
    assert digest(texts) != digest(texts, features=features)


# --- going on -------------------------------------------------------------------------

SCRIPT = """
import sys, time
sys.path[:0] = {paths!r}
from etc_jax.cli import prepare
from etc_jax.datasets import task
from etc_jax.data.tokenizers.tokenizer import Tokenizer

class Slow:
    # Slow enough to be killed between two parts.
    def __getattr__(self, name):
        return getattr(task.find_task("hotpotqa"), name)

    def read(self, files, problems):
        for record in task.find_task("hotpotqa").read(files, problems):
            time.sleep(0.05)
            yield record

def main():
    model = Tokenizer.load(sys.argv[1])
    prepare.prepare(Slow(), [sys.argv[2]], model, sys.argv[3], workers=1,
                    part_bytes={part_bytes})

if __name__ == "__main__":
    main()
"""


def test_a_killed_run_goes_on_where_it_stopped(
    vocabulary, made_up, tmp_path, monkeypatch, caplog
):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(paths=[str(ROOT)], part_bytes=PART_BYTES))
    out = tmp_path / "out" / "c"
    file = made_up["hotpotqa"]
    process = subprocess.Popen([sys.executable, script, vocabulary, file, out])
    try:
        end = time.monotonic() + limits.SECS
        while len(list(out.parent.glob(".*/[0-9]*.npz"))) < 2:
            assert process.poll() is None and time.monotonic() < end
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert not out.exists()

    made = []
    part_of = prepare.part_of
    monkeypatch.setattr(prepare, "part_of", lambda *x: made.append(x) or part_of(*x))
    task, options = task_lib.find_task("hotpotqa"), {"part_bytes": PART_BYTES}
    with caplog.at_level("INFO"):
        prepare.prepare(task, [file], tokenizer(), out, **options)
    again = len(made)
    prepare.prepare(task, [file], tokenizer(), tmp_path / "whole", **options)
    [taken_over] = re.findall(r"(\d+) finished parts taken over", caplog.text)
    assert again and int(taken_over) >= 2
    assert again + int(taken_over) == len(made) - again
    assert contents(out) == contents(tmp_path / "whole")
    assert os.listdir(out.parent) == ["c"]


def test_a_finished_run_says_so_and_does_nothing(command, made_up, tmp_path):
    _, first, _ = command(made_up["hotpotqa"])
    before = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "c").iterdir()}
    code, text, _ = command(made_up["hotpotqa"])
    assert code == 0 and "c is finished already: nothing to do" in text
    assert text.endswith(first)
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "c").iterdir()} == before


def test_other_options_or_files_for_a_finished_folder_are_an_error(
    command, made_up, tmp_path
):
    command(made_up["hotpotqa"])
    before = contents(tmp_path / "c")
    other = write_json(tmp_path, [hotpot()])
    for files, more, message in (
        (made_up["hotpotqa"], ["--global_length=200"], "with sizes .*200"),
        (made_up["hotpotqa"], ["--official_quirks"], "with options .*True"),
        (other, [], "with made_by .*records.json"),
    ):
        code, _, error = command(files, *more)
        assert code == 2 and re.search(f"c holds a window cache {message}", error)
    assert contents(tmp_path / "c") == before


# --- bad input ------------------------------------------------------------------------


def test_everything_that_is_left_out_is_counted_and_named(command, tmp_path):
    records = [
        hotpot("good"),
        hotpot("twice"),
        hotpot("twice"),
        {"_id": "bare"},
        "no object",
        hotpot("typed", question=7),
        hotpot("unread", context=[]),
        hotpot("half", question="Who \ud83d built it?"),
        hotpot("long", question="who " * 300),
        hotpot("nowhere", answer="Zebra"),
        hotpot("nowhere 2", answer="Zebra"),
        hotpot("unanswered", answer="x", supporting_facts=[["Ton", 9]]),
        hotpot("empty paragraph", context=[["Void", []], *HOTPOT["context"]]),
        {k: v for k, v in hotpot("test").items() if k != "answer"},
    ]
    code, text, _ = command(write_json(tmp_path, records), "--long_length=256")
    assert code == 0
    kept = WindowCache.open(tmp_path / "c")
    assert [kept.record_id(i) for i in range(kept.num_windows)] == [
        *("good", "twice", "empty paragraph")
    ]
    assert "3 windows of 9 records" in text and "left out, 6:" in text
    for line in (
        "1 x no Unicode: 'half'",
        "1 x question too long: 'long'",
        "2 x answer not in the supporting text of the input: 'nowhere', 'nowhere 2'",
        "1 x no supporting fact in the input: 'unanswered'",
        "1 x no gold answer: 'test'",
        "1 x id twice",
        "1 x missing field",
        "2 x wrong type",
        "1 x no context",
        "1 x empty paragraph",
        "1 x supporting fact that points nowhere",
        "records.json, record 3: 'twice', first in",
    ):
        assert line in text, line
    assert "WARNING" not in text


@pytest.mark.parametrize(
    "spoil_fn, kind",
    [
        (lambda text: text[:-40], "file cut short"),
        (lambda text: text.replace("}, {", "} {"), "broken JSON"),
        (lambda text: "{}", "not a JSON array"),
    ],
)
def test_a_file_that_cannot_be_read_to_the_end_is_shouted_about(
    command, tmp_path, spoil_fn, kind
):
    whole = write_json(tmp_path, [hotpot("x"), hotpot("y")], "whole.json")
    cut = tmp_path / "cut.json"
    cut.write_text(spoil_fn(json.dumps([hotpot("a"), hotpot("b")])))
    code, text, _ = command([cut, whole])
    assert code == 0
    assert re.search(f"1 x {kind}\n +.*cut.json, ", text)
    assert text.splitlines()[-1].startswith(
        "WARNING: 1 of the files could not be read to the end"
    )
    assert WindowCache.open(tmp_path / "c").num_windows == (
        2 if kind == "not a JSON array" else 3
    )


@pytest.mark.parametrize(
    "records, message",
    [
        ([], "none of 0 records gives a window"),
        (
            [{"_id": "x"}, 3],
            "none of 0 records gives a window: 1 x missing field: .* wrong",
        ),
        ([hotpot(answer="Zebra")], "none of 1 records.* 1 x answer not in .*: 'a1'"),
    ],
)
def test_no_usable_window_is_an_error_that_leaves_nothing(
    command, tmp_path, records, message
):
    file = write_json(tmp_path, records)
    code, text, error = command(file)
    assert code == 2 and not text
    assert re.search(message, error) and error.count("\n") == 1
    assert os.listdir(tmp_path) == ["records.json"]


@pytest.mark.parametrize(
    "files, more, message",
    [
        (["/none/there.json"], [], "/none/there.json"),
        ([], ["--long_length=0"], "long_length must be at least 1"),
        (
            [],
            ["--global_length=40000"],
            "global_length must be at least 1 and at most 32767",
        ),
        ([], ["--workers=-1"], "workers is -1, expected 0"),
        ([], ["--tokenizer=/none/vocab.txt"], "no tokenizer at /none/vocab.txt"),
        ([], ["--out=/proc/nothing/c"], "/proc/nothing"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(
    command, made_up, tmp_path, files, more, message
):
    code, text, error = command(files or made_up["hotpotqa"], *more)
    assert code == 2 and not text
    assert message in error and error.count("\n") == 1
    assert error.startswith("etc-jax prepare: ")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "flag, message",
    [
        ("--stride=9", "there is no flag --stride; see etc-jax prepare --help"),
        ("--max_windows=2", "there is no flag --max_windows"),
    ],
)
def test_an_option_that_the_data_set_does_not_have_is_named(
    command, made_up, tmp_path, capsys, flag, message
):
    with pytest.raises(SystemExit) as stop:
        command(made_up["hotpotqa"], flag)
    assert stop.value.code == 2 and message in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


def test_a_tokenizer_without_the_special_tokens_is_named(command, made_up, tmp_path):
    from tokenizer_samples import byte_bpe

    byte_bpe().save(tmp_path / "bpe.json")
    code, _, error = command(
        made_up["hotpotqa"], f"--tokenizer={tmp_path / 'bpe.json'}"
    )
    assert code == 2 and "lacks" in error and error.count("\n") == 1
    assert os.listdir(tmp_path) == ["bpe.json"]


@pytest.mark.parametrize(
    "error, code, message",
    [
        (
            parts.WorkerDiedError("one of 2 processes"),
            1,
            "prepare: one of 2 processes",
        ),
        (KeyboardInterrupt(), 130, "stopped; the same command goes on"),
    ],
)
def test_a_run_that_was_ended_says_how_to_go_on(
    command, made_up, monkeypatch, error, code, message
):
    def stop(args):
        raise error

    monkeypatch.setattr(prepare, "run", stop)
    got, _, errors = command(made_up["hotpotqa"])
    assert got == code and message in errors


def test_help_shows_a_command_that_can_be_copied(capsys):
    with pytest.raises(SystemExit) as stop:
        prepare.main(["--help"])
    text = capsys.readouterr().out
    assert stop.value.code == 0
    assert "etc-jax prepare --task=hotpotqa --tokenizer=vocab.txt" in text
    assert "goes\non where it stood" in text


# --- progress, memory -----------------------------------------------------------------


def test_progress_is_printed_now_and_then(capsys):
    now = iter([0.0, 4.0, 10.0, 12.0, 30.0])
    show = prepare.progress_printer(lambda: next(now), every_secs=10.0)
    for records in (40, 100, 120, 500):
        show(records, records - 1)
    assert capsys.readouterr().out.splitlines() == [
        "100 records, 99 windows, 10 records/s",
        "500 records, 499 windows, 20 records/s",
    ]


def test_no_more_than_a_part_is_in_memory(made_up, tmp_path):
    task = task_lib.find_task("hotpotqa")
    alive, most = [], []

    class Counted(hotpotqa.records.Record):
        def __del__(self):
            alive.remove(self.id)

    def read(files, problems):
        for record in task.read(files, problems):
            alive.append(record.id)
            most.append(len(alive))
            yield Counted(*(getattr(record, f.name) for f in fields))

    fields = dataclasses.fields(hotpotqa.records.Record)
    counting, files = dataclasses.replace(task, read=read), [made_up["hotpotqa"]]
    cut = parts.cut_records(task.read(files, Problems()), PART_BYTES)
    largest = max(len(items) for _, items in cut)
    prepare.prepare(counting, files, tokenizer(), tmp_path / "c", part_bytes=PART_BYTES)
    assert len(most) == 40 and not alive
    assert 1 < max(most) <= largest + 1 < 20
