"""Bits a byte of a language model, each byte predicted with a long text before it.

    python -m benchmarks overlapping_bits --model=runs/charlm5 --part=test

The model is the folder of a run of objective causal_lm on bytes, or of one of its
checkpoints. The files are those of the run, split as there. Windows of --length bytes
overlap: the first one counts whole, of each other the last --scored bytes, so that each
byte counts once (Beltagy et al. 2020, section 4.2, whose numbers are the defaults).

    python -m benchmarks overlapping_bits --model=runs/charlm5 --adapt=0.1 --xz

With --adapt the model goes on learning from what it has predicted, as a compressor
does: a step down the gradient, of that length, after each batch, whose bytes all count
before it (dynamic evaluation; Krause et al. 2018, the plain form). Choose it on the
validation part. --xz tells what `xz -9e` needs for the part after the bytes that were
trained on.

Exit codes: 0 done; 2 something given is wrong; 4 the checkpoint is damaged.
"""

from __future__ import annotations

import argparse
import lzma
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit import report
from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.data.bytes import stream as byte_stream
from etc_jax.scoring.bits import bits_per_symbol
from etc_jax.training.checkpoints.saved_params import SavedParams, read_params
from etc_jax.training.errors import UserError

MODELS = "causal_lm_model"
PARTS = ("valid", "test")
LENGTH, SCORED = 32_256, 512
_REPORT_EVERY = 100


def open_model(folder: str, step: int | None = None) -> SavedParams:
    """The parameters of a run that learnt bytes.

    Args:
      folder: of the run, or of one of its checkpoints.
      step: of the checkpoint; None: the newest.

    Raises:
      UserError: if there is no such run.
      CorruptCheckpointError: if no whole checkpoint is left.
    """
    saved = read_params(folder, step)
    objective, source = saved.config.objective.name, saved.config.data.source
    if (objective, source) != ("causal_lm", "bytes"):
        raise UserError(
            f"{folder} is a run of objective.name={objective!r} on data.source="
            f"{source!r}; expected 'causal_lm' on 'bytes'"
        )
    return saved


def part_of(config: Config, name: str) -> byte_stream.StreamSlice:
    """A part of a run's files.

    Args:
      config: of the run.
      name: of `PARTS`.

    Raises:
      ValueError: if there is too little of them.
      OSError: if a file cannot be read.
    """
    stream = byte_stream.open_bytes(config.data.paths)
    parts = byte_stream.split(stream, config.data.validation_fraction)
    return dict(zip(("train", *PARTS), parts, strict=True))[name]


def nats_of(
    params: Any,
    config: Config,
    part: byte_stream.StreamSlice,
    *,
    length: int,
    scored: int,
    batch_size: int = 1,
    adapt: float = 0.0,
) -> np.ndarray:
    """What each byte of a part costs.

    Args:
      params: of the model.
      config: of its run.
      part: of a stream.
      length: bytes of a window.
      scored: of those, that count, the last ones.
      batch_size: windows at once.
      adapt: times the gradient of a batch's mean loss, that is subtracted from the
        parameters when all its bytes are counted; 0: they stay.

    Returns:
      float64 `[bytes]`, -ln p of each, in their order.

    Raises:
      ValueError: if the model takes no such windows, or `adapt` is no such number.
    """
    if not 0 <= adapt < math.inf:
        raise ValueError(f"--adapt is {adapt}; expected a number from 0 on")
    longest = config.model.max_length
    if length > longest:
        raise ValueError(
            f"--length is {length}, more than the model's max_length = {longest}; "
            "lower it"
        )
    reader = byte_stream.ByteEvaluation(
        part, length=length, scored=scored, batch_size=batch_size
    )
    predict = _predict_fn(config, adapt)
    params = jax.tree.map(jnp.asarray, params)  # moved to the device once
    found = []
    for step in range(reader.steps_per_epoch):
        batch = reader.batch_at(step)
        params, losses = predict(params, batch)
        found.append(np.asarray(losses, np.float64)[batch["target_weights"] > 0])
        if (step + 1) % _REPORT_EVERY == 0:
            bits = bits_per_symbol(np.concatenate(found))
            print(
                f"batch {step + 1} of {reader.steps_per_epoch}: {bits:.4f}", flush=True
            )
    return np.concatenate(found)


def xz_bits(part: byte_stream.StreamSlice, train: byte_stream.StreamSlice) -> float:
    """Bits a byte of a part that `xz -9e` adds to those of the training bytes."""
    known = bytes(train.stream[train.start : train.stop])
    new = bytes(part.stream[part.start : part.stop])
    before, after = (
        len(lzma.compress(x, preset=9 | lzma.PRESET_EXTREME))
        for x in (known, known + new)
    )
    return 8 * (after - before) / len(new)


def _predict_fn(config: Config, rate: float):
    """(parameters, batch) to (parameters for the next one, -ln p `[batch, length]`)."""
    if problem := registry.problem(MODELS, config.family):
        raise ValueError(f"model.family: {problem}")
    model = registry.lookup(MODELS, config.family)(config.model)

    def mean_loss(params, batch):
        inputs = batch["tokens"], batch["targets"]
        losses, _ = model.apply({"params": params}, *inputs, method=model.losses)
        return jnp.average(losses, weights=batch["target_weights"]), losses

    @jax.jit
    def predict(params, batch):
        if not rate:
            return params, mean_loss(params, batch)[1]
        grads, losses = jax.grad(mean_loss, has_aux=True)(params, batch)
        return jax.tree.map(lambda x, g: x - rate * g, params, grads), losses

    return predict


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Bits a byte of the model, and of xz, printed and ready for JSON.

    Raises:
      RunError, ValueError, OSError: if something given is wrong.
    """
    saved = open_model(args.model, args.step)
    part = part_of(saved.config, args.part)
    chosen = report.chosen(args, ("length", "scored", "batch_size", "adapt"))
    bits = bits_per_symbol(nats_of(saved.params, saved.config, part, **chosen))
    print(f"{args.part}: {bits:.4f} bits a byte of {len(part)}")
    found = {"arguments": report.arguments(args), "bytes": len(part), "bits": bits}
    if args.xz:
        found["xz_bits"] = xz = xz_bits(part, part_of(saved.config, "train"))
        print(f"xz: {xz:.4f} bits a byte; the model needs {bits / xz:.3f} of them")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the evaluation; returns the exit code."""
    options = report.parser("overlapping_bits", __doc__)
    add = options.add_argument
    add("--model", required=True, help="folder, see above")
    add("--step", type=int, help="of the checkpoint; default: the newest")
    add("--part", choices=PARTS, default="valid", help="default: valid")
    add("--length", type=int, default=LENGTH, help=f"default: {LENGTH}")
    add("--scored", type=int, default=SCORED, help=f"default: {SCORED}")
    add("--batch_size", type=int, default=1, help="windows at once; default: 1")
    add("--adapt", type=float, default=0.0, help="see above; default: 0, do not")
    add("--xz", action="store_true", help="see above")
    args = options.parse_args(argv)
    return report.run(options, args, lambda: (measure(args), 0))
