"""What a table of a paper says, and what its rows are here: `*.json` of this package.

A file has the tables of one paper. A row there is [name, a figure a column, the fields
of `Row`], without the last where it is not run here.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from etc_jax.base.suggestions import suggestion
from etc_jax.papers.chain import Measured

# A figure as a paper has it; None where its text leaves it out.
Figure = float | int | str | list | None
PAPERS = ("etc", "sled", "bart_ls", "reformer", "longformer")
# Of no paper: rows have no figures, and one size alone.
OWN = "own"


class Metric(NamedTuple):
    """What a column is measured by.

    Attributes:
      data: the data set, of `paper_scale.DATA`.
      name: of the metric, as `chain.Measured` takes it.
      scale: 100 where the paper has percent.
    """

    data: str
    name: str
    scale: float = 1.0

    def at(self, out: str, source: str = "scores", step: int | None = None) -> Measured:
        """Where the figure is, if a command makes `out`; see `Measured`."""
        return Measured(out, self.name, source, self.scale, step)


@dataclasses.dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
      name: as the paper has it, or near to it.
      figures: of the paper, one a column.
      runs: data set -> config of `etc-jax train` that learns it at the paper's size.
      pretrain: config of the run whose model these begin with; "": none.
      changes: further flags of `runs`.
      pretrain_changes: of the run before.
      start: data set, or "" for all -> words of the command that makes the model which
        its run begins with, where `paper_scale` does not know it.
      step: of the evaluation that counts, of runs on texts; None: the last.
      corpus: words of `etc-jax corpora` that makes the texts which that one learns; ():
        they are as they are given.
      commands: others that give the row, as one types them.
      lengths: column -> (data set, "train" or "dev", statistic) of what `etc-jax stats`
        counts: "records", the "mean" length, or a percentile.
      stats: flags of that command.
      note: what the paper leaves open, or what differs here.
    """

    name: str
    figures: tuple[Figure, ...]
    runs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    pretrain: str = ""
    changes: tuple[str, ...] = ()
    pretrain_changes: tuple[str, ...] = ()
    start: Mapping[str, list[str]] = dataclasses.field(default_factory=dict)
    step: int | None = None
    corpus: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    lengths: Mapping[str, tuple[str, str, str]] = dataclasses.field(
        default_factory=dict
    )
    stats: tuple[str, ...] = ()
    note: str = ""

    @property
    def is_run(self) -> bool:
        """Whether it is run at the paper's size, with figures that are filled in."""
        return bool(self.runs or self.lengths)


@dataclasses.dataclass(frozen=True)
class Table:
    """A table, a figure or a paragraph with measurements.

    Attributes:
      name: such as "etc.table2", by which the command knows it.
      number: in the paper, such as "Table 2"; "": none.
      title: what it compares.
      section: of the paper.
      columns: names of its figures, in order.
      measured: column -> what gives it; others are no scores.
      rows: in the paper's order.
      note: of all of it.
      settings: what the paper reports in words, where there are no rows.
    """

    name: str
    number: str
    title: str
    section: str
    columns: tuple[str, ...] = ()
    measured: Mapping[str, Metric] = dataclasses.field(default_factory=dict)
    rows: tuple[Row, ...] = ()
    note: str = ""
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def paper(self, row: Row) -> dict[str, Figure]:
        """The paper's figures by column."""
        return dict(zip(self.columns, row.figures, strict=True))

    @property
    def compared(self) -> list[str]:
        """The columns that runs fill."""
        counted = {column for row in self.rows for column in row.lengths}
        return [x for x in self.columns if x in self.measured or x in counted]

    def columns_of(self, data: str) -> dict[str, Metric]:
        """The columns that a data set gives."""
        return {k: x for k, x in self.measured.items() if x.data == data}

    def chosen(self, names: str) -> list[Row]:
        """Rows by names joined by semicolons, in the table's order; "": all.

        Raises:
          ValueError: naming the nearest one, if there is no such row.
        """
        wanted, every = [x.strip() for x in names.split(";") if x.strip()], self.rows
        for name in wanted:
            if name not in (names_of_rows := [row.name for row in every]):
                hint = suggestion(name, names_of_rows)
                raise ValueError(f"{self.name} has no row {name!r}; {hint}")
        return [row for row in every if not wanted or row.name in wanted]


def with_tuples(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of a dataclass as JSON has them, whose lists become tuples."""
    return {k: tuple(x) if isinstance(x, list) else x for k, x in fields.items()}


def variants_of(config: str) -> list[str]:
    """Those in the name of a config: of "etc_base_nq:512,shared" two."""
    return [x for x in config.partition(":")[2].split(",") if x]


def _row(name: str, figures: list[Figure], fields: Mapping[str, Any]) -> Row:
    return Row(name, tuple(figures), **with_tuples(fields))


def _table(fields: Mapping[str, Any]) -> Table:
    measured = {k: Metric(*x) for k, x in fields.get("measured", {}).items()}
    rows = [(*row, {})[:3] for row in fields.get("rows", ())]
    return Table(
        **{
            **fields,
            "columns": tuple(fields.get("columns", ())),
            "measured": measured,
            "rows": tuple(_row(*row) for row in rows),
        }
    )


@functools.cache
def tables() -> dict[str, Table]:
    """All tables by their names, a paper after the other."""
    folder = importlib.resources.files(__package__)
    files = (
        json.loads((folder / f"{name}.json").read_text()) for name in (*PAPERS, OWN)
    )
    every = (_table(fields) for file in files for fields in file["tables"])
    return {table.name: table for table in every}


def find(name: str) -> Table:
    """A table by its name.

    Raises:
      ValueError: naming the nearest one, if there is no such table.
    """
    every = tables()
    if name not in every:
        raise ValueError(f"there is no table {name!r}; {suggestion(name, every)}")
    return every[name]
