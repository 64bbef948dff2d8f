"""How much a compiled program moves between a device and its memory.

XLA's own count (`cost_analysis`) takes the body of a loop once, and what lies in a
TPU core's own memory like all else.
"""

import functools
import re
from collections.abc import Iterator

from etc_jax.training.preflight import compiled_text
from etc_jax.training.preflight.compiled_text import Computation, Instruction

# What moves nothing by itself, or is counted where it begins or within.
_FREE = {
    "after-all",
    "bitcast",
    "call",
    "conditional",
    "constant",
    "get-tuple-element",
    "opt-barrier",
    "parameter",
    "partition-id",
    "tuple",
    "while",
}
_FREE_CALLS = ("AllocateBuffer", "AssumeGatherIndicesInBound", "ConcatBitcast")
_SLICES = ("dynamic-slice", "gather", "slice")
_STARTS = ("copy-start", "slice-start")


def moved_bytes(text: str) -> int:
    """Bytes that one device reads and writes in one run of a program.

    Of an array that is sliced, or written in part, the part counts; a Pallas kernel
    counts as it says itself.

    Args:
      text: of `jax.stages.Compiled.as_text()`.
    """
    parts = compiled_text.computations(text)
    times = compiled_text.runs(parts)
    functions = {name: _Function(part) for name, part in parts.items()}
    within = set(_within(parts))
    return sum(
        times[name] * function.moves(instruction, functions)
        for name, function in functions.items()
        if name not in within
        for instruction in function.instructions.values()
    )


def _within(parts: dict[str, Computation]) -> Iterator[str]:
    """Functions whose values never leave what calls them."""
    for part in parts.values():
        for line in part.lines[1:]:
            yield from re.findall(r"\b(?:calls|to_apply)=%?([\w.\-]+)", line)


class _Function:
    """Bytes of the instructions of one function of a program."""

    def __init__(self, part: Computation):
        self.instructions = {x.name: x for x in part.instructions()}

    def moves(self, instruction: Instruction, functions: dict) -> int:
        """Bytes that an instruction reads and writes."""
        op = instruction.op
        if op in _FREE or op.endswith("-done"):
            return 0
        if op == "custom-call":
            if match := re.search(r'"bytes_accessed":"(\d+)"', instruction.line):
                return int(match[1])
            if any(f'"{name}"' in instruction.line for name in _FREE_CALLS):
                return 0
        if op in _STARTS:
            # What is copied, where it is from and a counter: the least is the copy.
            inside = compiled_text.array_bytes(instruction.result, everywhere=False)
            sizes = compiled_text.array_bytes(instruction.result)
            copied = min((size for size in sizes if size > 4), default=0)
            return sum(min(x, copied) for x in inside if x > 4)
        read = [self._outside(name) for name in instruction.operands]
        written = _outside(instruction)
        if op in _SLICES:
            return 2 * written
        if op == "dynamic-update-slice":
            return 2 * read[1]
        if op == "fusion":
            fused = functions[instruction.called]
            used = fused.used
            read = [
                min(size, used.get(number, size)) for number, size in enumerate(read)
            ]
            written = min(written, fused.written)
        return written + sum(read)

    def _outside(self, name: str) -> int:
        instruction = self.instructions.get(name)
        return 0 if instruction is None else _outside(instruction)

    def _size(self, name: str) -> int:
        return sum(compiled_text.array_bytes(self.instructions[name].result))

    @functools.cached_property
    def used(self) -> dict[int, int]:
        """Bytes that are read of parameters of which only parts are."""
        users: dict[str, list[Instruction]] = {}
        for instruction in self.instructions.values():
            for name in instruction.operands:
                users.setdefault(name, []).append(instruction)

        def used(name: str) -> int:
            total = 0
            for user in users.get(name, ()):
                if user.op in _SLICES and user.operands[0] == name:
                    total += self._size(user.name)
                elif user.op == "bitcast":
                    total += used(user.name)
                elif user.op != "dynamic-update-slice" or user.operands[0] != name:
                    total += self._size(name)
            return total

        return {
            int(re.search(r"parameter\((\d+)\)", x.line)[1]): used(x.name)
            for x in self.instructions.values()
            if x.op == "parameter"
        }

    @functools.cached_property
    def written(self) -> int:
        """Bytes of the results, of those written in part the part."""

        def size(instruction: Instruction) -> int:
            if instruction.op == "tuple":
                return sum(size(self.instructions[x]) for x in instruction.operands)
            if instruction.op == "bitcast":
                source = self.instructions[instruction.operands[0]]
                return min(self._size(instruction.name), size(source))
            if instruction.op == "dynamic-update-slice":
                return self._size(instruction.operands[1])
            return self._size(instruction.name)

        return sum(size(x) for x in self.instructions.values() if x.is_root)


def _outside(instruction: Instruction) -> int:
    """Bytes of a result, without what lies in a core's own memory."""
    return sum(compiled_text.array_bytes(instruction.result, everywhere=False))
