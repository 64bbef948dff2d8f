"""A table's rows at one scale: their commands, and the figures of those that are done.

Tables are run at the paper's size (`paper_scale`), or tiny, by the module in
`etc_jax.papers.tiny` whose `STUDIES` have them.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import json
import os
import pathlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from etc_jax.base.whole_files import write_whole
from etc_jax.loading.run_results import SCORES
from etc_jax.papers import paper_scale
from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.table import Row, Table
from etc_jax.training.errors import UserError

PAPER, TINY = "paper", "tiny"
SCALES = (PAPER, TINY)
OWN = "own"
NOT_HERE = "not here"


@dataclasses.dataclass(frozen=True)
class Study:
    """The tiny scale of a table.

    Attributes:
      about: data, model and steps, in a sentence or two.
      chain_fn: (chain, row, seed) -> where its figures will be, by column; what gives
        them is added to the chain. None: the row has no tiny form.
    """

    about: str
    chain_fn: Callable[[Chain, Row, int], Mapping[str, Measured] | None]


@functools.cache
def studies() -> dict[str, Study]:
    """By the name of the table."""
    package = importlib.import_module(f"{__package__}.tiny")
    names = [x.name for x in pkgutil.iter_modules(package.__path__)]
    modules = [importlib.import_module(f"{package.__name__}.{name}") for name in names]
    return {
        k: x for module in modules for k, x in getattr(module, "STUDIES", {}).items()
    }


@dataclasses.dataclass(frozen=True)
class Runs:
    """A table at one scale, in a folder.

    Attributes:
      table: what is run.
      scale: of `SCALES`.
      workdir: of all tables, which share what is the same.
      data: see `Chain`.
      texts: see `Chain`.
    """

    table: Table
    scale: str
    workdir: str | os.PathLike
    data: str = "data"
    texts: str = "texts/*.jsonl.gz"

    @property
    def file(self) -> pathlib.Path:
        """Of the figures."""
        return pathlib.Path(self.workdir, f"{self.table.name}.{self.scale}.json")

    @property
    def about(self) -> str:
        """What this scale is."""
        if self.scale == PAPER:
            return "The paper's size, on the official files."
        study = studies().get(self.table.name)
        return study.about if study else ""

    def chain(self, row: Row, seed: int) -> tuple[Chain, dict[str, Measured]] | None:
        """Its commands, and where its figures will be; None: it is not run here."""
        root = pathlib.Path(self.workdir, self.scale)
        chain = Chain(root, self.data, self.texts)
        if self.scale == TINY:
            study = studies().get(self.table.name)
            measured = study and study.chain_fn(chain, row, seed)
        else:
            measured = paper_scale.chain_of(chain, self.table, row, seed)
        return (chain, dict(measured)) if chain.commands else None

    def here(self) -> list[Row]:
        """The rows that are run at this scale."""
        if self.scale == PAPER:
            return [row for row in self.table.rows if row.is_run]
        return [row for row in self.table.rows if self.chain(row, 0)]

    def figures(self) -> list[dict[str, Any]]:
        """What was measured: `row`, `seed`, `figures` by column, `cpu_secs`."""
        return json.loads(self.file.read_text())["runs"] if self.file.exists() else []

    def carry_out(self, row: Row, seed: int) -> None:
        """Runs what is not done of a row, and notes its figures.

        Raises:
          UserError: if the row is not run here.
          RunError: if a command fails, see `Chain.carry_out`.
        """
        commands = self.chain(row, seed)
        if commands is None:
            raise UserError(
                f"{self.table.name}, {row.name!r}: not run at the {self.scale} scale; "
                f"{row.note or 'there is nothing for it here'}"
            )
        chain, measured = commands
        chain.carry_out()
        values = {column: x.read(chain.root) for column, x in measured.items()}
        spent = {"cpu_secs": round(chain.spent(), 1)}
        self._note({"row": row.name, "seed": seed, "figures": values, **spent})

    def take(self, row: Row, folder: str | os.PathLike) -> None:
        """Takes over what was evaluated elsewhere as figures of a row.

        Args:
          row: that they belong to.
          folder: `--out` of `etc-jax evaluate`, or of a run that learns texts.

        Raises:
          UserError: if it gives no column of the table.
        """
        root, values = pathlib.Path(folder), {}
        for column, measured in self._in(root):
            values[column] = measured.read(root)
        if not values:
            wanted = {x.data for x in self.table.measured.values()}
            raise UserError(
                f"{root} gives no figure of {self.table.name}; expected an evaluation "
                f"of {', '.join(sorted(wanted)) or 'nothing: it has no scores'}"
            )
        self._note(
            {"row": row.name, "seed": OWN, "figures": values, "folder": str(root)}
        )

    def _in(self, root: pathlib.Path) -> Iterator[tuple[str, Measured]]:
        """The columns that a folder has."""
        is_scored = (root / SCORES).exists()
        task = json.loads((root / SCORES).read_text())["task"] if is_scored else None
        for column, metric in self.table.measured.items():
            files = paper_scale.data_sets().get(metric.data)
            if (files.task if files else None) == task:
                yield column, metric.at(".", "scores" if is_scored else "evaluation")

    def _note(self, run: dict[str, Any]) -> None:
        same = run["row"], run["seed"]
        others = [x for x in self.figures() if (x["row"], x["seed"]) != same]
        values = {"table": self.table.name, "scale": self.scale, "runs": [*others, run]}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.file, json.dumps(values, indent=1))
