"""The seven data sets of SCROLLS together: the leaderboard's file, and the average.

    python -m etc_jax.tasks.scrolls.submission --data=scrolls --split=test \\
        --gov_report=runs/gov_report/test --summ_screen_fd=runs/summ_screen_fd/test \\
        --qmsum=runs/qmsum/test --narrative_qa=runs/narrative_qa/test \\
        --qasper=runs/qasper/test --quality=runs/quality/test \\
        --contract_nli=runs/contract_nli/test --out=scrolls_predictions.csv
    python -m etc_jax.tasks.scrolls.submission --data=scrolls --split=validation \\
        --qasper=runs/qasper/dev --quality=runs/quality/dev

Each flag names the folder that `etc-jax evaluate` wrote, or a file {id: text}. In
--data lie the seven `<task>.zip`, or the folders in them. As in the official checks,
predictions must have the ids of the split, no more and no fewer. With --out the
leaderboard's file is written, of all seven. Where the split has outputs, their scores
are printed in per cent as the official script rounds them, and of all seven also the
average. Of QuALITY's hard questions there is a score where the lines say `is_hard`.

Exit codes: 0 done; 2 something given is wrong.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from etc_jax.base import strict_json
from etc_jax.base.local_paths import INPUT, OUTPUT
from etc_jax.base.whole_files import check_out, whole_text
from etc_jax.cli import command_line
from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.task import PREDICTIONS
from etc_jax.scoring import files, scrolls
from etc_jax.scoring.result import Scores

_PROG = "python -m etc_jax.tasks.scrolls.submission"

SPLITS = ("test", "validation", "train")
COLUMNS = ("Task", "ID", "Prediction")
# In the order of the official script (tau-nlp/scrolls, prepare_submission.py).
ORDER = (
    "qmsum",
    "qasper",
    "summ_screen_fd",
    "quality",
    "narrative_qa",
    "contract_nli",
    "gov_report",
)


class Split(NamedTuple):
    """What is known of a data set's split.

    Attributes:
      references: of each id, its outputs; () where they are not told.
      hard: ids that the lines call hard.
    """

    references: dict[str, tuple[str, ...]]
    hard: frozenset[str]


def read_split(folder: pathlib.Path, name: str, split: str) -> Split:
    """The ids and outputs of a split; documents are read and forgotten.

    Args:
      folder: with `<name>.zip`, or the folder in it.
      name: of the data set.
      split: one of `SPLITS`.

    Raises:
      BadRecordError: if a line cannot be used.
      ValueError: if some ids have outputs and some none.
      OSError: if there is no such file.
    """
    archive = folder / f"{name}.zip"
    path = (archive if archive.is_file() else folder / name) / f"{split}.jsonl"
    references: dict[str, tuple[str, ...]] = {}
    hard = set()
    for number, row in read_lines(path):
        where = f"{path}, line {number}"
        if isinstance(row, BadRecordError):
            raise row.at(str(path))
        identity = files.field(files.typed(row, dict, where), "id", str, where)
        output = row.get("output")
        of_row = () if output is None else (files.typed(output, str, where),)
        references[identity] = references.get(identity, ()) + of_row
        if row.get("is_hard"):
            hard.add(identity)
    without = sum(not outputs for outputs in references.values())
    if without not in (0, len(references)):
        raise ValueError(
            f"{path}: {without} of {len(references)} ids have no output; expected all "
            "or none, as of one split"
        )
    return Split(references, frozenset(hard))


def read_predictions(path: str | os.PathLike) -> dict[str, str]:
    """The texts by id of an evaluation's folder, or of its prediction file.

    Raises:
      ValueError: if the file is not such.
      OSError: if it cannot be read.
    """
    path = pathlib.Path(path)
    path = path / PREDICTIONS if path.is_dir() else path
    try:
        value = strict_json.loads(path.read_text("utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}; expected texts by id as JSON") from error
    return files.texts_by_id(value, str(path), "prediction")


def check_ids(name: str, split: Split, predictions: Mapping[str, str]) -> None:
    """Raises ValueError unless predictions have the ids of the split."""
    scores = Scores.of({}, list(split.references), {"prediction": predictions})
    try:
        scores.require_same_ids()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error


def rows_of(predictions: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The lines of the leaderboard's file, each with its end.

    Args:
      predictions: texts by id, of each of `ORDER`.

    Raises:
      ValueError: if a data set is missing.
    """
    if missing := [name for name in ORDER if name not in predictions]:
        raise ValueError(
            f"no predictions of {', '.join(missing)}; a submission has all of "
            f"{', '.join(ORDER)}: give --{missing[0]}=FOLDER"
        )
    rows = [
        _line(name, identity, text)
        for name in ORDER
        for identity, text in predictions[name].items()
    ]
    return [_line(*COLUMNS), *rows]


def _line(*cells: str) -> str:
    text = io.StringIO(newline="")
    # Lines end as those of the official script; a cell with a carriage return is
    # quoted only by a writer whose lines end with one.
    csv.writer(text, lineterminator="\r\n").writerow(cells)
    return text.getvalue().removesuffix("\r\n") + "\n"


def scores_of(
    splits: Mapping[str, Split], predictions: Mapping[str, Mapping[str, str]]
) -> dict[str, float]:
    """The score of each data set in per cent, that of hard questions among them.

    Args:
      splits: by data set, with outputs.
      predictions: texts by id, of the same data sets; see `check_ids`.
    """
    scores = {}
    for name, split in splits.items():
        scores[name] = _score(name, split.references, predictions[name])
        if split.hard:
            hard = {k: x for k, x in split.references.items() if k in split.hard}
            scores[f"{name}_hard"] = _score(name, hard, predictions[name])
    return scores


def _score(
    name: str, references: Mapping[str, Sequence[str]], texts: Mapping[str, str]
) -> float:
    written = [texts[identity] for identity in references]
    metrics = scrolls.official_metrics(name, written, list(references.values()))
    return metrics["scrolls_score"]


def report(scores: Mapping[str, float]) -> str:
    """The scores, a line each; and the average if all seven are there."""
    lines = dict(scores)
    if all(name in scores for name in scrolls.AVERAGED):
        lines["average"] = scrolls.average(scores)
    return "\n".join(f"{name:14}  {score:8.4f}" for name, score in lines.items())


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument(
        "--data", required=True, type=INPUT, help="folder of SCROLLS's archives"
    )
    parser.add_argument("--split", choices=SPLITS, default="test")
    for name in scrolls.AVERAGED:
        parser.add_argument(
            f"--{name}", type=INPUT, metavar="FOLDER", help="its evaluation"
        )
    parser.add_argument("--out", type=OUTPUT, help="CSV file of the leaderboard")
    parser.add_argument("--overwrite", action="store_true", help="if --out exists")
    return parser.parse_args(argv)


def _run(args: argparse.Namespace) -> str:
    paths = {name: getattr(args, name) for name in scrolls.AVERAGED}
    paths = {name: path for name, path in paths.items() if path is not None}
    if not paths:
        raise ValueError(f"no predictions are given; give --{ORDER[0]}=FOLDER")
    if args.out is not None:
        check_out(args.out, overwrite=args.overwrite)
    splits, predictions = {}, {}
    for name, path in paths.items():
        splits[name] = read_split(pathlib.Path(args.data), name, args.split)
        predictions[name] = read_predictions(path)
        check_ids(name, splits[name], predictions[name])
    lines = []
    if args.out is not None:
        rows = rows_of(predictions)
        with whole_text(args.out) as file:
            file.writelines(rows)
        lines.append(f"wrote {len(rows) - 1} predictions to {args.out}")
    told = {k: x for k, x in splits.items() if any(x.references.values())}
    if told:
        lines.append(report(scores_of(told, predictions)))
    else:
        lines.append(f"{args.split} has no outputs, so there are no scores")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    return command_line.run(_PROG, lambda: _run(args))


if __name__ == "__main__":
    sys.exit(main())
