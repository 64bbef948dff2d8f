"""Learning rates by parameter, and parameters that are not learnt.

`optimizer.groups` is a table of (pattern, factor). A pattern is a regular expression
that the end of a parameter's path must match, as in `sharding.PARAM_AXES`; the first
row that matches counts. The learning rate of a parameter is the factor times that of
the run, with weight decay and all; 1 where no row matches. A factor of 0 freezes: no
update, no decay, no moments in memory, and no share in the norm that gradients are
clipped to.

    (("encoder/.*", 0.1),)                         the encoder at a tenth of the rate
    (("position_embedder/embedding[514:]", 1), (".*", 0))
                                                   new positions alone

The second pattern of these has rows: [a:b] at the end cuts out the rows a to b - 1 of
the first axis, which of scanned layers counts the layers. The other rows belong to the
next row of the table that matches. The optimizer sees the rows that are learnt as if
they were the array.
"""

from __future__ import annotations

import dataclasses
import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from etc_jax.conversion.engine import flatten, unflatten
from etc_jax.training.errors import UserError

Groups = Sequence[tuple[str, float]]

_ROWS = re.compile(r"\[(\d*):(\d*)\]$")


@dataclasses.dataclass(frozen=True)
class _Learnt:
    """What of an array is learnt, and how fast.

    Attributes:
      start, stop: rows of the first axis.
      total: rows that there are.
      factor: of the learning rate; an array of one for each row where they differ.
    """

    start: int
    stop: int
    total: int
    factor: float | np.ndarray

    @property
    def _is_whole(self) -> bool:
        return self.stop - self.start == self.total

    def cut(self, array: jax.Array) -> jax.Array:
        """The rows that are learnt."""
        return array if self._is_whole else array[self.start : self.stop]

    def put(self, update: jax.Array) -> jax.Array:
        """The update of the whole array by that of the rows that are learnt."""
        factor, other_axes = self.factor, update.ndim - 1
        if isinstance(factor, np.ndarray):
            factor = jnp.asarray(factor, update.dtype).reshape(-1, *[1] * other_axes)
        update = update * factor
        if self._is_whole:
            return update
        rows = (self.start, self.total - self.stop)
        return jnp.pad(update, [rows, *[(0, 0)] * other_axes])


def trained_only(groups: Groups) -> Callable[[Any], Any]:
    """The function of a tree of parameters that leaves out what is frozen.

    Raises:
      UserError: when it is called, see `with_groups`.
    """

    def cut(params: Any) -> Any:
        learnt = _resolve(groups, params)
        flat = flatten(params)
        return unflatten({path: part.cut(flat[path]) for path, part in learnt.items()})

    return cut if groups else lambda params: params


def with_groups(
    tx: optax.GradientTransformation, groups: Groups
) -> optax.GradientTransformation:
    """`tx` with learning rates by parameter; without groups `tx` itself.

    Its state is that of `tx` for the parameters that are learnt.

    Args:
      tx: whose updates are proportional to the learning rate.
      groups: see the module.

    Returns:
      An optimizer of nested dicts, whose `init` raises UserError if a row of the table
      has no effect, or nothing is left to learn.
    """
    if not groups:
        return tx
    cut = trained_only(groups)

    def update(updates, state, params=None):
        parts = _resolve(groups, updates)
        learnt, state = tx.update(
            cut(updates), state, params if params is None else cut(params)
        )
        learnt = flatten(learnt)
        whole = {
            path: parts[path].put(learnt[path]) if path in parts else jnp.zeros_like(x)
            for path, x in flatten(updates).items()
        }
        return unflatten(whole), state

    return optax.GradientTransformation(lambda params: tx.init(cut(params)), update)


def _split(pattern: str) -> tuple[str, str]:
    """(regular expression, rows such as "[512:]" or "")."""
    match = _ROWS.search(pattern)
    return (pattern[: match.start()], match[0]) if match else (pattern, "")


def _resolve(groups: Groups, params: Mapping[str, Any]) -> dict[str, _Learnt]:
    """What is learnt of each parameter; frozen ones are left out.

    Raises:
      UserError: see `with_groups`.
    """
    used = [False] * len(groups)
    factors = {
        path: _factors(groups, path, np.shape(x), used)
        for path, x in flatten(params).items()
    }
    for (pattern, _), is_used in zip(groups, used, strict=True):
        if not is_used:
            raise UserError(_without_effect(pattern, list(factors)))
    learnt = {path: _learnt(path, of_rows) for path, of_rows in factors.items()}
    learnt = {path: part for path, part in learnt.items() if part is not None}
    if not learnt:
        raise UserError(
            "optimizer.groups has the factor 0 for every parameter: nothing would be "
            "learnt"
        )
    return learnt


def _factors(groups: Groups, path: str, shape: tuple[int, ...], used: list[bool]):
    """The factor of each row of an array; marks the groups that it takes one from."""
    factors = np.full(shape[:1] or (1,), np.nan)
    for i, (pattern, factor) in enumerate(groups):
        expression, rows = _split(pattern)
        if not _matches(expression, path) or (rows and not shape):
            continue
        start, stop = _ROWS.match(rows).groups() if rows else ("", "")
        part = factors[int(start or 0) : int(stop) if stop else None]
        left = np.isnan(part)
        used[i] |= bool(left.any())
        part[left] = factor
    return np.nan_to_num(factors, nan=1.0)


def _matches(expression: str, path: str) -> bool:
    return re.search(f"(^|/)(?:{expression})$", path) is not None


def _learnt(path: str, factors: np.ndarray) -> _Learnt | None:
    rows = np.flatnonzero(factors)
    if not len(rows):
        return None
    start, stop = int(rows[0]), int(rows[-1]) + 1
    if stop - start > len(rows):
        raise UserError(
            f"optimizer.groups freezes rows of {path} between others that are learnt; "
            "let those that are learnt stand together"
        )
    chosen = factors[start:stop]
    same = bool((chosen == chosen[0]).all())
    return _Learnt(start, stop, len(factors), float(chosen[0]) if same else chosen)


def _without_effect(pattern: str, paths: list[str]) -> str:
    expression, rows = _split(pattern)
    if any(_matches(expression, path) for path in paths):
        reason = "has no such rows, or an earlier row of the table has taken them"
        return f"optimizer.groups: what {pattern!r} matches {reason}"
    near = difflib.get_close_matches(expression, paths, n=3, cutoff=0.3)
    return (
        f"optimizer.groups: {pattern!r} matches the end of no parameter's path; there "
        f"are, for example: {', '.join(near or paths[:3])}"
    )
