"""A table with the paper's figures and ours: Markdown, JSON and a picture."""

from __future__ import annotations

import logging
import os
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from etc_jax.base.extras import MissingExtraError
from etc_jax.base.whole_files import write_whole
from etc_jax.papers.study import NOT_HERE, OWN, SCALES, Runs
from etc_jax.papers.table import Figure, Row, Table
from etc_jax.training.reporting import curves

_LOG = logging.getLogger(__name__)

NOT_RUN = "not run"


def listing(tables: Iterable[Table], workdir: str | os.PathLike) -> str:
    """All tables, a line each: what is run here, and how much of it is done."""
    lines = [("table", "", "rows", "run here", "done", "tiny", "done", "title")]
    for table in tables:
        both = [Runs(table, scale, workdir) for scale in SCALES]
        run_here = [runs.here() for runs in both]
        other = [x for x in table.rows if x.commands and x not in run_here[0]]
        done = [len({x["row"] for x in runs.figures()}) for runs in both]
        counts = (
            len(table.rows),
            len(run_here[0]) + len(other),
            done[0],
            len(run_here[1]),
        )
        row = (table.name, table.number, *counts, done[1], table.title)
        lines.append(tuple(map(str, row)))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = [[x.ljust(w) for x, w in zip(x, widths, strict=True)] for x in lines]
    return "\n".join("  ".join(line).rstrip() for line in padded)


def markdown(runs: Runs) -> str:
    """The table: paper | ours | difference of each column that is measured."""
    table = runs.table
    section = table.section and f"section {table.section}"
    where = ", ".join(filter(None, [table.number, section]))
    parts = [f"# {table.name}: {table.title}", f"Scale: {runs.scale}. {where}".strip()]
    parts += filter(None, [runs.about, table.note])
    if table.rows:
        parts.append(_lines(runs))
    parts += [f"{name}: {value}" for name, value in table.settings.items()]
    return "\n\n".join(parts)


def _lines(runs: Runs) -> str:
    table, every, run_here = runs.table, runs.figures(), runs.here()
    told = [x for x in table.columns if x not in table.compared]
    shown = {column: _cells(table, column, every) for column in table.compared}
    head = ["row", *told]
    for column, (first, *others) in shown.items():
        head += [f"{column}: {first}", *others]
    head += ["CPU min", "note"]
    lines = [head, ["---"] * len(head)]
    for row in table.rows:
        paper = table.paper(row)
        filled = [x for x in every if x["row"] == row.name]
        line = [row.name, *(_shown(paper[x]) for x in told)]
        for column, cells in shown.items():
            values = [x["figures"][column] for x in filled if column in x["figures"]]
            ours = _compared(paper[column], values, _digits(table, column))
            text = {"paper": _shown(paper[column]), **ours}
            line += [text[x] for x in cells]
        cpu = sum(x.get("cpu_secs", 0) for x in filled) / 60
        line += [f"{cpu:.0f}" if cpu else "", _state(row, filled, row in run_here)]
        lines.append(line)
    return "\n".join(f"| {' | '.join(_cell(x) for x in line)} |" for line in lines)


def _cells(table: Table, column: str, every: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is shown of a column: the paper's figures, ours, or both compared."""
    in_paper = any(table.paper(row)[column] is not None for row in table.rows)
    ours = not every or any(column in x["figures"] for x in every)
    both = {"paper": in_paper or not ours, "ours": ours}
    both |= {"difference": in_paper and ours, "seeds": ours}
    return [name for name, is_shown in both.items() if is_shown]


def _state(row: Row, filled: Sequence[Mapping[str, Any]], is_run: bool) -> str:
    if not filled and not row.commands and not is_run:
        return "; ".join(filter(None, [NOT_HERE, row.note]))
    folders = [x["folder"] for x in filled if x["seed"] == OWN]
    return "; ".join(filter(None, [*folders, "" if filled else NOT_RUN, row.note]))


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _shown(figure: Figure) -> str:
    return "–" if figure is None else str(figure)


def _digits(table: Table, column: str) -> int:
    """That the paper has behind the points of a column, or one of percent."""
    figures = (table.paper(row)[column] for row in table.rows)
    floats = (x for x in figures if isinstance(x, float))
    metric = table.measured.get(column)
    percent = metric is not None and metric.scale == 100
    return max((len(str(x).partition(".")[2]) for x in floats), default=int(percent))


def _number(value: float, digits: int) -> str:
    """With so many digits behind the point; 0: with four in all."""
    return f"{value:.{digits}f}" if digits else _whole(value, ".4g")


def _whole(value: float, form: str) -> str:
    """In a form, but with all digits before the point."""
    return f"{value:{form}}" if abs(value) < 1000 else f"{value:{form[:-3]}.0f}"


def _compared(paper: Figure, values: Sequence[float], digits: int) -> dict[str, str]:
    """Mean and standard deviation, difference to the paper's, and number of seeds."""
    if not values:
        return {"ours": "", "difference": "", "seeds": ""}
    mean = statistics.mean(values)
    ours = _number(mean, digits)
    if len(values) > 1:
        ours += f" ± {_number(statistics.stdev(values), digits)}"
    is_number = isinstance(paper, int | float)
    ahead = _whole(mean - paper, "+.3g") if is_number else ""
    return {"ours": ours, "difference": ahead, "seeds": str(len(values))}


def write(runs: Runs) -> str:
    """Writes the table beside its figures, and a picture of it; returns the table."""
    text = markdown(runs)
    runs.file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(runs.file.with_suffix(".md"), f"{text}\n")
    if runs.figures():
        try:
            _draw(runs)
        except MissingExtraError as error:
            _LOG.warning("no picture: %s", error)
    return text


def _draw(runs: Runs) -> None:
    """A panel a column: each row's mean, its seeds, and the paper's figure."""
    table, every = runs.table, runs.figures()
    columns = [c for c in table.compared if any(c in x["figures"] for x in every)]
    names = [row.name for row in table.rows]
    size = 3.2 * len(columns) + 2.5, 0.35 * len(names) + 1.2
    picture, axes = curves.figure(len(columns), *size)
    axes = [axes] if len(columns) == 1 else axes
    for ax, column in zip(axes, columns, strict=True):
        for height, row in enumerate(table.rows):
            paper = table.paper(row)[column]
            filled = [x["figures"] for x in every if x["row"] == row.name]
            values = [x[column] for x in filled if column in x]
            if isinstance(paper, int | float):
                ax.plot(paper, height, "|", color="0.4", markersize=14)
            ax.plot(values, [height] * len(values), "o", color="C0", alpha=0.5)
            if values:
                ax.barh(height, statistics.mean(values), color="C0", alpha=0.25)
        ax.set_title(column)
        ax.set_yticks(range(len(names)), names if ax is axes[0] else [])
        ax.set_ylim(len(names) - 0.5, -0.5)
    picture.suptitle(f"{table.name}, {runs.scale}: bars and dots ours, | the paper's")
    picture.savefig(runs.file.with_suffix(".png"))
