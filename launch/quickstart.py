"""Pre-trains a small ETC, fine-tunes it on questions over documents, and reports.

    python -m launch.quickstart [--workdir=FOLDER] [--config=FILE] [--config.A.B=VALUE]
        [--pretrain_only] [--finetuning.A.B=VALUE]

Pre-training is stopped half-way as a cluster would stop it, and resumed. The model then
learns to answer questions over several invented documents, and so does one without
pre-training. So small a model learns in so few steps what an answer looks like, not yet
to follow names from document to document: the report shows how far it comes.

Arguments of the form --config.A.B=VALUE go to the command that pre-trains as they are,
those of the form --finetuning.A.B=VALUE to the two that fine-tune. The report is
printed and written to FOLDER/report.md. What is finished in FOLDER is not done again.

Exit codes: 0 every bar of the report holds; 1 one does not, or a command failed; 2
wrong arguments; 130 interrupted, run it again.
"""

import argparse
import pathlib
import signal
import sys
from collections.abc import Sequence

from launch import quickstart_hotpotqa_report as hotpotqa_report
from launch.quickstart_hotpotqa import CONFIG, Finetuning, fields
from launch.quickstart_record import Workdir
from launch.quickstart_report import checks, draw_curves, facts, report
from launch.quickstart_runs import QuickstartError, say, train

REPORT = "report.md"
_INTERRUPTED = 130
_PRETRAINING, _FINETUNING = "--config.", "--finetuning."


def _parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        prog="python -m launch.quickstart",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--workdir", default="runs/quickstart")
    parser.add_argument("--config", default="configs/quickstart.py")
    parser.add_argument("--pretrain_only", action="store_true")
    args, rest = parser.parse_known_args(argv)
    for argument in rest:
        if not argument.startswith((_PRETRAINING, _FINETUNING)) or "=" not in argument:
            parser.error(
                f"{argument!r} is not of the form {_PRETRAINING}A.B=VALUE or "
                f"{_FINETUNING}A.B=VALUE"
            )
        if argument.startswith(_FINETUNING) and args.pretrain_only:
            parser.error(f"{argument!r} does not go with --pretrain_only")
        field = argument.removeprefix(_FINETUNING).partition("=")[0]
        if argument.startswith(_FINETUNING) and field not in fields():
            parser.error(f"{field!r} is no field of {CONFIG}")
    return args, rest


def run(command: Sequence[str], workdir: Workdir, half: Finetuning | None) -> int:
    """Does what is not done yet and writes the report; returns the exit code.

    Args:
      command: what pre-trains.
      workdir: where it writes.
      half: what comes after it; None: nothing.
    """
    if workdir.final_report() is not None:
        say(f"{workdir.folder} holds a finished run; it is not trained again")
    else:
        train(command, workdir, stop_half_way=True)
    if workdir.record()["facts"] is None:
        workdir.note(facts=facts(workdir))
    draw_curves(workdir)
    done, more = checks(workdir), ""
    if half is not None:
        half.run()
        figures = hotpotqa_report.figures(half)
        hotpotqa_report.draw_curves(half)
        done += hotpotqa_report.checks(half, figures)
        more = hotpotqa_report.section(half, figures)
    text = report(workdir, done, more)
    (workdir.folder / REPORT).write_text(text)
    print(text)
    failed = [check for check in done if not check.passed]
    for check in failed:
        say(f"FAILED: {check.name}: {check.measured}; the bar: {check.bar}")
    say(f"report: {workdir.folder / REPORT}")
    return 1 if failed else 0


def _plan(args: argparse.Namespace, rest: Sequence[str]):
    """(command that pre-trains, its folder, what comes after it)."""
    command = [sys.executable, "-m", "etc_jax.train", f"--config={args.config}"]
    command += [f"--workdir={args.workdir}"]
    command += [x for x in rest if x.startswith(_PRETRAINING)]
    workdir = Workdir(args.workdir)
    if args.pretrain_only:
        return command, workdir, None
    overrides = [
        _PRETRAINING + x.removeprefix(_FINETUNING)
        for x in rest
        if x.startswith(_FINETUNING)
    ]
    folder = pathlib.Path(args.workdir) / "hotpotqa"
    return command, workdir, Finetuning(folder, workdir, overrides)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the quickstart; returns its exit code."""
    args, rest = _parse(argv)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return run(*_plan(args, rest))
    except KeyboardInterrupt:
        say("stopped; the same command continues")
        return _INTERRUPTED
    except QuickstartError as error:
        say(str(error))
        return 1
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
