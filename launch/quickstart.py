"""Pre-trains a small ETC, stops it half-way as a cluster would, resumes and reports.

    python -m launch.quickstart [--workdir=FOLDER] [--config=FILE] [--config.A.B=VALUE]

Arguments of the form --config.A.B=VALUE go to the training command as they are. The
report is printed and written to FOLDER/report.md. A folder that holds a finished run
is reported again, and nothing is trained.

Exit codes: 0 both bars hold and the resumed run went on where it was stopped; 1 one of
them does not, or training failed; 2 wrong arguments; 130 interrupted, run it again.
"""

import argparse
import dataclasses
import hashlib
import importlib.metadata
import json
import os
import pathlib
import platform
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from etc_jax.training.errors import PREEMPTED

RECORD = "quickstart.json"
REPORT = "report.md"
# Held-back MLM loss must be this much below the unigram entropy of the same text.
MLM_BAR_NATS = 0.5
# CPC must find its sentence in the pool this many times as often as chance does.
CPC_BAR_TIMES_CHANCE = 5
_POLL_SECS = 0.2
_GRACE_SECS = 120
_INTERRUPTED = 130
_PACKAGES = ("jax", "jaxlib", "flax", "optax", "orbax-checkpoint", "numpy")


class QuickstartError(Exception):
    """Training did not come to its end."""


@dataclasses.dataclass(frozen=True)
class Launch:
    """One start of the training command.

    Attributes:
      exit_code: of the training command; negative: killed by that signal.
      secs: wall time from start to end, setting up and compiling included.
      stopped_by: "half-way" or "user"; None if nothing stopped it.
      saved_step: of the newest checkpoint at the end; None if there is none.
      metrics_lines: whole lines of the metrics file at the end.
      metrics_sha256: of these lines.
    """

    exit_code: int
    secs: float
    stopped_by: str | None
    saved_step: int | None
    metrics_lines: int
    metrics_sha256: str

    @property
    def stopped_half_way(self) -> bool:
        return self.stopped_by == "half-way" and self.exit_code == PREEMPTED


@dataclasses.dataclass(frozen=True)
class Check:
    """One thing that the quickstart is to show: what it is, the bar, what came out."""

    name: str
    bar: str
    measured: str
    passed: bool


class Workdir:
    """What a run leaves in its folder, read while it may be written."""

    def __init__(self, folder: str | os.PathLike):
        self.folder = pathlib.Path(folder)

    def _json(self, name: str) -> dict[str, Any] | None:
        path = self.folder / name
        return json.loads(path.read_text()) if path.exists() else None

    def config(self) -> dict[str, Any] | None:
        """The config of the run; None before it has begun."""
        run = self._json("run.json")
        return None if run is None else run["config"]

    def saved_step(self) -> int | None:
        """Step of the newest checkpoint."""
        last = self._json("last_checkpoint.json")
        return None if last is None else last["step"]

    def final_report(self) -> dict[str, Any] | None:
        """Figures of the finished run; None before its end."""
        return self._json("final_report.json")

    def metrics_text(self) -> list[str]:
        """The lines of the metrics file, but for one that is being written."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return []
        lines = path.read_text().splitlines(keepends=True)
        return [line for line in lines if line.endswith("\n")]

    def metrics(self, kind: str) -> list[dict[str, Any]]:
        """The reports of one kind, "train" or "eval", in order."""
        lines = map(json.loads, self.metrics_text())
        return [line for line in lines if line["kind"] == kind]

    def metrics_stamp(self) -> tuple[int, int] | None:
        """Differs once the metrics file was written or replaced."""
        path = self.folder / "metrics.jsonl"
        if not path.exists():
            return None
        stat = path.stat()
        return stat.st_ino, stat.st_mtime_ns

    def record(self) -> dict[str, Any]:
        """What the quickstart noted about this run: launches, and facts at its end."""
        return self._json(RECORD) or {"launches": [], "facts": None}

    def launches(self) -> list[Launch]:
        """The launches so far, in order."""
        return [Launch(**launch) for launch in self.record()["launches"]]

    def note(self, **changes: Any) -> None:
        """Replaces entries of the record."""
        text = json.dumps(self.record() | changes, indent=2)
        part = self.folder / f".{RECORD}.part"
        part.write_text(text + "\n")
        part.replace(self.folder / RECORD)


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _half_done(workdir: Workdir) -> bool:
    config, lines = workdir.config(), workdir.metrics("train")
    if config is None or not lines:
        return False
    return 2 * lines[-1]["step"] >= config["train"]["num_steps"]


def _say(text: str) -> None:
    print(f"quickstart: {text}", file=sys.stderr, flush=True)


def supervise(
    command: Sequence[str], workdir: Workdir, *, stop_half_way: bool
) -> Launch:
    """Runs the training command to its end, or until it was asked to stop.

    The child is in a process group of its own, so that Ctrl-C reaches it once, through
    here.

    Args:
      command: what to run; its output is shown as it comes.
      workdir: where it writes.
      stop_half_way: send SIGTERM when half of the steps are done.

    Returns:
      The `Launch`. A KeyboardInterrupt ends it with `stopped_by` "user".
    """
    began, before = time.monotonic(), workdir.metrics_stamp()
    stopped_by = None
    child = subprocess.Popen(command, start_new_session=True)
    try:
        while child.poll() is None:
            # An unchanged file is that of an earlier launch, and its signal handler
            # may not be there yet.
            running = workdir.metrics_stamp() != before
            if stop_half_way and not stopped_by and running and _half_done(workdir):
                _say("half of the steps are done; stopping the run with SIGTERM")
                stopped_by = "half-way"
                child.send_signal(signal.SIGTERM)
            time.sleep(_POLL_SECS)
    except KeyboardInterrupt:
        stopped_by = "user"
        _say("interrupted; waiting for the run to save")
        _end(child)
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
    lines = workdir.metrics_text()
    return Launch(
        exit_code=child.returncode,
        secs=time.monotonic() - began,
        stopped_by=stopped_by,
        saved_step=workdir.saved_step(),
        metrics_lines=len(lines),
        metrics_sha256=_digest(lines),
    )


def _end(child: subprocess.Popen) -> None:
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(_GRACE_SECS)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        _say("killing the run; it continues from its last checkpoint")
        child.kill()
        child.wait()


def train(command: Sequence[str], workdir: Workdir) -> None:
    """Launches the run until it is done, with one stop on the way.

    Raises:
      QuickstartError: if it ends in another way.
      KeyboardInterrupt: if the user stopped it; the child has ended by then.
    """
    while True:
        launches = workdir.launches()
        stop = not any(launch.stopped_half_way for launch in launches)
        launch = supervise(command, workdir, stop_half_way=stop)
        if not workdir.folder.is_dir():
            raise QuickstartError(f"training ended with exit code {launch.exit_code}")
        workdir.note(launches=[dataclasses.asdict(x) for x in [*launches, launch]])
        if launch.stopped_by == "user":
            raise KeyboardInterrupt
        if launch.exit_code == 0:
            return
        if launch.exit_code != PREEMPTED or launch.stopped_by is None:
            raise QuickstartError(
                f"training ended with exit code {launch.exit_code}, expected 0, or "
                f"{PREEMPTED} where it was asked to stop; its messages are above"
            )
        _say(
            f"exit code {PREEMPTED}: the run saved step {launch.saved_step}; starting "
            "the same command again"
        )


def checks(workdir: Workdir) -> list[Check]:
    """The two bars and the resume, of a finished run."""
    figures, evaluation = workdir.final_report(), workdir.metrics("eval")[-1]
    loss, entropy = evaluation["mlm_loss"], figures["unigram_entropy"]
    found, chance = figures["cpc_pool_top1"], figures["cpc_pool_chance"]
    problems = resume_problems(workdir)
    stops = [x.saved_step for x in workdir.launches() if x.exit_code == PREEMPTED]
    return [
        Check(
            "masked words: MLM loss on held-back documents",
            f"at least {MLM_BAR_NATS} nats below the unigram entropy, {entropy:.3f}",
            f"{loss:.3f}, which is {entropy - loss:.3f} below",
            entropy - loss >= MLM_BAR_NATS,
        ),
        Check(
            "masked sentences: CPC finds the right one among "
            f"{figures['cpc_pool_sentences']}",
            f"at least {CPC_BAR_TIMES_CHANCE} times chance, "
            f"{CPC_BAR_TIMES_CHANCE * chance:.2%}",
            f"{found:.2%}, {found / chance:.1f} times chance ({chance:.2%})",
            found >= CPC_BAR_TIMES_CHANCE * chance,
        ),
        Check(
            "stopped by SIGTERM and resumed",
            "the record of steps goes on where it was stopped, none missing, none "
            "twice",
            "; ".join(problems)
            or f"stopped at step {', '.join(map(str, stops))}, went on from there",
            not problems,
        ),
    ]


def resume_problems(workdir: Workdir) -> list[str]:
    """What shows that the run was not stopped and resumed as it should be."""
    launches, lines = workdir.launches(), workdir.metrics_text()
    if not any(launch.stopped_half_way for launch in launches):
        return ["no stop half-way is on record; choose another --workdir to train anew"]
    problems = []
    for launch in launches:
        kept = lines[: launch.metrics_lines]
        if launch.exit_code == PREEMPTED and _digest(kept) != launch.metrics_sha256:
            problems.append(
                f"metrics of before the stop at step {launch.saved_step} have changed: "
                "the run went back"
            )
    config = workdir.config()["train"]
    every, total = config["log_every_steps"], config["num_steps"]
    steps = [line["step"] for line in workdir.metrics("train")]
    expected = sorted({*range(every, total + 1, every), total})
    if steps != expected:
        missing, extra = sorted(set(expected) - set(steps)), list(steps)
        for step in set(expected).intersection(steps):
            extra.remove(step)
        problems.append(f"steps on record: missing {missing}, too many {extra}")
    return problems


def facts(workdir: Workdir) -> dict[str, Any]:
    """What a report says of the model, the text and the machine of a run that ended."""
    import jax  # not before: on an accelerator it would take memory from the run

    from etc_jax import config as config_lib
    from etc_jax.data.prepare import prepare_built_in
    from etc_jax.objectives.pretraining import Pretraining

    config = config_lib.from_config_dict(workdir.config())
    shapes = jax.eval_shape(
        Pretraining(config.model, config.objective).init, jax.random.key(0)
    )
    text = prepare_built_in(
        config.data.cache_dir or workdir.folder / "data",
        vocab_size=config.data.vocab_size,
        held_back=config.data.held_back_fraction,
    )
    return {
        "parameters": sum(x.size for x in jax.tree.leaves(shapes)),
        "documents": text.train.num_documents,
        "tokens": text.train.num_tokens,
        "held_back_documents": text.held_back.num_documents,
        "held_back_tokens": text.held_back.num_tokens,
        "device": f"{jax.device_count()} x {jax.devices()[0].device_kind}",
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "versions": {"python": platform.python_version()}
        | {package: importlib.metadata.version(package) for package in _PACKAGES},
    }


def _cpu_name() -> str:
    info = pathlib.Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else ():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def report(workdir: Workdir, done: Sequence[Check]) -> str:
    """The report of a finished run, in Markdown, for someone new to the project."""
    passed = all(check.passed for check in done)
    rows = [(c.name, c.bar, c.measured, "yes" if c.passed else "**no**") for c in done]
    parts = (
        f"# Quickstart of etc_jax: {'passed' if passed else 'FAILED'}",
        _about(workdir),
        _table(("", "bar", "measured", "holds"), rows),
        "The unigram entropy is the loss of the best guess that knows how often each "
        "token occurs and nothing of its surroundings. Losses are in nats.",
        "## Held-back documents while training",
        _curve(workdir),
        "## Run",
        _run(workdir),
    )
    return "\n\n".join(parts) + "\n"


def _about(workdir: Workdir) -> str:
    config, known = workdir.config(), workdir.record()["facts"]
    model, data, run = config["model"], config["data"], config["train"]
    return (
        f"An ETC encoder (Ainslie et al. 2020) of {known['parameters']:,} parameters "
        f"({model['num_layers']} layers of width {model['embed_dim']}, "
        f"{model['radius']} tokens visible on each side) was trained from nothing for "
        f"{run['num_steps']} steps of {run['batch_size']} x {data['long_length']} "
        "tokens, with one global token a sentence. The text is the documentation that "
        f"Python and its packages bring: {known['documents']:,} documents, "
        f"{known['tokens']:,} tokens; "
        f"{known['held_back_documents']:,} more documents "
        f"({known['held_back_tokens']:,} tokens) were held back for evaluation.\n\n"
        "Two things are learnt at once: to fill in masked words (MLM), and, where a "
        "whole sentence is masked, to foresee its summary so well that it is told from "
        "those of other sentences (CPC)."
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _curve(workdir: Workdir) -> str:
    rows = [
        (
            str(line["step"]),
            f"{line['mlm_loss']:.3f}",
            f"{line['mlm_accuracy']:.1%}",
            f"{line['cpc_accuracy']:.1%}",
        )
        for line in workdir.metrics("eval")
    ]
    batches = workdir.config()["train"]["eval_steps"]
    which = "All batches" if batches is None else f"The first {batches} batches"
    head = ("step", "MLM loss", "MLM accuracy", "CPC accuracy")
    return (
        f"{_table(head, rows)}\n\n{which} of the held-back documents. This CPC "
        "accuracy is among the masked sentences of one batch, fewer than in the pool "
        "above."
    )


def _run(workdir: Workdir) -> str:
    launches, known = workdir.launches(), workdir.record()["facts"]
    speeds = [line["tokens_per_s"] for line in workdir.metrics("train")]
    lines = []
    for number, launch in enumerate(launches, 1):
        why = f", stopped: {launch.stopped_by}" if launch.stopped_by else ""
        lines.append(
            f"- launch {number}: exit code {launch.exit_code}{why}, saved step "
            f"{launch.saved_step}, {launch.secs:.0f} s"
        )
    versions = ", ".join(f"{k} {v}" for k, v in known["versions"].items())
    lines += [
        f"- wall time: {sum(x.secs for x in launches) / 60:.1f} minutes, reading the "
        "text and compiling included",
        f"- speed: {statistics.median(speeds):,.0f} tokens/s (median of the logged "
        "intervals, padding counted)",
        f"- hardware: {known['device']}; {known['cpu']}, {known['cores']} cores; "
        f"{known['system']}",
        f"- versions: {versions}",
    ]
    return "\n".join(lines)


def _parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m launch.quickstart",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--workdir", default="runs/quickstart")
    parser.add_argument("--config", default="configs/quickstart.py")
    args, rest = parser.parse_known_args(argv)
    for argument in rest:
        if not argument.startswith("--config.") or "=" not in argument:
            parser.error(f"{argument!r} is not of the form --config.A.B=VALUE")
    return args, rest


def run(command: Sequence[str], workdir: Workdir) -> int:
    """Trains unless it was done already, writes the report; returns the exit code."""
    if workdir.final_report() is not None:
        _say(f"{workdir.folder} holds a finished run; it is not trained again")
    else:
        train(command, workdir)
    if workdir.record()["facts"] is None:
        workdir.note(facts=facts(workdir))
    done = checks(workdir)
    text = report(workdir, done)
    (workdir.folder / REPORT).write_text(text)
    print(text)
    failed = [check for check in done if not check.passed]
    for check in failed:
        _say(f"FAILED: {check.name}: {check.measured}; the bar: {check.bar}")
    _say(f"report: {workdir.folder / REPORT}")
    return 1 if failed else 0


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the quickstart; returns its exit code."""
    args, overrides = _parse(argv)
    command = [sys.executable, "-m", "etc_jax.train", f"--config={args.config}"]
    command += [f"--workdir={args.workdir}", *overrides]
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(command, Workdir(args.workdir))
    except KeyboardInterrupt:
        _say("stopped; the same command continues")
        return _INTERRUPTED
    except QuickstartError as error:
        _say(str(error))
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
