"""Answers a few records and shows what each answer rests on.

    etc-jax predict --model=runs/hotpotqa questions.json
    etc-jax predict --model=models/wikihop --html=answers.html < records.jsonl

The model is the folder of a fine-tuning run, of one of its checkpoints, or of one that
`etc-jax convert --export` made. Records are as the data set has them, with or without
answers: one JSON object, an array, or one object a line; from files (also .gz), or from
standard input. A HotpotQA record needs _id, question and context, a WikiHop record id,
query, candidates and supports, an OpenKP record url, text and VDOM; a Natural Questions
record is an article in the original or the simplified form.

Prints question, answer and the supporting sentences with their probabilities, the
likeliest candidates, the keyphrases, or the long answer with its score. --json prints
one object a line instead. --html writes a page with the documents, in which the answer
and what supports it are marked, and prints a summary. Records that have gold answers
are judged by the official metrics, and the worst answers come first; each metric can
order them. A text that was written stands beside its source and all its references,
and what it has from the source is marked in both. The page needs nothing from
elsewhere.
What cannot be answered is reported on standard error, and the others go on.

Exit codes: 0 done; 2 nothing could be answered, or something given is wrong; 4 the
checkpoint is damaged.
"""

import argparse
import dataclasses
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from etc_jax.base.local_paths import INPUT, OUTPUT, STANDARD_INPUT
from etc_jax.base.terminal import next_command, say
from etc_jax.base.whole_files import write_whole
from etc_jax.cli import command_line
from etc_jax.datasets.records import BadRecordError
from etc_jax.prediction import answering, answers_page, runner as runner_lib
from etc_jax.prediction.inputs import Input, make_input, told_of_cuts
from etc_jax.prediction.judging import Answered, about, check, judged
from etc_jax.prediction.model_files import TrainedModel
from etc_jax.prediction.raw_records import read_inputs
from etc_jax.prediction.record_stream import through_model
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import compile_cache

_PROG = "etc-jax predict"

_HTML = dataclasses.replace(OUTPUT, replaceable=answers_page.is_page)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    answering.add_flags(parser)
    parser.add_argument(
        "--threshold",
        type=float,
        help="probability that a supporting sentence has at least; default: 0.4",
    )
    parser.add_argument("--batch_size", type=int, help="inputs at once")
    parser.add_argument(
        "--html", type=_HTML, metavar="FILE", help="page to write, or to write anew"
    )
    parser.add_argument("--json", action="store_true", help="one object a line")
    parser.add_argument(
        "files",
        nargs="*",
        type=INPUT,
        default=[STANDARD_INPUT],
        help="default: standard input",
    )
    return parser.parse_args(argv)


@compile_cache.use(None)
def predict(args: argparse.Namespace) -> None:
    """Prints the answers.

    Raises:
      RunError, ValueError, OSError: if the model cannot be used.
    """
    if args.html is not None:
        _check_html(Path(args.html))
    model, task = answering.opened(args)
    setting = task.setting
    if args.threshold is not None:
        setting = task.checked_setting(args.threshold)
    inputs = _inputs(args.files, model, task)
    answers = []
    judging = args.html is not None
    for answer in _answers(inputs, model, task, setting, args.batch_size, judging):
        shown = answer.explained
        if judging:
            answers.append(answer)
        if args.json:
            say(json.dumps(shown.as_json()))
        elif not judging:
            say(f"{shown.text()}\n")
    if args.html is not None:
        judged_answers = judged(task, answers)
        page = answers_page.page(
            [answer.explained for answer in answers],
            task=task.name,
            about=about(model),
            judged=judged_answers,
        )
        write_whole(args.html, page)
        # Beside records as JSON, it is not for what reads them.
        file = sys.stderr if args.json else sys.stdout
        say(f"{len(answers)} records answered", file)
        if judged_answers is not None:
            say(judged_answers.scores.report(), file)
        say(f"wrote {args.html}, for a browser", file)
    elif sys.stdout.isatty() and STANDARD_INPUT not in args.files:
        flags = [*answering.given_flags(args), "--html=answers.html", *args.files]
        _tell(next_command("predict", *flags))


def _check_html(path: Path) -> None:
    """Refuses a page that cannot be written, or would replace something else."""
    if not (folder := path.absolute().parent).is_dir():
        raise UserError(f"--html: there is no folder {folder}")
    if path.is_dir() or (path.is_file() and not answers_page.is_page(path)):
        raise UserError(
            f"--html: {path} exists and is no page that this command wrote; name "
            "another file"
        )


def _inputs(files: Sequence[str], model: TrainedModel, task: Any) -> Iterator[Input]:
    """Each record that can be an input; the others are reported.

    So are those that were cut, at the end.
    """
    sizes, cuts = type(task.sizes)(*model.lengths), []
    if files == [STANDARD_INPUT] and sys.stdin.isatty():
        _tell("reading records from standard input; an end of file (Ctrl-D) ends them")
    for raw in read_inputs(files, task.release):
        if raw.fault is not None:
            _tell(f"{raw.where} {raw.fault}")
            continue
        try:
            record = task.parse(raw.value, lambda kind, message: None)
        except BadRecordError as error:
            _tell(f"{raw.where}: {error}")
            continue
        item = make_input(
            task,
            record,
            model.tokenizer,
            sizes,
            official_quirks=model.config.data.official_quirks,
        )
        if item.problem is not None:
            _tell(f"{raw.where}: {': '.join(item.problem)}")
        else:
            cuts.append(item.cut)
            yield item
    for line in told_of_cuts(cuts):
        _tell(line)


def _answers(
    inputs: Iterator[Input],
    model: TrainedModel,
    task: Any,
    setting: Any,
    asked: int | None,
    judging: bool,
) -> Iterator[Answered]:
    """What a reader wants to see of each record, and what is to be judged of it.

    Raises:
      UserError, ValueError: if there is none, or gold answers cannot be scored, before
        anything is compiled.
    """
    first = _first(inputs, runner_lib.full_rows())
    if not first:
        raise UserError("there was no record that could be answered")
    if judging:
        check(task, [item.windows[0].record for item in first])
    windows = sum(len(item.windows) for item in first)
    runner = runner_lib.Runner(model, runner_lib.rows_for(windows, asked))

    def read(outputs: Any, windows: Sequence[Any]) -> Sequence[Any]:
        explained = task.explain(outputs, windows, setting)
        decoded = [None] * len(windows)
        if judging:
            decoded = task.decode(outputs, windows, (setting,))
        records = [window.record for window in windows]
        return list(zip(records, explained, decoded, strict=True))

    every = itertools.chain(first, inputs)
    for record in through_model(every, runner, read):
        [source, *_], explained, decoded = zip(*record.windows, strict=True)
        gold = prediction = None
        if judging:
            gold, [prediction] = task.gold(source), task.predictions(decoded)
        yield Answered(task.pool_explained(explained), gold, prediction)


def _first(inputs: Iterator[Input], enough: int) -> list[Input]:
    """The first records, until they have so many windows: what batches will be like."""
    taken, count = [], 0
    for item in inputs:
        taken.append(item)
        count += len(item.windows)
        if count >= enough:
            break
    return taken


def _tell(message: str) -> None:
    say(f"{_PROG}: {message}", sys.stderr)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    return command_line.run(_PROG, lambda: predict(args))


if __name__ == "__main__":
    sys.exit(main())
