"""Models made long: BERT as a Longformer or an ETC, BART as a LED, and so on.

Positions go on with copies of those that were learnt, block by block, and the
projections of global tokens begin as copies of the others (Beltagy et al. 2020, section
5). On an input short enough that every token sees every other one, the long model says
what the short one did; that is checked, of larger vocabularies too. A family whose
models are made in this way has a `Target` as `extension` of its `Family`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from etc_jax.base import registry
from etc_jax.base.rules import choice
from etc_jax.conversion.formats.native import family_of
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig

MAX_LENGTH, WINDOW = 4096, 512
_CHECKED_LENGTH = 24
# Largest difference of rows on short inputs.
TOLERANCE = 1e-4
# What only some families read.
_OPTIONS = (
    "window",
    "block_size",
    "num_globals",
    "overlap",
    "pooling_layers",
    "copy_global",
)

# (tokens, mask, **inputs) -> rows `[b, n, e]`.
RowsFn = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Extension:
    """What is asked for.

    Attributes:
      to: family of the long model, of `targets`.
      max_length: tokens that it has positions for; None: 4,096, or as many as the
        source where that is more.
      window: tokens that a token sees on both sides together, in Longformer, ETC, LED
        and LongT5; None: the source's, or 512, of LED 1024, of LongT5 254.
      block_size: of block-sparse attention; None: the source's, or 64; of LongT5;
        None: 16; of BART-LS; None: 1,024.
      num_globals: tokens in front of the blocks that are global, of BART-LS in front of
        each; None: the source's, or 0.
      overlap: tokens of a BART-LS see half of each neighbour of their block.
      pooling_layers: last layers of a BART-LS that attend to averages; None: 4.
      positions: "copy" those of the source block by block, or begin "new" ones after
        them at random.
      copy_global: the global projections of a Longformer or LED become copies of the
        local ones again, as after training in which no token was global.
      seed: of what begins at random.
    """

    to: str
    max_length: int | None = None
    window: int | None = None
    block_size: int | None = None
    num_globals: int | None = None
    overlap: bool = False
    pooling_layers: int | None = None
    positions: Literal["copy", "new"] = "copy"
    copy_global: bool = False
    seed: int = 0


class Extended(NamedTuple):
    """A long model.

    Attributes:
      params: nested dict of numpy arrays.
      config: of the model.
      difference: the largest one of the rows of short inputs, of source and result.
      left_behind: parts of the source that have no place in it.
    """

    params: dict[str, Any]
    config: Any
    difference: float
    left_behind: tuple[str, ...]


class Target(NamedTuple):
    """How long models of a family are made.

    Attributes:
      sources: configs of what it can be made of.
      extend: (parameters, config, what is asked) -> the long model. Raises ValueError
        for what it cannot be made of.
      options: those of an `Extension` that it reads.
    """

    sources: tuple[type, ...]
    extend: Callable[[Mapping[str, Any], Any, Extension], Extended]
    options: tuple[str, ...] = ()


def targets() -> dict[str, Target]:
    """By the names of their families."""
    names = registry.names("extension")
    return {name: registry.lookup("extension", name) for name in names}


def targets_of(family: type) -> list[str]:
    """What can be made of models of a family, given by the class of their configs."""
    return [name for name, target in targets().items() if family in target.sources]


def extend(
    params: Mapping[str, Any],
    config: EncoderConfig | EncoderDecoderConfig,
    asked: Extension,
) -> Extended:
    """A long model that begins with the weights of a shorter one.

    Args:
      params: of a model of `models.encoder`, `models.encoder.heads` or
        `models.encoder_decoder`.
      config: of that model.
      asked: what is made of it.

    Raises:
      ValueError: if that cannot be made of the source, or the result differs from it on
        short inputs.
    """
    by_family = targets()
    choice(list(by_family)).check(to=asked.to)
    target = by_family[asked.to]
    _check(config, asked, target)
    extended = target.extend(
        params, dataclasses.replace(config, dtype="float32"), asked
    )
    check_difference(extended.difference, "the model and the long one")
    return extended


def _check(config: Any, asked: Extension, target: Target) -> None:
    if type(config) not in target.sources:
        names = ", ".join(c.__name__.removesuffix("Config") for c in target.sources)
        raise ValueError(
            f"the source is of the family {family_of(config)}; what becomes a "
            f"{asked.to} is {names}"
        )
    wanted = length_of(config, asked)
    if wanted < config.max_length:
        raise ValueError(
            f"max_length is {wanted}, but the source has {config.max_length} positions "
            "already; ask for as many or more"
        )
    for name in _OPTIONS:
        value = getattr(asked, name)
        # Not `in`: 0 is asked for, and equals False.
        is_asked = value is not None and value is not False
        if is_asked and name not in target.options:
            raise ValueError(
                f"{name} is {value}, which is not asked of a {asked.to}; leave it out"
            )


def length_of(config: EncoderConfig | EncoderDecoderConfig, asked: Extension) -> int:
    """Positions of the long model."""
    return asked.max_length or max(MAX_LENGTH, config.max_length)


def common_fields(config: Any, of: type = EncoderConfig) -> dict[str, Any]:
    """The fields that a class of configs has, by name, with a config's values."""
    names = (field.name for field in dataclasses.fields(of))
    return {name: getattr(config, name) for name in names}


def long_positions(
    table: np.ndarray, offsets: tuple[int, int], length: int
) -> np.ndarray:
    """A table of positions that goes on with copies of itself.

    Args:
      table: `[rows, e]` of the source.
      offsets: row of position 0, in the source and in the result. What stands before
        it, which padding reads, is kept; or is the row of position 0.
      length: positions of the result.

    Returns:
      `[offset + length, e]`.
    """
    old, new = offsets
    first, rows = table[:old], table[old:]
    # Where the result has more rows for padding, or fewer.
    before = np.concatenate([np.repeat(rows[:1], max(new - old, 0), 0), first])
    copies = rows[np.arange(length) % len(rows)]
    return np.concatenate([before[len(before) - new :], copies])


def positions_of(
    table: np.ndarray,
    config: EncoderConfig | EncoderDecoderConfig,
    offset: int,
    asked: Extension,
) -> np.ndarray:
    """The table of positions of the long model, `[rows, embed]`.

    Args:
      table: `[rows, embed]`, of the source.
      config: of the source.
      offset: row of position 0 in the result.
      asked: its length, and what the new rows are.
    """
    offsets = (config.position_offset, offset)
    table = long_positions(table, offsets, length_of(config, asked))
    if asked.positions == "new":
        rng = np.random.default_rng(asked.seed)
        rest = table[offset + config.max_length :]
        rest[:] = rng.normal(0, config.initializer_range, rest.shape)
    return table


def fully_seen(*configs: EncoderConfig | EncoderDecoderConfig) -> int | None:
    """How far to each side all tokens of these models see all others; None: any."""
    lengths = [p.full_attention_length for c in configs for p in c.patterns]
    return min((n - 1 for n in lengths if n is not None), default=None)


def largest_difference(
    before: RowsFn,
    after: RowsFn,
    config: EncoderConfig | EncoderDecoderConfig,
    window: int | None = None,
    inputs: Mapping[str, Any] | None = None,
) -> float:
    """Of the rows of two models on two short sequences, one with padding after it.

    Args:
      before: the source.
      after: the long model.
      config: of the source.
      window: tokens that both models see on one side; None: all.
      inputs: further ones of the long model.
    """
    n = min(_CHECKED_LENGTH, config.max_length)
    if window is not None:
        n = min(n, window + 1)
    tokens = np.random.default_rng(0).integers(0, config.vocab_size, (2, n), np.int32)
    mask = np.ones_like(tokens)
    mask[1, (n + 1) // 2 :] = 0
    with jax.default_matmul_precision("highest"):
        want = np.asarray(before(tokens, mask))
        got = np.asarray(after(tokens, mask, **(inputs or {})))
    return float(np.abs(got - want)[mask > 0].max())


def difference_on_short_inputs(
    before: RowsFn,
    after: RowsFn,
    config: EncoderConfig | EncoderDecoderConfig,
    target: EncoderConfig | EncoderDecoderConfig,
    more_inputs: Mapping[str, Any] | None = None,
) -> float:
    """`largest_difference` where tokens of both models see all others.

    Args:
      before: the source.
      after: the long model.
      config: of the source.
      target: of the long model.
      more_inputs: further ones of the long model, which must not change its rows: it is
        compared with them, and without.
    """
    window = fully_seen(config, target)
    kinds = [{}] if more_inputs is None else [{}, more_inputs]
    return max(largest_difference(before, after, config, window, x) for x in kinds)


def check_difference(difference: float, between: str) -> None:
    """Refuses a result that does not compute what its source does.

    Args:
      difference: of `largest_difference`.
      between: the two models, for the error.

    Raises:
      ValueError: if it is above `TOLERANCE`, or no number.
    """
    if not difference <= TOLERANCE:
        raise ValueError(
            f"short inputs differ by {difference:.3g} between {between} made of it, "
            f"expected at most {TOLERANCE}; the weights are not finite, or too large "
            "for float32"
        )
