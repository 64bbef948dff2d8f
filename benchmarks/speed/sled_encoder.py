"""How the time and memory of SLED's encoder grow with the input.

    python -m benchmarks sled_encoder --out=sled_encoder.json

Rows of a BART's encoder by overlapping windows of 256 tokens behind a prefix of 64,
some at a time, float32; the width and heads of the base model with two layers, which
decide nothing here. Floors: time grows by an exponent of 1.05 at most; what XLA needs
beside the rows of all tokens does not grow. A busy machine is refused (exit code 3);
exit code 1 if a floor fails.
"""

import argparse
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.kit import report, scaling
from benchmarks.kit.compiled import Compiled
from benchmarks.kit.harness import Floor, Side
from benchmarks.speed.seq2seq_step import random_weights
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.family import sizes as model_sizes
from etc_jax.models.sled.config import SledConfig

LENGTHS = (1024, 2048, 4096, 8192, 16384, 32768)
EXPONENT = 1.05
# Of rows `[n, e]`: the kept ones, their copy in order, and those of the decoder.
ROWS = 4


@dataclasses.dataclass(frozen=True)
class SledSizes:
    """One input.

    Attributes:
      window: tokens of the document in a window.
      prefix_length: tokens before each of them.
      windows_at_once: of the input.
      num_layers: of the encoder.
      seed: of weights and tokens.
    """

    window: int = 256
    prefix_length: int = 64
    windows_at_once: int = 8
    num_layers: int = 2
    seed: int = 0


def encoder(sizes: SledSizes, length: int) -> tuple[Compiled, int]:
    """(encodes an input of so many tokens, bytes of a row)."""
    sled = SledConfig(
        window=sizes.window,
        prefix_length=sizes.prefix_length,
        windows_at_once=sizes.windows_at_once,
        input_length=length,
    )
    config = dataclasses.replace(
        model_sizes()["bart_base"],
        num_layers=sizes.num_layers,
        num_decoder_layers=1,
        sled=sled,
    )
    model = EncoderDecoder(config)
    rng = np.random.default_rng(sizes.seed)
    tokens = rng.integers(5, 30_000, (1, length)).astype(np.int32)

    def encode(params, tokens):
        return model.apply({"params": params}, tokens, method="encode").rows

    params = random_weights(config, sizes.seed)
    made = Compiled.make(encode, params, tokens, arrays=_first_rows)
    return made, 4 * config.embed_dim


def _first_rows(rows: Any) -> dict[str, np.ndarray]:
    return {"rows": np.asarray(rows[:, :64])}


def measure(
    args: argparse.Namespace, sizes: SledSizes
) -> tuple[dict[str, Any], list[Floor]]:
    """Times and memory over lengths, printed; (for JSON, floors)."""
    made = [encoder(sizes, n) for n in args.lengths]
    sides = [Side.of("", one) for one, _ in made]
    found = scaling.measure(
        f"SLED's encoder over {', '.join(map(str, args.lengths))} tokens",
        args.lengths,
        sides,
        (),
        time="seconds",
        rounds=args.rounds,
        tolerance=0.0,
    )
    temporary = {
        n: one.temp_bytes for n, (one, _) in zip(args.lengths, made, strict=True)
    }
    (first, low), (last, high) = (
        (n, temporary[n]) for n in (args.lengths[0], args.lengths[-1])
    )
    grown = (high - low) / (last - first) / made[0][1]
    print(f"temporary memory grows by {grown:.2f} rows for each token")
    floors = [
        Floor("exponent of the time", found["exponents"]["seconds"], EXPONENT, True),
        Floor("rows of temporary memory for each token", grown, ROWS, True),
    ]
    return found | {"xla_temp_bytes": temporary}, floors


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the benchmark; returns the exit code. Fields of `SledSizes` are options."""
    options = report.timing_parser("sled_encoder", __doc__, rounds=5)
    numbers = report.defaults_of(SledSizes)
    report.add_numbers(options, numbers)
    options.add_argument("--lengths", type=report.integers, default=LENGTHS)
    args = options.parse_args(argv)
    sizes = SledSizes(**report.chosen(args, numbers))
    return report.run_quiet(options, args, lambda: measure(args, sizes))
