import json
import math
import threading
import time

import limits
import numpy as np
import pytest

from etc_jax.training.prefetch import Prefetcher
from etc_jax.training.reporting import line_file, metrics as metrics_lib
from etc_jax.training.reporting.metrics import MetricsWriter, StepMetrics


def step_metrics(loss, skipped=0, total=0.0, weight=0.0):
    return {
        "loss": np.float32(loss),
        "learning_rate": np.float32(0.5),
        "grad_norm": np.float32(2),
        "param_norm": np.float32(3),
        "skipped": np.int32(skipped),
        "sums": {"accuracy": (np.float32(total), np.float32(weight))},
    }


def read(folder):
    text = (folder / "metrics.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def test_lines_are_strict_json(tmp_path):
    writer = MetricsWriter(tmp_path)
    writer.write("train", 1, {"loss": math.nan, "x": np.float32(0.5), "n": [np.inf, 1]})
    assert read(tmp_path) == [
        {"step": 1, "kind": "train", "loss": None, "x": 0.5, "n": [None, 1]}
    ]


def test_lines_after_the_resumed_step_go(tmp_path):
    writer = MetricsWriter(tmp_path)
    for step in range(1, 5):
        writer.write("train", step, {"loss": step / 2})
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 2, "ki')  # cut short by a crash
    writer = MetricsWriter(tmp_path, resume_step=2)
    writer.write("train", 3, {"loss": 7})
    assert [(x["step"], x["loss"]) for x in read(tmp_path)] == [
        (1, 0.5),
        (2, 1),
        (3, 7),
    ]


def write_lines(folder, *contents: bytes):
    (folder / "metrics.jsonl").write_bytes(b"".join(x + b"\n" for x in contents))


def line(step, kind="train", **values) -> bytes:
    return json.dumps({"step": step, "kind": kind, **values}).encode()


DAMAGED = (
    b'{"step": 1, "kind": "train", "loss": 0.\xff}',
    b"\x89PNG\r\n\x1a\n\0\0",
    b'{"step": "one"}',
    b"[1, 2]",
    b"null",
    b'{"kind": "train"}',
    b'{"step": NaN}',
    b"[" * 100_000,
)


@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_line_is_put_aside_and_named(tmp_path, caplog, damaged):
    write_lines(tmp_path, line(1), damaged, line(2), line(3))
    writer = MetricsWriter(tmp_path, resume_step=2)
    writer.write("train", 3, {"loss": 7})
    assert [x["step"] for x in read(tmp_path)] == [1, 2, 3]
    assert read(tmp_path)[-1]["loss"] == 7
    aside = (tmp_path / "metrics_unreadable.txt").read_bytes()
    assert aside.split() == damaged.split()
    assert "line 2" in caplog.text and "metrics_unreadable.txt" in caplog.text


def test_an_undamaged_file_stays_byte_for_byte(tmp_path, caplog):
    # A separator of Unicode is no end of a line; the last line has none.
    content = line(1, note="\u2028") + b"\n" + '{"step": 2, "é": "\u2028"}'.encode()
    (tmp_path / "metrics.jsonl").write_bytes(content)
    writer = MetricsWriter(tmp_path, resume_step=2)
    assert (tmp_path / "metrics.jsonl").read_bytes() == content
    writer.write("train", 3, {})
    assert (tmp_path / "metrics.jsonl").read_bytes() == content + b"\n" + line(
        3
    ) + b"\n"
    assert caplog.text == ""


@pytest.mark.parametrize("is_evaluated", [True, False])
def test_an_evaluation_that_is_made_again_stands_there_once(tmp_path, is_evaluated):
    write_lines(tmp_path, line(2, "eval"), line(4), line(4, "eval"), line(5))
    writer = MetricsWriter(tmp_path, resume_step=4, is_evaluated=is_evaluated)
    if not is_evaluated:
        writer.write("eval", 4, {})
    kinds = [(x["step"], x["kind"]) for x in read(tmp_path)]
    assert kinds == [(2, "eval"), (4, "train"), (4, "eval")]


class FullDisk:
    """Writes up to a size; then half of what is asked for and an error."""

    def __init__(self, monkeypatch):
        self.is_full = True

        def opened(path, mode):
            file = open(path, mode)
            return Half(file) if self.is_full else file

        monkeypatch.setattr(line_file, "open", opened, raising=False)


class Half:
    def __init__(self, file):
        self._file = file

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self._file.close()

    def write(self, content):
        self._file.write(content[: len(content) // 2])
        self._file.flush()
        raise OSError(28, "No space left on device")

    def __getattr__(self, name):
        return getattr(self._file, name)


def test_lines_wait_while_the_disk_is_full(tmp_path, monkeypatch, caplog):
    writer = MetricsWriter(tmp_path)
    writer.write("train", 1, {})
    disk = FullDisk(monkeypatch)
    for step in (2, 3):
        writer.write("train", step, {})
        assert [x["step"] for x in read(tmp_path)] == [1]
    assert caplog.text.count("METRICS NOT WRITTEN from step 2 on") == 1
    disk.is_full = False
    writer.write("eval", 3, {})
    writer.close()
    assert [x["step"] for x in read(tmp_path)] == [1, 2, 3, 3]
    assert "3 lines of metrics that had to wait are written now; 0" in caplog.text
    assert writer.lost_lines == 0


def test_lines_that_are_lost_are_counted(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(metrics_lib, "MOST_WAITING", 2)
    FullDisk(monkeypatch)
    writer = MetricsWriter(tmp_path)
    for step in (1, 2, 3):
        writer.write("train", step, {})
    assert writer.lost_lines == 1
    writer.close()
    assert "3 lines of metrics are not in" in caplog.text


def test_metrics_are_fetched_one_step_late():
    meter = StepMetrics()
    meter.add(1, step_metrics(1.0))
    assert meter.last_step is None
    meter.add(2, step_metrics(2.0))
    assert meter.last_step == 1
    meter.flush()
    assert meter.last_step == 2
    assert meter.take(tokens_per_step=1)["loss"] == 1.5


def test_sums_are_divided_by_their_weights():
    meter = StepMetrics()
    meter.add(1, step_metrics(1.0, total=3, weight=4))
    meter.add(2, step_metrics(1.0, total=1, weight=12))
    meter.flush()
    values = meter.take(tokens_per_step=10)
    assert values["accuracy"] == 4 / 16
    assert values["tokens_per_s"] == pytest.approx(20 / values["secs"])
    assert math.isnan(meter.take(tokens_per_step=1)["loss"])


def test_skipped_steps_are_counted_in_all_and_in_a_row():
    meter = StepMetrics(skipped_steps=5, skipped_in_row=1)
    for step, bad in enumerate([1, 1, 0, 1], 1):
        meter.add(step, step_metrics(np.nan if bad else 4.0, skipped=bad))
    assert (meter.skipped_steps, meter.skipped_in_row) == (7, 0)
    meter.flush()
    assert (meter.skipped_steps, meter.skipped_in_row) == (8, 1)
    assert meter.take(tokens_per_step=1)["loss"] == 4.0


def test_excluded_time_does_not_slow_the_tokens():
    meter = StepMetrics()
    began = time.perf_counter()
    time.sleep(0.05)
    meter.exclude(0.04)
    spent = time.perf_counter() - began
    assert meter.take(tokens_per_step=1)["secs"] <= spent - 0.03


def test_no_weight_gives_nan():
    assert math.isnan(metrics_lib.means({"x": (0.0, 0.0)})["x"])


def threads():
    return [t for t in threading.enumerate() if t.name == "prefetch"]


def test_batches_come_in_order_and_the_thread_ends():
    with Prefetcher(lambda s: s * 10, start=3, stop=9, ahead=2) as batches:
        assert [batches.get(s) for s in range(3, 9)] == [30, 40, 50, 60, 70, 80]
        with pytest.raises(IndexError, match="batch 9"):
            batches.get(9)
    assert not threads()


def test_no_more_batches_are_built_than_asked():
    built = []
    with Prefetcher(built.append, start=0, stop=100, ahead=2) as batches:
        batches.get(0)
        limits.until(lambda: len(built) >= 4)
        time.sleep(0.05)
        # One taken, two waiting, one in hand.
        assert built == [0, 1, 2, 3]
    assert not threads()


def test_an_exception_comes_at_its_step():
    def make(step):
        if step == 2:
            raise KeyError("bad shard")
        return step

    with Prefetcher(make, start=0, stop=5, ahead=4) as batches:
        assert [batches.get(0), batches.get(1)] == [0, 1]
        with pytest.raises(KeyError, match="bad shard"):
            batches.get(2)
    assert not threads()


def test_steps_out_of_order_are_refused():
    with Prefetcher(lambda s: s, start=0, stop=5, ahead=1) as batches:
        with pytest.raises(AssertionError, match="asked for batch 3, but 0"):
            batches.get(3)


def test_waiting_is_measured():
    def slow(step):
        time.sleep(0.05)
        return step

    with Prefetcher(slow, start=0, stop=2, ahead=1) as batches:
        batches.get(0)
        assert batches.waited_secs > 0.01


def test_a_window_goes_on_after_a_stop():
    whole, stopped = StepMetrics(), StepMetrics()
    steps = [step_metrics(0.1 * i, total=1 / (3 + i), weight=i) for i in range(1, 6)]
    for i, values in enumerate(steps):
        whole.add(i, values)
    for i, values in enumerate(steps[:3]):
        stopped.add(i, values)
    stopped.flush()
    saved = json.loads(json.dumps(stopped.window()))
    resumed = StepMetrics(window=saved)
    for i, values in enumerate(steps[3:], 3):
        resumed.add(i, values)
    got, want = [], []
    for meter, values in ((whole, want), (resumed, got)):
        meter.flush()
        taken = meter.take(tokens_per_step=1)
        values += [taken["loss"], taken["accuracy"]]
    assert got == want
    assert resumed.window() == {"losses": [], "sums": {}}


def test_the_time_spent_is_that_of_all_starts(tmp_path):
    assert metrics_lib.spent_secs(tmp_path) == 0
    for step, secs in ((1, 2.0), (2, 5.0), (3, 1.5), (4, 4.0)):  # the third is a start
        MetricsWriter(tmp_path, resume_step=step).write(
            "train", step, {"wall_secs": secs}
        )
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"step": 5, "kind": "tr')  # cut short by a kill
    assert metrics_lib.spent_secs(tmp_path) == 5 + 4
