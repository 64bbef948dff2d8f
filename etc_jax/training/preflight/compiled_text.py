"""The text of a compiled program: its functions, and how often each of them runs."""

import collections
import dataclasses
import math
import re
from collections.abc import Iterator

_BITS = {"pred": 8, "bf16": 16}  # other types end in their number of bits
_ARRAY = re.compile(r"\b([a-z]+\d*(?:e\dm\d\w*)?)\[([\d,]*)\](\{[^}]*\})?")
_COMPUTATION = re.compile(r"^(?P<entry>ENTRY )?%?(?P<name>[\w.\-]+) \(.*\) -> .*\{$")
_INSTRUCTION = re.compile(
    r"^\s+(?P<root>ROOT )?%?(?P<name>[\w.\-]+) = (?P<result>\(.*?\)|\S+) "
    r"(?P<op>[\w\-]+)\((?P<rest>.*)$"
)
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|condition|true_computation|false_computation)="
    r"%?([\w.\-]+)"
)
_BRANCHES = re.compile(r"\bbranch_computations=\{([^}]*)\}")


@dataclasses.dataclass(frozen=True)
class Instruction:
    """One line of a function.

    Attributes:
      name: of what it makes.
      result: type of that, such as `(f32[2,3]{1,0}, bf16[8])`.
      op: the operation, such as `fusion`.
      operands: names of what it reads.
      line: its text.
      is_root: whether it makes what the function returns.
    """

    name: str
    result: str
    op: str
    operands: tuple[str, ...]
    line: str
    is_root: bool

    @property
    def called(self) -> str | None:
        """Name of the function that a fusion or a loop runs; None: it runs none."""
        match = re.search(r"\b(?:calls|body)=%?([\w.\-]+)", self.line)
        return match and match[1]


@dataclasses.dataclass
class Computation:
    """A function of the program.

    Attributes:
      is_entry: whether the program begins with it.
      lines: its text, the head first.
    """

    is_entry: bool
    lines: list[str]

    def instructions(self) -> Iterator[Instruction]:
        """Its lines, in their order."""
        for line in self.lines[1:]:
            if match := _INSTRUCTION.match(line):
                root, name, result, op, rest = match.groups()
                yield Instruction(
                    name, result, op, _operands(rest), line, root is not None
                )


def _operands(rest: str) -> tuple[str, ...]:
    """Names up to the bracket that ends them."""
    depth = 1
    for end, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if not depth:
            return tuple(re.findall(r"%([\w.\-]+)", rest[:end]))
    return ()


def computations(text: str) -> dict[str, Computation]:
    """The functions of a program, by name.

    Args:
      text: of `jax.stages.Compiled.as_text()`.
    """
    parts: dict[str, Computation] = {}
    current = None
    for line in text.splitlines():
        if match := _COMPUTATION.match(line):
            current = Computation(bool(match["entry"]), [line])
            parts[match["name"]] = current
        elif current is not None and line.startswith(" "):
            current.lines.append(line)
    return parts


def runs(parts: dict[str, Computation]) -> collections.Counter:
    """How often each function runs in one run of the program, by name.

    A loop whose length the text does not give counts as one pass.
    """
    total: collections.Counter = collections.Counter()
    calls = {name: list(_calls(part, parts)) for name, part in parts.items()}

    def add(name: str, times: int) -> None:
        total[name] += times
        for callee, passes in calls[name]:
            add(callee, times * passes)

    for name, part in parts.items():
        if part.is_entry:
            add(name, 1)
    return total


def _calls(part: Computation, parts) -> Iterator[tuple[str, int]]:
    """(function, passes) that the lines of one call."""
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


def array_bytes(result: str, *, everywhere: bool = True) -> list[int]:
    """Bytes of each array of a type.

    Args:
      result: such as `(f32[2,3]{1,0}, bf16[8])`.
      everywhere: also arrays in a core's own memory, of 0 bytes otherwise.
    """
    sizes = []
    for dtype, shape, layout in _ARRAY.findall(result):
        bits = _BITS.get(dtype) or int(re.search(r"\d+|$", dtype)[0] or 0)
        size = math.prod(int(n) for n in shape.split(",") if n) * bits // 8
        is_outside = everywhere or not re.search(r"S\([1-9]", layout)
        sizes.append(size if is_outside else 0)
    return sizes
