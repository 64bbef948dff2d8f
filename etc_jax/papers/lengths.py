"""Rows of lengths: what `etc-jax stats` counts in the files of data sets."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.table import Row

# In the order in which the command is given their files.
_PARTS = ("train", "dev")


def add_stats(
    chain: Chain,
    row: Row,
    flags_fn: Callable[[str], list[str]],
    files_fn: Callable[[str], tuple[str, str]],
) -> dict[str, Measured]:
    """Adds a command for each data set of `Row.lengths`.

    Args:
      chain: to add to.
      row: of a table of lengths.
      flags_fn: data set -> its task, and flags such as those of `Row.stats`.
      files_fn: (training, development) files of a data set, each a file or a pattern.

    Returns:
      Where the figures will be, by column.
    """
    measured = {}
    for column, (data, part, statistic) in row.lengths.items():
        task, *flags = flags_fn(data)
        kinds = [pathlib.Path(x.partition("=")[2]).name for x in flags]
        out = f"stats/{'_'.join([data, *kinds])}.json"
        chain.do("stats", out, f"--task={task}", *flags, *files_fn(data))
        name = {"records": "records", "mean": "lengths/record/mean"}.get(
            statistic, f"lengths/record/percentiles/{statistic}"
        )
        name = f"sets/{_PARTS.index(part)}/{name}"
        measured[column] = Measured(out, name, source=".")
    return measured
