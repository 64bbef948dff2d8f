"""How often the devices of a compiled program talk to each other, and how much."""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator

KINDS = (
    "all-gather",
    "reduce-scatter",
    "all-reduce",
    "all-to-all",
    "collective-permute",
)

_BITS = {"pred": 8, "bf16": 16}  # other types end in their number of bits
_ARRAY = re.compile(r"\b([a-z]+\d*(?:e\dm\d\w*)?)\[([\d,]*)\]")
_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\) -> .*\{$")
_INSTRUCTION = re.compile(
    r"^\s+(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<result>\(.*?\)|\S+) (?P<op>[\w\-]+)\("
)
_COLLECTIVE = re.compile(rf"({'|'.join(KINDS)})(-start)?")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|true_computation|false_computation)="
    r"%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")


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


@dataclasses.dataclass
class _Computation:
    """Lines of one function of the program."""

    is_entry: bool
    lines: list[str]


def count(text: str) -> dict[str, Traffic]:
    """The collectives in a compiled program's text, by kind.

    A TPU program holds an asynchronous collective several times over, where it begins,
    goes on and ends, and has those with the same channel; they are counted once. An
    all-reduce of which each device keeps its part is counted as what it is, a
    reduce-scatter.

    Args:
      text: of `jax.stages.Compiled.as_text()`.
    """
    parts = _computations(text)
    runs = _runs(parts)
    largest: dict[tuple[str, str], tuple[int, int]] = {}
    for name, part in parts.items():
        for kind, channel, size in _collectives(name, part.lines):
            before = largest.get((kind, channel), (0, 0))
            largest[kind, channel] = max(before, (runs[name], size))
    return {
        kind: Traffic(
            len(of_kind), sum(r for r, _ in of_kind), sum(r * s for r, s in of_kind)
        )
        for kind in KINDS
        if (of_kind := [value for (k, _), value in largest.items() if k == kind])
    }


def _computations(text: str) -> dict[str, _Computation]:
    parts: dict[str, _Computation] = {}
    current = None
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            current = _Computation(bool(match["entry"]), [line])
            parts[match["name"]] = current
        elif current is not None and line.startswith(" "):
            current.lines.append(line)
    return parts


def _runs(parts: dict[str, _Computation]) -> collections.Counter:
    """How often each computation runs in one run of the program."""
    runs: collections.Counter = collections.Counter()
    calls = {name: list(_calls(part, parts)) for name, part in parts.items()}

    def add(name: str, times: int) -> None:
        runs[name] += times
        for callee, passes in calls[name]:
            add(callee, times * passes)

    for name, part in parts.items():
        if part.is_entry:
            add(name, 1)
    return runs


def _calls(part: _Computation, parts) -> Iterator[tuple[str, int]]:
    """(computation, passes) that the lines of one call."""
    for line in part.lines[1:]:
        names = _CALLED.findall(line)
        for branches in _BRANCHES.findall(line):
            names += [name.strip(" %") for name in branches.split(",")]
        passes = 1
        if match := re.search(r" while\(.*\bcondition=%?([\w.\-]+)", line):
            passes = _passes(line, parts[match[1]].lines)
        for name in names:
            if name in parts:
                yield name, passes


def _passes(line: str, condition: list[str]) -> int:
    """How often a loop runs: as the compiler notes it, or as its condition gives it.

    Loops of `jax.lax.scan` and `fori_loop` count from 0 in steps of 1.
    """
    if match := re.search(r'"known_trip_count":\{"n":"(\d+)"', line):
        return int(match[1])
    constants = {}
    for text in condition:
        if match := re.match(r"\s+%?([\w.\-]+) = s32\[\]\S* constant\((\d+)\)", text):
            constants[match[1]] = int(match[2])
    ends = [
        re.search(r" compare\([^,]*, %?([\w.\-]+)\), direction=LT", text)
        for text in condition
    ]
    bounds = [constants[m[1]] for m in ends if m and m[1] in constants]
    return bounds[0] if len(bounds) == 1 else 1


def _collectives(name: str, lines: list[str]) -> Iterator[tuple[str, str, int]]:
    """(kind, what distinguishes it from others, result bytes) in one computation."""
    for line in lines[1:]:
        match = _INSTRUCTION.match(line)
        operation = match and _COLLECTIVE.fullmatch(match["op"])
        if not operation:
            continue
        kind, result = operation[1], match["result"]
        if kind == "all-reduce" and name.startswith("all-reduce-scatter"):
            kind, result = "reduce-scatter", lines[0].rpartition("->")[2]
        size = _bytes(result, last_only=bool(operation[2]) and kind != "all-reduce")
        channel = re.search(r"\bchannel_id=(\d+)", line)
        yield kind, channel[1] if channel else match["name"], size


def _bytes(result: str, *, last_only: bool) -> int:
    """Bytes of a result's arrays.

    Args:
      result: type of an instruction, such as `(f32[2,3]{1,0}, bf16[8])`.
      last_only: it is what an asynchronous collective begins with, (operands, results
        and maybe counters): the largest array counts.
    """
    sizes = []
    for dtype, shape in _ARRAY.findall(result):
        bits = _BITS.get(dtype) or int(re.search(r"\d+", dtype)[0])
        sizes.append(math.prod(int(n) for n in shape.split(",") if n) * bits // 8)
    return max(sizes, default=0) if last_only else sum(sizes)
