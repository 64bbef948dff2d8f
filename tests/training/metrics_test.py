import io
import json
import logging
import math
import signal
import sys
import threading
import time

import numpy as np
import pytest

from etc_jax.training import metrics as metrics_lib
from etc_jax.training.metrics import MetricsWriter, Progress, StepMetrics
from etc_jax.training.preemption import PreemptionGuard
from etc_jax.training.prefetch import Prefetcher


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


def test_progress_is_plain_lines_without_a_terminal(caplog):
    with caplog.at_level(logging.INFO):
        progress = Progress(start=0, total=9)
        progress.advance()
        progress.report("train", 3, {"loss": 0.123456789, "skipped_steps": 0})
        progress.close()
    assert "train 3/9 loss=0.12346 skipped_steps=0" in caplog.text


def test_progress_is_a_bar_on_a_terminal(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    progress = Progress(start=2, total=4)
    progress.advance()
    progress.report("eval", 3, {"loss": 1.5})
    progress.close()
    assert "eval 3/4 loss=1.5" in terminal.getvalue()
    assert "3/4" in terminal.getvalue().replace("eval 3/4", "")


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
        deadline = time.monotonic() + 5
        while len(built) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_first_signal_sets_a_flag_and_the_second_acts_as_usual(number):
    before = signal.getsignal(number)
    with PreemptionGuard() as guard:
        assert not guard.requested and signal.getsignal(number) is not before
        signal.raise_signal(number)
        assert guard.requested and guard.signal_name == signal.Signals(number).name
        assert signal.getsignal(number) is before
    assert signal.getsignal(number) is before


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with PreemptionGuard():
        pass
    assert signal.getsignal(signal.SIGTERM) is before


def test_another_thread_is_told_that_signals_are_not_caught(caplog):
    def body():
        with PreemptionGuard() as guard:
            assert not guard.requested

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert "SIGTERM will not be caught" in caplog.text


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
