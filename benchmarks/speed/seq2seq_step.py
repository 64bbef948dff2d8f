"""A training step of LED and LongT5 beside transformers': time and memory.

    python -m benchmarks seq2seq_step --out=seq2seq_step.json
    python -m benchmarks seq2seq_step --models=long_t5_tglobal_base --lengths=16384

Loss and gradients of one pair of texts: the same weights and tokens, float32, no
dropout, the same CPU and number of threads. Both sides compute the activations of
layers again; this library keeps the output of attention (`remat_policy="attention"`).
The first token is global for LED. Sides run in turn in one process; memory is measured
in a process for each. Before anything is timed, losses and gradients are compared.
Where a step takes minutes, --rounds=0 times one in the process that measures memory,
and compares nothing. A busy machine is refused (exit code 3); exit code 1 if a floor
fails.
"""

import argparse
import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit import beside_transformers, report
from benchmarks.kit.harness import Floor, Side
from benchmarks.speed.sides_jax import Compiled
from etc_jax.conversion.families import encoder_decoder as conversion
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig
from etc_jax.models.encoder_decoder.sizes import SIZES
from etc_jax.objectives.seq2seq import shifted_right

MODELS = ("led_base", "long_t5_tglobal_base")
LENGTHS = (4096,)
# Of the loss; and of all gradients together.
LOSS_TOLERANCE = 1e-4
GRADIENT_TOLERANCE = 1e-3
# How many times the time of this library, and which share of the other's memory.
FASTER = 1.5
SMALLER = 0.7


@dataclasses.dataclass(frozen=True)
class StepSizes:
    """One pair of texts.

    Attributes:
      model: a name of `encoder_decoder_sizes.SIZES`.
      length: tokens of the input.
      target_length: tokens of the target.
      num_layers: of each side; 0: those of the model.
      logits_chunk_length: tokens whose logits this library computes at once.
      seed: of weights and tokens.
    """

    model: str
    length: int
    target_length: int = 512
    num_layers: int = 0
    logits_chunk_length: int = 128
    seed: int = 0

    @property
    def config(self) -> EncoderDecoderConfig:
        """The model, without dropout, with what is computed again."""
        config = SIZES[self.model]
        rates = ("dropout_rate", "attention_dropout_rate", "activation_dropout_rate")
        fields = {field.name for field in dataclasses.fields(config)}
        changes = {name: 0.0 for name in rates if name in fields}
        if self.num_layers:
            changes["num_layers"] = changes["num_decoder_layers"] = self.num_layers
        return dataclasses.replace(
            config,
            **changes,
            remat_policy="attention",
            logits_chunk_length=self.logits_chunk_length,
        )

    @property
    def tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """int32 `[1, length]` and `[1, target_length]`."""
        rng = np.random.default_rng(self.seed + 1)
        shapes = (1, self.length), (1, self.target_length)
        return tuple(rng.integers(5, 30_000, s).astype(np.int32) for s in shapes)


def random_params(config: EncoderDecoderConfig, seed: int) -> dict[str, Any]:
    """Numpy: normal numbers, scales of norms around 1."""
    rng = np.random.default_rng(seed)

    def draw(path, x):
        drawn = 0.02 * rng.standard_normal(x.shape, np.float32)
        return drawn + (path[-1].key == "scale")

    return jax.tree_util.tree_map_with_path(draw, conversion.shapes(config))


class JaxStep:
    """This library's loss and gradients.

    Args:
      sizes: of the step.
    """

    def __init__(self, sizes: StepSizes):
        config = sizes.config
        model = EncoderDecoder(config, deterministic=False)

        def loss(params, tokens, targets):
            ids = jnp.ones_like(targets)
            start = {"start_id": config.decoder_start_id, "pad_id": config.pad_id}
            index = jnp.zeros((1, 1), jnp.int32) if config.has_globals else None
            losses, _ = model.apply(
                {"params": params},
                tokens,
                shifted_right(targets, ids, **start),
                targets,
                global_index=index,
                method="losses",
            )
            return jnp.mean(losses)

        self._config = config
        self._step = Compiled.make(
            jax.value_and_grad(loss), random_params(config, sizes.seed), *sizes.tokens
        )
        self.more = {"xla_temp_bytes": self._step.temp_bytes}

    def run(self) -> tuple[float, Any]:
        """(nats a token, gradients as the parameters)."""
        return self._step.run()

    def gradients(self, result: tuple[float, Any]) -> dict[str, np.ndarray]:
        """By their names in transformers."""
        named = conversion.export_hf(result[1], self._config)
        return {name: np.asarray(x) for name, x in named.items()}


class TransformersStep:
    """The loss and gradients of transformers, in training mode.

    Args:
      sizes: of the step.
    """

    def __init__(self, sizes: StepSizes):
        import torch

        self._model = beside_transformers.load(
            random_params(sizes.config, sizes.seed), sizes.config
        ).train()
        self._model.gradient_checkpointing_enable()
        tokens, targets = (torch.from_numpy(x).long() for x in sizes.tokens)
        self._inputs = {"input_ids": tokens, "labels": targets, "use_cache": False}
        self._inputs |= beside_transformers.global_mask(sizes.config, tokens)
        self.more: dict[str, Any] = {}

    def run(self) -> tuple[float, None]:
        """(nats a token, nothing); gradients are left on the parameters."""
        self._model.zero_grad(set_to_none=True)
        loss = self._model(**self._inputs).loss
        loss.backward()
        return loss.item(), None

    def gradients(self, result: tuple[float, None]) -> dict[str, np.ndarray]:
        """Of the last run, by name."""
        del result
        parameters = self._model.named_parameters()
        return {name: p.grad.numpy() for name, p in parameters if p.grad is not None}


_KINDS = {"etc_jax": JaxStep, "transformers": TransformersStep}


def build_run(name: str, sizes: dict[str, Any]):
    """Builder for `memory.measure`: (run, metrics) of one side."""
    side = _KINDS[name](StepSizes(**sizes))
    return side.run, side.more


def make_sides(sizes: StepSizes) -> tuple[list[Side], float]:
    """(sides ready to be compared, how far their gradients are apart).

    Raises:
      WrongSideError: if the gradients are not those of one function.
    """
    return beside_transformers.step_sides(
        JaxStep(sizes),
        TransformersStep(sizes),
        _distance,
        tolerance=GRADIENT_TOLERANCE,
    )


def _distance(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> float:
    """Norm of the difference over the norm of `want`, of all that has a gradient."""
    squares = [
        (np.sum((got[name] - x) ** 2, dtype=np.float64), np.sum(x**2, dtype=np.float64))
        for name, x in want.items()
    ]
    return float(np.sqrt(sum(a for a, _ in squares) / sum(b for _, b in squares)))


def measure(
    args: argparse.Namespace, sizes: StepSizes
) -> tuple[dict[str, Any], list[Floor]]:
    """Times and memory of one model at one length, printed; (for JSON, floors)."""
    what = f"{sizes.model}, {sizes.length} tokens in, {sizes.target_length} out"
    metrics: dict[str, Any] = {"sizes": dataclasses.asdict(sizes)}
    floors = []
    if args.rounds:
        sides, error = make_sides(sizes)
        rows, speed = beside_transformers.times(
            what, sides, rounds=args.rounds, tolerance=LOSS_TOLERANCE, faster=FASTER
        )
        print(f"gradients apart by {error:.1e} of their norm")
        del sides
        metrics |= {"rows": rows, "gradient_error": error}
        floors.append(speed)
    metrics["memory"], more = beside_transformers.peaks(
        what,
        "benchmarks.speed.seq2seq_step:build_run",
        sizes,
        smaller=SMALLER,
        faster=None if args.rounds else FASTER,
    )
    return metrics, [*floors, *more]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code."""
    options = report.timing_parser("seq2seq_step", __doc__, rounds=3)
    numbers = report.defaults_of(StepSizes, "model", "length")
    report.add_numbers(options, numbers)
    options.add_argument("--models", type=report.names(SIZES), default=MODELS)
    options.add_argument("--lengths", type=report.integers, default=LENGTHS)
    args = options.parse_args(argv)
    common = report.chosen(args, numbers)
    at = [StepSizes(m, n, **common) for m in args.models for n in args.lengths]
    shapes = common | {"models": list(args.models), "lengths": list(args.lengths)}
    measure_at = functools.partial(measure, args)
    return beside_transformers.run(options, args, at, measure_at, shapes)
