"""A step of this library beside the same step of others: time, memory, floors.

All sides have the same weights and inputs, float32, and the same GPU, or the same CPU
and number of threads. They run in turn in one process; memory is measured in a process
for each. Where sizes have a dtype and it is bfloat16, parameters stay float32, and
products are of bfloat16: by `dtype` of this library's models, by autocast in PyTorch. A
benchmark is a `Peers`, called `PEERS`, and its `main`.
"""

import argparse
import dataclasses
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from benchmarks.kit import machine, memory, report
from benchmarks.kit.compiled import Compiled
from benchmarks.kit.harness import Floor, Side, WrongSideError
from etc_jax.conversion import hugging_face

REFERENCE = "etc_jax"
# Of `harness.scaled_error`, for losses and scores: means over many tokens, which hide
# most of the rounding. Gradients have bounds of their own.
TOLERANCES = {"float32": 1e-4, "bfloat16": 1e-2}
# {part of the work: its sides}, and more metrics for the file.
Parts = tuple[dict[str, list[Side]], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Peers:
    """What is measured.

    Attributes:
      module: name of the benchmark's module.
      text: its docstring, the help of the command.
      sizes: dataclass of one measurement; numbers that have a default are options, and
        so is a `dtype`.
      sides: {name: sizes -> what `memory.measure` measures}; `REFERENCE` first.
      parts_fn: sizes -> what is timed. Raises WrongSideError before it is.
      what: sizes in words.
      faster: (sizes, part, peer) -> how many times as fast on a CPU, at least; None:
        no floor.
      axes: {option: (its type, default)} of the fields without a default, in their
        order: one measurement for each combination of their values.
      smaller: share of each peer's memory on a CPU, at most.
      rounds: timed runs, by default.
    """

    module: str
    text: str
    sizes: type
    sides: Mapping[str, Callable[[Any], Any]]
    parts_fn: Callable[[Any], Parts]
    what: Callable[[Any], str]
    faster: Callable[[Any, str, str], float | None]
    axes: Mapping[str, tuple[Callable, Any]] = dataclasses.field(default_factory=dict)
    smaller: float = 0.7
    rounds: int = 3

    def times(self, sizes: Any, **options: Any) -> tuple[dict[str, Any], list[Floor]]:
        """Times of all parts, printed; (for JSON, floors).

        Args:
          sizes: of the measurement.
          **options: of `harness.interleaved`, such as `rounds`.
        """
        parts, metrics = self.parts_fn(sizes)
        rows, floors = {}, []
        for part, sides in parts.items():
            timings = report.compared(
                f"{self.what(sizes)}, {part}",
                sides,
                reference=REFERENCE,
                tolerance=TOLERANCES[getattr(sizes, "dtype", "float32")],
                **options,
            )
            rows[part] = report.timing_rows(timings)
            floors += self._floors(sizes, part, {t.name: t.ratio for t in timings})
        for name, value in metrics.items():
            print(f"{name}: {value:.1e}")
        return {"rows": rows, **metrics}, floors

    def _floors(self, sizes: Any, part: str, ratios: Mapping[str, float]):
        for peer in list(self.sides)[1:]:
            limit = self.faster(sizes, part, peer)
            if limit is not None:
                name = f"{self.what(sizes)}, {part}: times faster than {peer}"
                yield Floor(name, ratios[peer], limit, at_most=False)

    def peaks(self, sizes: Any, *, timed: bool) -> tuple[dict[str, Any], list[Floor]]:
        """Peak memory of each side in its own process, printed; (for JSON, floors).

        Args:
          sizes: of the measurement.
          timed: whether the time of the call stands for that of `times`, where one
            takes minutes.
        """
        peaks = {k: memory.measure(build, sizes) for k, build in self.sides.items()}
        print(report.memory_table(peaks, REFERENCE), flush=True)
        own = peaks[REFERENCE]
        floors = [
            Floor(
                f"{self.what(sizes)}: memory beside {peer}",
                own["peak_bytes"] / peaks[peer]["peak_bytes"],
                self.smaller,
                at_most=True,
            )
            for peer in list(self.sides)[1:]
        ]
        if timed:
            secs = {name: peak["call_seconds"] for name, peak in peaks.items()}
            print(
                "one call each:", ", ".join(f"{k} {x:.1f} s" for k, x in secs.items())
            )
            ratios = {name: x / secs[REFERENCE] for name, x in secs.items()}
            floors += self._floors(sizes, "in all", ratios)
        return peaks, floors

    def measure(
        self, args: argparse.Namespace, sizes: Any
    ) -> tuple[dict[str, Any], list[Floor]]:
        """Times and memory of one measurement; (for JSON, floors)."""
        metrics, floors = {"sizes": dataclasses.asdict(sizes)}, []
        if args.rounds:
            times, floors = self.times(sizes, rounds=args.rounds)
            metrics |= times
        if args.memory:
            metrics["memory"], more = self.peaks(sizes, timed=not args.rounds)
            floors += more
        return metrics, floors if args.platform == "cpu" else []

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Runs the benchmark; returns the exit code, see `report.run_quiet`.

        --rounds=0 compares nothing, and times one call of each side as its memory is
        measured.
        """
        name = self.module.rpartition(".")[2]
        options = report.timing_parser(name, self.text, rounds=self.rounds)
        numbers = report.defaults_of(self.sizes)
        report.add_numbers(options, numbers)
        for axis, (kind, default) in self.axes.items():
            options.add_argument(f"--{axis}", type=kind, default=default)
        options.add_argument(
            "--memory", action=argparse.BooleanOptionalAction, default=True
        )
        has_dtype = "dtype" in {field.name for field in dataclasses.fields(self.sizes)}
        add_precision(options, TOLERANCES if has_dtype else ("float32",))
        args = options.parse_args(argv)
        common, axes = report.chosen(args, numbers), report.chosen(args, self.axes)
        common |= {"dtype": args.dtype} if has_dtype else {}
        at = [self.sizes(*x, **common) for x in itertools.product(*axes.values())]
        use(args)

        def work():
            more = {"reference": REFERENCE}
            if args.memory:
                more["memory_calibration_error"] = memory.calibration_error()
            return report.gathered((self.measure(args, x) for x in at), **more)

        shapes = {**common, **axes}
        return report.run_quiet(options, args, work, shapes=shapes, dtype=args.dtype)


def add_precision(
    options: argparse.ArgumentParser, dtypes: Iterable[str] = TOLERANCES
) -> None:
    """Flags that say where all sides compute, and in what."""
    add = options.add_argument
    add("--platform", choices=("cpu", "cuda"), default="cpu", help="of jax")
    add("--dtype", choices=tuple(dtypes), default="float32")


def use(args: argparse.Namespace) -> None:
    """Has this process compute as `add_precision` says, and others that it starts."""
    machine.use(args.platform, "highest" if args.dtype == "float32" else None)


# --- models in transformers -----------------------------------------------------------


def start_torch() -> None:
    """As many threads as this process has cores, which sleep when they are idle.

    Spinning threads would take time from the side that runs next. To be called before
    PyTorch's thread pool starts, which reads this once.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    import torch

    torch.set_num_threads(machine.num_threads())


def device() -> str:
    """Where JAX computes, as PyTorch calls it."""
    return "cuda" if jax.default_backend() == "gpu" else "cpu"


def autocast(dtype: str) -> Any:
    """A context in which PyTorch computes in this dtype with float32 parameters."""
    import torch

    return torch.autocast(device(), torch.bfloat16, enabled=dtype == "bfloat16")


def load(params: Any, config: Any) -> Any:
    """The model in PyTorch, by the class that its folder names, on `device()`.

    Args:
      params: of this library.
      config: of the model.
    """
    start_torch()
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        hugging_face.save(folder, params, config)
        theirs = transformers.AutoConfig.from_pretrained(folder)
        kind = getattr(transformers, theirs.architectures[0])
        return kind.from_pretrained(folder).to(device())


def global_mask(config: Any, tokens: Any) -> dict[str, Any]:
    """What a model in PyTorch is given beside tokens `[b, n]`: the first is global.

    {} where the model has no global tokens.
    """
    if not config.has_globals:
        return {}
    mask = tokens.new_zeros(tokens.shape)
    mask[:, 0] = 1
    return {"global_attention_mask": mask}


# --- training steps -------------------------------------------------------------------


class JaxStep:
    """Loss and gradients of this library.

    Args:
      loss: (params, *args) -> nats a token.
      params: numpy arrays.
      *args: of the loss.
      export_fn: from gradients as the parameters to {name in transformers: array}.
    """

    def __init__(self, loss: Callable, params: Any, *args: Any, export_fn: Callable):
        self._step = Compiled.make(jax.value_and_grad(loss), params, *args)
        self._export_fn = export_fn
        self.run, self.more = self._step.run, self._step.more

    def gradients(self, result: tuple[float, Any]) -> dict[str, np.ndarray]:
        """By their names in transformers."""
        return jax.tree.map(np.asarray, self._export_fn(result[1]))


class TransformersStep:
    """Loss and gradients of transformers, in training mode.

    Args:
      model: with weights, on `device()`.
      dtype: see `autocast`.
      **inputs: tensors, of the model, with `labels`.
    """

    def __init__(self, model: Any, dtype: str = "float32", **inputs: Any):
        self._model, self._dtype = model.train(), dtype
        self._inputs = {name: x.to(device()) for name, x in inputs.items()}

    def run(self) -> tuple[float, None]:
        """(nats a token, nothing); gradients are left on the parameters."""
        self._model.zero_grad(set_to_none=True)
        with autocast(self._dtype):
            loss = self._model(**self._inputs, use_cache=False).loss
        loss.backward()
        return loss.item(), None

    def gradients(self, result: tuple[float, None]) -> dict[str, np.ndarray]:
        """Of the last run, by name; without parameters that have none."""
        del result
        gradients = {name: p.grad for name, p in self._model.named_parameters()}
        return {k: x.cpu().numpy() for k, x in gradients.items() if x is not None}


def distance(got: Mapping[str, np.ndarray], want: Mapping[str, np.ndarray]) -> float:
    """Norm of the difference over the norm of `want`, over all arrays of `want`."""
    pairs = [(got[name].astype(np.float64), x) for name, x in want.items()]
    difference = sum(np.sum((a - b) ** 2) for a, b in pairs)
    return float(
        np.sqrt(difference / sum(np.sum(b.astype(float) ** 2) for _, b in pairs))
    )


def step_parts(own: JaxStep, other: TransformersStep, *, tolerance: float) -> Parts:
    """A training step, and how far its gradients are apart.

    Args:
      own: the side of this library.
      other: that of transformers.
      tolerance: of the distance of all gradients together.

    Raises:
      WrongSideError: if the gradients are not those of one function.
    """

    def loss(result: tuple[Any, Any]) -> dict[str, np.ndarray]:
        return {"loss": np.asarray(result[0], np.float64)}

    result = own.run()
    error = distance(own.gradients(result), other.gradients(other.run()))
    if not error <= tolerance:
        raise WrongSideError(
            f"transformers: gradients differ from this library's by {error:.2e} of "
            f"their norm, more than {tolerance:g}; a wrong side is not timed"
        )
    want = loss(result)
    sides = [
        Side(REFERENCE, own.run, loss),
        Side("transformers", other.run, loss, lambda: want),
    ]
    return {"a step": sides}, {"gradient_error": error}
