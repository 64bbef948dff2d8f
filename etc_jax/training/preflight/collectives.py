"""How often the devices of a compiled program talk to each other, and how much."""

import dataclasses
import re
from collections.abc import Iterator

from etc_jax.training.preflight import compiled_text
from etc_jax.training.preflight.compiled_text import Computation, array_bytes

KINDS = (
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "all-to-all",
    "collective-permute",
)

_COLLECTIVE = re.compile(rf"({'|'.join(KINDS)})(-start)?")


@dataclasses.dataclass(frozen=True)
class Traffic:
    """Collectives of one kind.

    Attributes:
      instructions: in the program.
      runs: of one step; a loop whose length the text does not give counts as one pass.
      result_bytes: on one device, of all runs together.
    """

    instructions: int
    runs: int
    result_bytes: int


def count(text: str) -> dict[str, Traffic]:
    """The collectives in a compiled program's text, by kind.

    A TPU program holds an asynchronous collective several times over, where it begins,
    goes on and ends, and has those with the same channel; they are counted once. An
    all-reduce of which each device keeps its part is counted as what it is, a
    reduce-scatter.

    Args:
      text: of `jax.stages.Compiled.as_text()`.
    """
    parts = compiled_text.computations(text)
    times = compiled_text.runs(parts)
    largest: dict[tuple[str, str], tuple[int, int]] = {}
    for name, part in parts.items():
        for kind, channel, size in _collectives(name, part):
            before = largest.get((kind, channel), (0, 0))
            largest[kind, channel] = max(before, (times[name], size))
    return {
        kind: Traffic(
            len(of_kind), sum(r for r, _ in of_kind), sum(r * s for r, s in of_kind)
        )
        for kind in KINDS
        if (of_kind := [value for (k, _), value in largest.items() if k == kind])
    }


def _collectives(name: str, part: Computation) -> Iterator[tuple[str, str, int]]:
    """(kind, what distinguishes it from others, result bytes) in one function."""
    for instruction in part.instructions():
        operation = _COLLECTIVE.fullmatch(instruction.op)
        if not operation:
            continue
        kind, result = operation[1], instruction.result
        if kind == "all-reduce" and name.startswith("all-reduce-scatter"):
            kind, result = "reduce-scatter", part.lines[0].rpartition("->")[2]
        sizes = array_bytes(result)
        # An asynchronous one begins with (operands, results and maybe counters).
        begins = operation[2] and kind != "all-reduce"
        size = max(sizes, default=0) if begins else sum(sizes)
        channel = re.search(r"\bchannel_id=(\d+)", instruction.line)
        yield kind, channel[1] if channel else instruction.name, size
