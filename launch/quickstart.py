"""Pre-trains a small ETC, shows what structure is worth on a task, and reports.

    python -m launch.quickstart [--workdir=FOLDER] [--config=FILE] [--config.A.B=VALUE]
        [--pretrain_only] [--finetuning.A.B=VALUE]

Pre-training (masked words, masked sentences) is stopped half-way as a cluster would
stop it, and resumed. Then two models learn to answer the same questions over four
documents, one with the paper's structure and one without. All commands are those that
you would type; the report lists them.

Arguments of the form --config.A.B=VALUE go to the command that pre-trains as they are,
those of the form --finetuning.A.B=VALUE to the two that learn to answer. The report is
FOLDER/report.md; messages of the commands go to FOLDER/messages.txt and
FOLDER/questions/messages.txt. What is finished in FOLDER is not done again.

Exit codes: 0 every bar of the report holds; 1 one does not, or a command failed; 2
wrong arguments; 130 interrupted, run it again.
"""

import argparse
import signal
import sys
from collections.abc import Sequence

from launch import quickstart_pictures, quickstart_report as reporting
from launch.quickstart_questions import CONFIG, Questions, fields
from launch.quickstart_runs import LOG, QuickstartError, Workdir, say, train

REPORT, FOLDER = "report.md", "questions"
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
    parser.add_argument("--config", default="quickstart")
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


def run(command: Sequence[str], workdir: Workdir, questions: Questions | None) -> int:
    """Does what is not done yet and writes the report; returns the exit code.

    Args:
      command: what pre-trains.
      workdir: where it writes.
      questions: what comes after it; None: nothing.
    """
    if workdir.final_report() is not None:
        say(f"{workdir.folder} holds a finished run; it is not trained again")
    else:
        say(
            "pre-training on the documentation that Python brings: the text is read and"
        )
        say("tokenised, and the step compiled, before the first one is taken")
        log = workdir.folder / LOG
        train(command, workdir, name="pre-training", log=log, stop_half_way=True)
    if workdir.record()["facts"] is None:
        workdir.note(facts=reporting.facts(workdir))
    if questions is not None:
        questions.run()
    done = reporting.checks(workdir, questions)
    quickstart_pictures.draw(workdir, questions)
    path = workdir.folder / REPORT
    path.write_text(reporting.report(workdir, questions, done))
    print(reporting.summary(done))
    if questions is not None:
        print(f"answers, in their documents: {questions.page}")
    print(f"report: {path}")
    return 0 if all(check.passed for check in done) else 1


def _plan(args: argparse.Namespace, rest: Sequence[str]):
    """(command that pre-trains, its folder, what comes after it)."""
    command = [sys.executable, "-m", "etc_jax", "train", f"--config={args.config}"]
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
    return command, workdir, Questions(workdir.folder / FOLDER, workdir, overrides)


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
