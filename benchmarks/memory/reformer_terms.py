"""Each term of the Reformer paper's tables 1 and 3 by itself: one variable grows.

The tables give orders of growth, so a measured exponent may lie below them: they are
bounds. Two of ours always do. Logits never exist all at once here, so that memory does
not grow with rounds times chunk; and of a chunk's tokens each sees a number of keys in
proportion to the chunk, once, where table 1 has its square.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from benchmarks.kit import harness, report
from benchmarks.kit.compiled import Compiled
from benchmarks.kit.harness import Side
from benchmarks.speed.reformer_parts import (
    AttentionSizes,
    attention_step,
    model_step,
    small_config,
)
from etc_jax.models.reformer.config import ReformerConfig

# By how much a measured exponent may be above a bound: parts of a step that the tables
# leave out, and noise of times.
SLACK = 0.15

# (row, variable) -> bounds of the exponents (memory, time).
TABLE_1: Mapping[tuple[str, str], tuple[int, int]] = {
    ("full", "length"): (2, 2),
    ("full", "batch"): (1, 1),
    ("full", "num_heads"): (1, 1),
    ("lsh", "length"): (1, 1),
    ("lsh", "batch"): (1, 1),
    ("lsh", "num_heads"): (1, 1),
    ("lsh", "num_hashes"): (1, 1),
    ("lsh", "chunk_length"): (2, 2),
}
TABLE_3: Mapping[tuple[str, str], tuple[int, int]] = {
    ("transformer", "num_layers"): (1, 1),
    ("transformer", "mlp_dim"): (1, 1),
    ("transformer", "length"): (2, 2),
    ("reversible", "num_layers"): (0, 1),
    ("reversible", "mlp_dim"): (1, 1),
    ("reversible", "length"): (2, 2),
    ("chunked_reversible", "num_layers"): (0, 1),
    ("chunked_reversible", "mlp_dim"): (0, 1),
    ("chunked_reversible", "length"): (2, 2),
    ("lsh_transformer", "num_layers"): (1, 1),
    ("lsh_transformer", "mlp_dim"): (1, 1),
    ("lsh_transformer", "length"): (1, 1),
    ("reformer", "num_layers"): (0, 1),
    ("reformer", "mlp_dim"): (0, 1),
    ("reformer", "length"): (1, 1),
}


@dataclasses.dataclass(frozen=True)
class ModelSizes:
    """A language model of one row of table 3, at batch size 1.

    Attributes:
      row: of `TABLE_3`.
      length: tokens.
      num_layers: all alike.
      num_heads, head_dim: their product is the width of a stream.
      mlp_dim: hidden width of the feed-forward.
      chunk_length: of LSH attention.
      mlp_chunk_length: of the feed-forward, in the rows that cut it.
    """

    row: str
    length: int
    num_layers: int = 2
    num_heads: int = 8
    head_dim: int = 16
    mlp_dim: int = 256
    chunk_length: int = 128
    mlp_chunk_length: int = 128

    @property
    def config(self) -> ReformerConfig:
        is_lsh = self.row in ("lsh_transformer", "reformer")
        cuts = self.row in ("chunked_reversible", "reformer")
        return small_config(
            embed_dim=self.num_heads * self.head_dim,
            num_layers=self.num_layers,
            pattern=("lsh",),
            num_heads=self.num_heads,
            mlp_dim=self.mlp_dim,
            max_length=self.length,
            # A sequence of one chunk is attended whole.
            chunk_length=self.chunk_length if is_lsh else self.length,
            mlp_chunk_length=self.mlp_chunk_length if cuts else 0,
            logits_chunk_length=self.mlp_chunk_length,
            reversible=self.row not in ("transformer", "lsh_transformer"),
        )


def compile_model(sizes: ModelSizes) -> Compiled:
    """Loss and gradients of a model of table 3."""
    return model_step(sizes.config, batch=1, length=sizes.length)


def grown(sizes: Any, variable: str, factors: Sequence[int]) -> list[Any]:
    """Sizes with one field multiplied by each factor."""
    now = getattr(sizes, variable)
    return [dataclasses.replace(sizes, **{variable: now * f}) for f in factors]


def measure(
    row: str,
    variable: str,
    bounds: tuple[int, int],
    points: Sequence[Any],
    build: Callable[[Any], Compiled],
    rounds: int,
) -> dict[str, Any]:
    """Bytes and seconds while one variable grows, ready for JSON.

    Args:
      row: of the table.
      variable: a field of the points.
      bounds: of the exponents of memory and time.
      points: sizes, which differ in that field alone.
      build: compiles one of them.
      rounds: timed runs of each point.
    """
    values = [getattr(point, variable) for point in points]
    steps = [build(point) for point in points]
    sides = [
        Side(str(value), step.run, lambda result: {})
        for value, step in zip(values, steps, strict=True)
    ]
    times = harness.interleaved(sides, rounds=rounds)
    seconds = [float(np.median(times[side.name])) for side in sides]
    temporaries = [step.temp_bytes for step in steps]
    exponents = [harness.exponent(values, x) for x in (temporaries, seconds)]
    return {
        "row": row,
        "variable": variable,
        "values": values,
        "temporary_bytes": temporaries,
        "seconds": seconds,
        "memory_exponent": exponents[0],
        "memory_bound": bounds[0],
        "time_exponent": exponents[1],
        "time_bound": bounds[1],
        "within": [
            e <= bound + SLACK for e, bound in zip(exponents, bounds, strict=True)
        ],
    }


def measure_tables(
    attention: Mapping[str, AttentionSizes],
    lengths: Mapping[str, int],
    factors: Sequence[int],
    rounds: int,
    **model: int,
) -> dict[str, list[dict[str, Any]]]:
    """Both tables, printed as they come.

    Args:
      attention: the sizes that grow, of each row of table 1.
      lengths: tokens of the rows of table 3 with "full" and with "lsh" attention.
      factors: by which each variable grows; the first is 1.
      rounds: timed runs of each point.
      **model: other fields of `ModelSizes`.
    """

    def model_of(row: str) -> ModelSizes:
        kind = "lsh" if row in ("lsh_transformer", "reformer") else "full"
        return ModelSizes(row, lengths[kind], **model)

    build = functools.cache(compile_model)
    tables = {
        "table 1: one attention layer": (TABLE_1, attention.get, attention_step),
        "table 3: language models": (TABLE_3, model_of, build),
    }
    found: dict[str, list[dict[str, Any]]] = {}
    for title, (bounds, sizes_fn, build_fn) in tables.items():
        rows = [
            measure(
                *term,
                most,
                grown(sizes_fn(term[0]), term[1], factors),
                build_fn,
                rounds,
            )
            for term, most in bounds.items()
        ]
        print(f"\n{title}, forward and backward")
        print(terms_table(rows), flush=True)
        found[title.partition(":")[0].replace(" ", "_")] = rows
    return found


def terms_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Exponents beside their bounds, as text."""
    head = ["row", "variable", "values", "memory", "bound", "time", "bound", ""]
    return report.table(
        head,
        [
            [
                r["row"],
                r["variable"],
                "-".join(str(v) for v in (r["values"][0], r["values"][-1])),
                f"{r['memory_exponent']:.2f}",
                str(r["memory_bound"]),
                f"{r['time_exponent']:.2f}",
                str(r["time_bound"]),
                _verdict(*r["within"]),
            ]
            for r in rows
        ],
    )


def _verdict(memory: bool, time: bool) -> str:
    above = [name for name, ok in (("memory", memory), ("time", time)) if not ok]
    return f"{' and '.join(above)} above" if above else "within"
