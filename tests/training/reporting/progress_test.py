import io
import logging
import sys

import pytest

from etc_jax.training.reporting.progress import StepProgress, in_words

TRAIN = {
    "loss": 1.23456,
    "skipped_steps": 0,
    "failed_saves": 0,
    "data_wait_share": 0.01,
    "checkpoint_share": 0.0,
    "grad_norm": 3.0,
    "mlm_accuracy": 0.5,
    "tokens_per_s": 2048.4,
}


@pytest.fixture
def told(caplog):
    """The lines of a run of 10 steps with an evaluation after 4, 8 and 10."""
    caplog.set_level(logging.INFO, "etc_jax")

    def told(*events, **options):
        caplog.clear()
        progress = StepProgress(start=0, total=10, eval_every=4, **options)
        for kind, step, values in events:
            progress.report(kind, step, values)
        progress.close()
        return caplog.messages

    return told


def test_a_line_has_few_words_and_no_zeros(told):
    (line,) = told(("train", 2, {**TRAIN, "wall_secs": 6.0}))
    assert line == (
        "step 2 of 10: loss 1.235, mlm accuracy 0.5, 2,048 tokens/s, "
        "24 s left without evaluations"
    )


def test_what_no_example_has_a_label_for_is_left_out(told):
    values = {**TRAIN, "long_accuracy": float("nan"), "wall_secs": 6.0}
    (line,) = told(("train", 2, values))
    assert "mlm accuracy 0.5" in line and "nan" not in line


def test_the_share_of_a_known_devices_peak_is_told(told):
    (line,) = told(("train", 2, {**TRAIN, "mfu": 0.1623, "wall_secs": 6.0}))
    assert "2,048 tokens/s, MFU 16.2%, " in line


def test_troubles_are_told(told):
    values = {"skipped_steps": 3, "failed_saves": 1, "data_wait_share": 0.256}
    (line,) = told(("train", 2, {**TRAIN, **values, "wall_secs": 6.0}))
    assert "3 skipped as not finite, 1 saves failed" in line
    assert "26% of the time waiting for data" in line


def test_the_time_left_has_steps_and_evaluations(told):
    lines = told(
        ("train", 2, {"loss": 1.0, "wall_secs": 50.0}),  # a slow beginning
        ("train", 4, {"loss": 1.0, "wall_secs": 54.0}),
        ("eval", 4, {"loss": 1.0, "eval_secs": 30.0, "wall_secs": 84.0}),
        ("train", 8, {"loss": 1.0, "wall_secs": 92.0}),
        ("eval", 8, {"loss": 1.0, "eval_secs": 20.0, "wall_secs": 112.0}),
        ("train", 10, {"loss": 1.0, "wall_secs": 116.0}),
        ("eval", 10, {"loss": 1.0, "eval_secs": 20.0, "wall_secs": 136.0}),
    )
    assert [line.split(", ")[-1] for line in lines] == [
        "3 min left without evaluations",  # (50 / 2) * 8
        "12 s left without evaluations",  # (4 / 2) * 6
        "about 72 s left",  # 2 * 6, and two evaluations of 30 s
        "about 64 s left",  # 2 * 2, and that of this step is still to come
        "about 24 s left",
        "about 20 s left",
        "took 20 s",
    ]


def test_an_evaluation_shows_what_the_run_is_for(told):
    values = {
        "loss": 1.5,
        "accuracy": 0.25,
        "official_f1": 0.5,
        "official_em": 0.4,
        "wall_secs": 9.0,
        "eval_secs": 3.0,
    }
    (line,) = told(("eval", 4, values), best_metric="official_em")
    assert line == (
        "evaluation at step 4 of 10: loss 1.5, official em 0.4, official f1 0.5, "
        "accuracy 0.25, took 3 s"
    )


@pytest.mark.parametrize(
    "secs, words",
    [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (5940, "99 min"), (7500, "2 h 5 min")],
)
def test_times_in_words(secs, words):
    assert in_words(secs) == words


class Terminal(io.StringIO):
    broken = False

    def isatty(self):
        return True

    def write(self, text):
        if self.broken:
            raise BrokenPipeError
        return super().write(text)


def test_a_bar_on_a_terminal_has_the_loss_and_the_time_left(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "etc_jax")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    progress = StepProgress(start=2, total=4, eval_every=4)
    progress.advance()
    progress.report("train", 3, {"loss": 1.5, "wall_secs": 7.0})
    progress.close()
    *_, bar = terminal.getvalue().strip().split("\r")
    assert bar.startswith(" 75%|")
    assert "| step 3 of 4, loss 1.5, 7 s left without evaluations" in bar
    assert "step 3 of 4: loss 1.5" in caplog.text


def test_a_terminal_that_is_gone_does_not_end_the_run(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "etc_jax")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    progress = StepProgress(start=0, total=9, eval_every=4)
    terminal.broken = True
    progress.report("train", 1, {"loss": 1.0, "wall_secs": 1.0})
    progress.advance()
    progress.report("train", 2, {"loss": 1.0, "wall_secs": 2.0})
    progress.close()
    assert "no longer shown" in caplog.text and "step 2 of 9" in caplog.text
