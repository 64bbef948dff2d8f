"""The quickstart around the training command; `tests/e2e` runs it with a real one."""

import dataclasses
import json
import os
import re
import signal
import sys
import textwrap
import threading
import time

import pytest

from launch import quickstart, quickstart_runs
from launch.quickstart_report import checks, report, resume_problems
from launch.quickstart_runs import Launch, QuickstartError, Workdir, digest

TOTAL, EVERY = 20, 5
METRICS = {
    "unigram_entropy": 6.5,
    "cpc_pool_sentences": 256,
    "cpc_pool_documents": 80,
    "cpc_pool_top1": 0.1,
    "cpc_pool_shuffled_top1": 0.004,
    "cpc_pool_chance": 1 / 256,
}
LOSSES = {"mlm_loss": 5.5, "cpc_loss": 1.1, "cpc_accuracy": 0.6}
FACTS = {
    "parameters": 4637121,
    "documents": 900,
    "tokens": 1900000,
    "validation_documents": 50,
    "validation_tokens": 70000,
    "device": "1 x cpu",
    "cpu": "Some CPU",
    "cores": 2,
    "system": "Linux",
    "versions": {"python": "3.11.7", "jax": "0.10.2"},
}

# Stands for the training command: counts steps, saves on SIGTERM, can be continued.
CHILD = """
    import json, pathlib, signal, sys, time
    folder = pathlib.Path(sys.argv[1])
    secs, faults = float(sys.argv[2]), sys.argv[3:]
    folder.mkdir(exist_ok=True)
    train = {"num_steps": 20, "log_every_steps": 5, "eval_steps": 10, "batch_size": 8}
    model = {"num_layers": 1, "embed_dim": 8, "radius": 4}
    config = {"train": train, "model": model, "data": {"long_length": 512}}
    (folder / "run.json").write_text(json.dumps({"config": config}))
    last, metrics = folder / "last_checkpoint.json", folder / "metrics.jsonl"
    step = json.loads(last.read_text())["step"] if last.exists() else 0
    if "forgets" in faults and step:
        step = 0
        metrics.write_text("")
    if "repeats" in faults and step:
        step -= step % 5 + 1
    asked = []
    signal.signal(signal.SIGTERM, lambda *_: asked.append(1))
    lines = metrics.read_text() if metrics.exists() else ""
    metrics.write_text(lines)  # the real one drops what is newer than the checkpoint
    def save():
        last.write_text(json.dumps({"step": step}))
    def tell(kind, **values):
        with metrics.open("a") as file:
            values |= {"wall": time.perf_counter()}
            file.write(json.dumps({"kind": kind, "step": step, **values}) + "\\n")
    marker = folder / "was_stopped"
    while step < 20:
        while step == 15 and not asked and not marker.exists():
            time.sleep(0.01)  # however slow the machine is, the signal comes in time
        if asked and "deaf" not in faults:
            save()
            if step >= 10:
                marker.touch()
            sys.exit(17)
        if "fails" in faults:
            sys.exit(2)
        time.sleep(secs)
        step += 1
        if step % 5 == 0:
            tell("train", tokens_per_s=1000.0, mlm_loss=5.5)
    tell("eval", mlm_loss=5.0, mlm_accuracy=0.2, cpc_accuracy=0.5)
    save()
"""


def child_command(tmp_path, *faults, secs=0.06):
    script = tmp_path / "child.py"
    script.write_text(textwrap.dedent(CHILD))
    run = tmp_path / "run"
    return [sys.executable, str(script), str(run), str(secs), *faults]


def train(command, workdir):
    log = workdir.folder.parent / "messages.txt"
    quickstart_runs.train(
        command, workdir, name="pre-training", log=log, stop_half_way=True
    )


@pytest.fixture(autouse=True)
def quick_polls(monkeypatch):
    monkeypatch.setattr(quickstart_runs, "_POLL_SECS", 0.02)


@pytest.fixture
def finished(tmp_path):
    """A function that makes the folder of a finished run, as files."""

    def make(*, loss=5.7, found=(), steps=range(EVERY, TOTAL + 1, EVERY), stop=12):
        workdir = Workdir(tmp_path)
        config = {
            "train": {
                "num_steps": TOTAL,
                "log_every_steps": EVERY,
                "eval_steps": 10,
                "batch_size": 8,
            },
            "model": {"num_layers": 4, "embed_dim": 192, "radius": 32},
            "data": {"long_length": 512},
        }
        (tmp_path / "run.json").write_text(json.dumps({"config": config}))
        lines = [
            json.dumps({"kind": "train", "step": s, "tokens_per_s": 900.0 + s} | LOSSES)
            + "\n"
            for s in steps
        ]
        before = [x for x, s in zip(lines, steps, strict=True) if s <= stop]
        scores = {"mlm_accuracy": 0.21, "cpc_accuracy": 0.55, "cpc_loss": 1.2}
        scores["mlm_loss"] = loss
        evaluation = json.dumps({"kind": "eval", "step": TOTAL, **scores}) + "\n"
        (tmp_path / "metrics.jsonl").write_text("".join(lines) + evaluation)
        everything = {**METRICS, **dict(found)}
        (tmp_path / "final_report.json").write_text(json.dumps(everything))
        first = Launch(17, 61.0, "half-way", stop, len(before), digest(before))
        last = Launch(0, 59.0, None, TOTAL, len(lines) + 1, "unused")
        workdir.note(
            launches=[dataclasses.asdict(x) for x in (first, last)], facts=FACTS
        )
        return workdir

    return make


def passed(workdir):
    return [check.passed for check in checks(workdir, None)]


def test_a_good_run_passes_and_is_not_trained_again(finished, capsys):
    workdir = finished()
    assert quickstart.run(["/nonexistent/command"], workdir, None) == 0
    out, err = capsys.readouterr()
    assert "holds a finished run" in err
    assert out.startswith("quickstart of etc_jax: passed\n- masked words: MLM loss on")
    assert out.endswith(f"report: {workdir.folder / 'report.md'}\n")
    text = (workdir.folder / "report.md").read_text()
    assert text.startswith("# Quickstart of etc_jax: passed")
    assert (workdir.folder / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_the_report_has_what_was_measured(finished):
    workdir = finished()
    text = report(workdir, None, checks(workdir, None))
    for part in (
        "4,637,121 parameters",
        "900 documents, 1,900,000 tokens",
        "5.700, which is 0.800 below",
        "10.00%, 25.6 times chance; 80 documents",
        "at most 1% | 0.40% | yes",
        "stopped at step 12, went on from there",
        "| pre-training | 17 at step 12, 0 at step 20 | 2.0 | 912 |",
        "Some CPU, 2 cores",
        "python 3.11.7, jax 0.10.2",
    ):
        assert part in text, part


def test_bars_are_where_they_are_said_to_be(finished):
    assert passed(finished(loss=5.8)) == [True] * 4
    assert passed(finished(loss=5.81)) == [False, True, True, True]
    assert passed(finished(found={"cpc_pool_top1": 0.04})) == [True] * 4
    low = [True, False, True, True]
    assert passed(finished(found={"cpc_pool_top1": 0.039})) == low
    assert passed(finished(found={"cpc_pool_documents": 19})) == low
    assert passed(finished(found={"cpc_pool_shuffled_top1": 0.01})) == [True] * 4
    shuffled = finished(found={"cpc_pool_shuffled_top1": 0.011})
    assert passed(shuffled) == [True, True, False, True]


def test_a_missed_bar_is_exit_code_1_and_named(finished, capsys, tmp_path):
    assert quickstart.run([], finished(loss=6.4), None) == 1
    words, sentences, *_ = capsys.readouterr().out.splitlines()[1:]
    assert "masked words" in words and "FAILED, the bar: at least 0.7 nats" in words
    assert "masked sentences" in sentences and sentences.endswith("[ok]")
    text = (tmp_path / "report.md").read_text()
    assert "FAILED" in text.splitlines()[0] and "| **no** |" in text


@pytest.mark.parametrize(
    "steps, message",
    [
        ([5, 10, 20], r"missing \[15\], too many \[\]"),
        ([5, 10, 10, 15, 20], r"missing \[\], too many \[10\]"),
        ([5, 10, 15], r"missing \[20\]"),
    ],
)
def test_steps_missing_or_twice_are_found(finished, steps, message):
    workdir = finished(steps=steps)
    (problem,) = resume_problems(workdir)
    assert re.search(message, problem)
    assert passed(workdir)[3] is False


def test_rewritten_metrics_of_before_the_stop_are_found(finished):
    workdir = finished()
    path = workdir.folder / "metrics.jsonl"
    path.write_text(path.read_text().replace("905.0", "906.0", 1))
    (problem,) = resume_problems(workdir)
    assert "the run went back" in problem


def test_a_run_without_a_stop_does_not_count_as_resumed(finished):
    workdir = finished()
    workdir.note(launches=workdir.record()["launches"][1:])
    (problem,) = resume_problems(workdir)
    assert "no stop half-way is on record" in problem


def test_a_line_that_is_being_written_is_left_out(finished):
    workdir = finished()
    before = workdir.metrics("train")
    with (workdir.folder / "metrics.jsonl").open("a") as file:
        file.write('{"kind": "train", "st')
    assert workdir.metrics("train") == before


def test_training_is_stopped_once_and_goes_on(tmp_path):
    workdir = Workdir(tmp_path / "run")
    train(child_command(tmp_path), workdir)
    first, second = workdir.launches()
    assert (first.exit_code, first.stopped_by) == (17, "half-way")
    assert 10 <= first.saved_step < TOTAL
    assert (second.exit_code, second.stopped_by) == (0, None)
    assert second.saved_step == TOTAL
    assert resume_problems(workdir) == []


@pytest.mark.parametrize("fault", ["forgets", "repeats"])
def test_a_run_that_does_not_go_on_where_it_was_is_found(tmp_path, fault):
    workdir = Workdir(tmp_path / "run")
    train(child_command(tmp_path, fault), workdir)
    assert len(workdir.launches()) == 2
    assert resume_problems(workdir)


def test_progress_is_printed_as_it_comes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(quickstart_runs, "_QUIET_SECS", 0.05)
    train(child_command(tmp_path), Workdir(tmp_path / "run"))
    shown = capsys.readouterr().err
    assert "quickstart: pre-training: at work for 0 s\n" in shown
    assert re.search(r"step 10 of 20, loss of masked words 5.50, \d.\d min left", shown)


def test_a_step_is_printed_once(finished, capsys):
    workdir = finished()
    progress = quickstart_runs.Progress("pre-training", workdir)
    for _ in range(2):
        with (workdir.folder / "metrics.jsonl").open("a") as file:
            file.write('{"kind": "eval", "step": 20}\n')
        progress.look()
    shown = capsys.readouterr().err
    assert shown == (
        "quickstart: pre-training: step 20 of 20, loss of masked words 5.50, masked "
        "sentences found 60%\n"
    )


def test_a_run_that_ignores_the_signal_does_not_count_as_resumed(tmp_path):
    workdir = Workdir(tmp_path / "run")
    train(child_command(tmp_path, "deaf"), workdir)
    (only,) = workdir.launches()
    assert (only.exit_code, only.stopped_by) == (0, "half-way")
    assert resume_problems(workdir)


def test_a_failing_command_ends_with_its_exit_code_and_messages(tmp_path, capsys):
    workdir = Workdir(tmp_path / "run")
    with pytest.raises(QuickstartError, match="exit code 2, expected 0"):
        train(child_command(tmp_path, "fails"), workdir)
    complaint = "import sys; sys.exit('no such field')"
    with pytest.raises(QuickstartError, match=f"exit code 1.*{tmp_path}/messages.txt"):
        train([sys.executable, "-c", complaint], Workdir(tmp_path / "no"))
    assert "no such field" in capsys.readouterr().err


def test_an_old_metrics_file_does_not_stop_a_child_that_is_starting(tmp_path):
    workdir = Workdir(tmp_path / "run")
    train(child_command(tmp_path, secs=0.001), workdir)
    sleeper = [sys.executable, "-c", "import time; time.sleep(0.3)"]
    launch = quickstart_runs.supervise(
        sleeper, workdir, name="x", log=tmp_path / "log", stop_half_way=True
    )
    assert (launch.exit_code, launch.stopped_by) == (0, None)


@pytest.fixture
def ctrl_c():
    """A process that a script started in the background ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_lets_the_run_save_and_the_same_command_goes_on(tmp_path):
    workdir = Workdir(tmp_path / "run")

    def interrupt():
        while not workdir.metrics("train"):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        train(child_command(tmp_path), workdir)
    thread.join()
    (only,) = workdir.launches()
    assert (only.exit_code, only.stopped_by) == (17, "user")
    assert 5 <= only.saved_step < TOTAL
    train(child_command(tmp_path), workdir)
    assert workdir.launches()[-1].exit_code == 0
    assert resume_problems(workdir) == []


FORM = "is not of the form --config.A.B=VALUE"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--nonsense=1"], f"'--nonsense=1' {FORM}"),
        (["--config.a.b"], f"'--config.a.b' {FORM}"),
        (["word"], f"'word' {FORM}"),
        (
            ["--finetuning.train.num_steps"],
            f"'--finetuning.train.num_steps' {FORM}",
        ),
        (["--finetuning.train.numsteps=7"], "'train.numsteps' is no field of"),
        (
            ["--pretrain_only", "--finetuning.train.num_steps=7"],
            "does not go with --pretrain_only",
        ),
    ],
)
def test_arguments_that_no_command_would_take_are_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        quickstart.main(arguments)
    assert caught.value.code == 2
    assert message in capsys.readouterr().err


@pytest.fixture
def planned(monkeypatch):
    """What `quickstart.main` would run with some arguments."""

    def plan(*arguments):
        seen = []
        monkeypatch.setattr(quickstart, "run", lambda *given: seen.append(given) or 0)
        before = signal.getsignal(signal.SIGTERM)
        assert quickstart.main(arguments) == 0
        assert signal.getsignal(signal.SIGTERM) is before
        return seen[0]

    return plan


def test_overrides_and_files_reach_the_commands_that_they_are_for(planned):
    command, workdir, questions = planned(
        "--workdir=w",
        "--config=c.py:tiny",
        "--config.train.num_steps=7",
        "--finetuning.train.num_steps=9",
    )
    assert command[1:] == [
        "-m",
        "etc_jax",
        "train",
        "--config=c.py:tiny",
        "--workdir=w",
        "--config.train.num_steps=7",
    ]
    assert questions.overrides == ["--config.train.num_steps=9"]
    assert questions.pretraining is workdir
    assert questions.folder == workdir.folder / "questions"


def test_fine_tuning_can_be_left_out(planned):
    assert planned("--pretrain_only")[2] is None
