"""Pre-trains a small ETC, stops it half-way as a cluster would, resumes and reports.

    python -m launch.quickstart [--workdir=FOLDER] [--config=FILE] [--config.A.B=VALUE]

Arguments of the form --config.A.B=VALUE go to the training command as they are. The
report is printed and written to FOLDER/report.md. A folder that holds a finished run
is reported again, and nothing is trained.

Exit codes: 0 every bar of the report holds; 1 one does not, or training failed; 2 wrong
arguments; 130 interrupted, run it again.
"""

import argparse
import dataclasses
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from etc_jax.training.errors import PREEMPTED
from launch.quickstart_record import Launch, Workdir, digest
from launch.quickstart_report import checks, draw_curves, facts, report

REPORT = "report.md"
_POLL_SECS = 0.2
_GRACE_SECS = 120
_INTERRUPTED = 130


class QuickstartError(Exception):
    """Training did not come to its end."""


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
        metrics_sha256=digest(lines),
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
    draw_curves(workdir)
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
