"""Answers the records of official files and scores them by the official metrics.

    etc-jax evaluate --model=runs/hotpotqa --out=runs/hotpotqa/dev \\
        hotpot_dev_distractor_v1.json

The model is the folder of a fine-tuning run, of one of its checkpoints, or of one that
`etc-jax convert --export` made. The files are those of the task's release, also .gz.
Works on all devices of this machine. In the folder --out:

  predictions.json     as the official scorer and the leaderboard take it; where that
                       is a JSON object a line, predictions.jsonl. Of squad also
                       nbest_predictions.json and, if there may be no answer,
                       null_odds.json
  scores.json          the official metrics, of each threshold, what they count, how
                       they were worked out, if that is to be reported with them, and
                       the best thresholds of scores, where the official metrics have
                       such; of ROUGE its 95 % intervals and what files2rouge would
                       find; only if the records have gold answers
  predicted/           the given files with the predictions in them, of words with tags
  parts/               predictions of 32 records a file

An evaluation that was stopped goes on where it was: give the same command again. On
several machines, which share --out: --shard=0/4 on the first to --shard=3/4 on the
last; the one that ends last writes predictions and scores. The number of shards may
change between one call and the next.

Inputs are made as for training (data.input_options of the run's config). Other options
of etc-jax prepare can be tried, as --option=stride=256. Models that write texts do it
as objective.generation of the config says, or as given: --generation=num_beams=4.

A record that fits into no input has an empty answer and counts as wrong, as does one
that cannot be read. HotpotQA's threshold for supporting sentences is the one with the
best joint F1 (ETC paper, appendix C.2), 0.4 where there are no gold answers.
--threshold fixes it: take for test data the one of the development data.

Exit codes: 0 done; 2 something given is wrong; 4 the checkpoint is damaged; 130
interrupted.
"""

import argparse
import collections
import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from etc_jax.base.local_paths import INPUT, OUTPUT
from etc_jax.base.terminal import next_command
from etc_jax.base.user_cache import as_given
from etc_jax.base.whole_files import whole_text, write_whole
from etc_jax.cli import command_line
from etc_jax.data.arrow_files import is_arrow
from etc_jax.data.windows.cache import CONTENTS_VERSION
from etc_jax.datasets.file_summary import summarised
from etc_jax.prediction import answering, runner as runner_lib, work
from etc_jax.prediction.answer_parts import FOLDER, Answer, Parts
from etc_jax.prediction.inputs import RecordReader, told_of_cuts
from etc_jax.prediction.scoreboard import (
    EvaluationResult,
    Reported,
    of_no_answers,
    problems_of,
    settle,
)
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import compile_cache

_PROG = "etc-jax evaluate"

SCORES = answering.SCORES
PREDICTED = "predicted"
_SHOWN = 3


def _shard(text: str) -> tuple[int, int]:
    number, slash, count = text.partition("/")
    if not (slash and number.isdecimal() and count.isdecimal()):
        raise argparse.ArgumentTypeError(f"must be like 0/4, got {text!r}")
    if int(number) >= int(count):
        raise argparse.ArgumentTypeError(
            f"must be from 0/{count} to {max(int(count) - 1, 0)}/{count}, got {text!r}"
        )
    return int(number), int(count)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    answering.add_flags(parser)
    parser.add_argument("--out", required=True, type=OUTPUT, help="folder to write")
    parser.add_argument(
        "--threshold", type=float, help="of supporting sentences; default: the best"
    )
    parser.add_argument(
        "--batch_size",
        type=int,
        help=f"inputs at once; default: {runner_lib.ROWS_PER_DEVICE} a device",
    )
    parser.add_argument(
        "--workers", type=int, help="processes that make inputs; default: by cores"
    )
    parser.add_argument(
        "--shard", type=_shard, default=(0, 1), metavar="I/N", help="part of the work"
    )
    parser.add_argument(
        "files", nargs="+", type=INPUT, help="records, as the data set has them"
    )
    return parser.parse_args(argv)


@compile_cache.use(None)
def evaluate(args: argparse.Namespace) -> str:
    """Does the work of this process; the report at its end.

    Raises:
      RunError, ValueError, OSError: if something does not fit.
    """
    out = _out_folder(args.out)
    evaluation = _Evaluation(args)
    parts = Parts(out, evaluation.summary.ids, evaluation.made_by())
    number, count = args.shard
    chosen = [part for part in parts.missing() if part % count == number]
    if chosen:
        evaluation.work(parts, chosen)
    if missing := parts.missing():
        return (
            f"shard {number}/{count} is done; {len(missing)} of {parts.count} parts in "
            f"{out / FOLDER} are not there yet. The shard that ends last writes "
            f"{evaluation.task.prediction_file}; without --shard this command makes "
            "what is missing"
        )
    return evaluation.finish(out, parts.answers())


def _out_folder(name: str) -> pathlib.Path:
    out = pathlib.Path(name).expanduser()
    if out.exists() and not (out / FOLDER).is_dir() and any(out.iterdir()):
        raise UserError(
            f"--out is {out}, which holds something else than an evaluation; name "
            "another folder"
        )
    return out


def _check_names(files: Sequence[str]) -> None:
    """Refuses files of one name: records and what is written are named by it."""
    names = collections.Counter(pathlib.Path(path).name for path in files)
    if twice := [name for name, count in names.items() if count > 1]:
        raise UserError(
            f"{names[twice[0]]} of the files are named {twice[0]}, and predictions are "
            "written by name; rename them, or evaluate each by itself"
        )


class _Evaluation:
    """What is evaluated on what: read and checked, nothing compiled."""

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.model, self.task = answering.opened(args)
        self.settings = self.task.settings
        if args.threshold is not None:
            chosen = self.task.checked_setting(args.threshold)
            self.settings = tuple(dict.fromkeys([*self.settings, chosen]))
        if self.task.in_input_layout is not None:
            _check_names(args.files)
        self.summary = summarised(self.task, args.files)
        if self.summary.gold is not None:
            of_no_answers(self.task, self.summary)

    def made_by(self) -> dict[str, Any]:
        """What decides the predictions."""
        return {
            "task": self.task.name,
            "model": self.model.digest,
            "step": self.model.step,
            "files": list(self.summary.sha256),
            "records": len(self.summary.ids),
            "thresholds": list(self.settings),
            "options": self.task.option_values,
            "contents": CONTENTS_VERSION,
        }

    def work(self, parts: Parts, chosen: Sequence[int]) -> None:
        """Makes some parts."""
        records = sum(len(parts.numbers(part)) for part in chosen)
        workers = work.workers_for(records, self.args.workers)
        size = runner_lib.rows_for(records, self.args.batch_size)
        runner = runner_lib.Runner(self.model, size)
        steps = work.steps_of(parts, chosen)
        reader = RecordReader(
            self.task,
            self.args.files,
            tokenizer_json=self.model.tokenizer.saved(),
            lengths=self.model.lengths,
            batches=steps,
            official_quirks=self.model.config.data.official_quirks,
        )
        with work.made_ahead(reader, len(steps), workers) as inputs:
            work.make_parts(parts, chosen, inputs, runner, self.task, self.settings)

    def finish(self, out: pathlib.Path, answers: Sequence[Answer]) -> str:
        """Writes the files; the report."""
        result = settle(
            self.task,
            answers,
            self.summary.gold,
            settings=self.settings,
            fixed=self.args.threshold,
            unreadable=self.summary.unreadable,
        )
        lost = problems_of(answers)
        lines = [self.summary.problems.report()]
        lines += told_of_cuts([answer.cut or {} for answer in answers])
        for kind, messages in sorted(lost.items()):
            lines.append(f"  {len(messages)} x without an answer: {kind}")
            lines += [f"      {message}" for message in messages[:_SHOWN]]
        wrote = []
        for name, text in self.task.official_files(result.official).items():
            write_whole(out / name, text)
            wrote.append(out / name)
        if result.chosen is None:
            lines.append("the records have no gold answers: there are no scores")
        else:
            reported = Reported.of(result.chosen, self.summary.unreadable)
            lines += [result.chosen.report(), *reported.lines()]
            summary = self.scores(result, lost) | reported.as_json()
            scores = as_given(json.dumps(summary, indent=2))
            write_whole(out / SCORES, f"{scores}\n")
            wrote.append(out / SCORES)
        wrote += self._in_input_layout(out, result.official)
        if result.thresholds is not None:
            thresholds = (f"{name} {x:.4g}" for name, x in result.thresholds.items())
            lines.append(f"best thresholds: {', '.join(thresholds)}")
        if result.setting is not None:
            lines.append(f"threshold {result.setting} ({self._chosen_by(result)})")
        lines.append(f"wrote {' and '.join(map(str, wrote))}")
        flags = [*answering.given_flags(self.args), f"--html={out / 'answers.html'}"]
        lines.append(next_command("predict", *flags, *self.args.files))
        return "\n".join(lines)

    def _in_input_layout(self, out: pathlib.Path, official: Any) -> list[pathlib.Path]:
        """Writes the files that were read with the predictions in them."""
        if self.task.in_input_layout is None:
            return []
        folder, wrote = out / PREDICTED, []
        folder.mkdir(exist_ok=True)
        for path in map(pathlib.Path, self.args.files):
            # Rows of Parquet come out as lines of JSON.
            ending = ".jsonl" if is_arrow(path) else ""
            wrote.append(folder / f"{path.name}{ending}")
            with whole_text(wrote[-1]) as file:
                file.writelines(self.task.in_input_layout(path, official))
        return wrote

    def _chosen_by(self, result: EvaluationResult) -> str:
        if self.args.threshold is not None:
            return "as given"
        return "default" if result.chosen is None else f"best {self.task.metric}"

    def scores(
        self, result: EvaluationResult, lost: Mapping[str, list[str]]
    ) -> dict[str, Any]:
        """The content of scores.json."""
        model, counts = self.model, collections.Counter(self.summary.problems.counts)
        counts.update({kind: len(messages) for kind, messages in lost.items()})
        summary = {
            "task": self.task.name,
            "model": {"folder": model.folder, "step": model.step},
            "model_sha256": model.digest,
            "files": [str(path) for path in self.args.files],
            "records": result.chosen.count,
            "unreadable": self.summary.unreadable,
            "without_input": sum(map(len, lost.values())),
            "problems": dict(counts),
            "metrics": dict(result.chosen.metrics),
        }
        if result.chosen.signatures:
            summary["signatures"] = dict(result.chosen.signatures)
        if self.task.option_values:
            summary["options"] = self.task.option_values
        if result.thresholds is not None:
            summary["best_thresholds"] = dict(result.thresholds)
        if result.setting is None:
            return summary
        pairs = zip(self.settings, result.scores, strict=True)
        return {
            **summary,
            "threshold": result.setting,
            "chosen_by": self._chosen_by(result),
            "thresholds": [{"threshold": t, **s.metrics} for t, s in pairs],
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    again = "interrupted; the same command goes on from here"
    return command_line.run(_PROG, lambda: evaluate(args), interrupted=again)


if __name__ == "__main__":
    sys.exit(main())
