"""A training step of LED and LongT5 beside transformers': time and memory.

    python -m benchmarks seq2seq_step --out=seq2seq_step.json
    python -m benchmarks seq2seq_step --models=long_t5_tglobal_base --lengths=16384
    python -m benchmarks seq2seq_step --platform=cuda --dtype=bfloat16 --batch_size=4

Loss and gradients of pairs of texts, no dropout. Both sides compute the activations
of layers again; this library keeps the output of attention
(`remat_policy="attention"`). With --remat=0 both keep all. The first token is global
for LED. Losses and gradients are compared first. Where a step takes minutes, --rounds=0
times one in the process that measures memory, and compares nothing. A busy machine is
refused (exit code 3); exit code 1 if a floor fails, which a CPU alone has.
"""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit import beside, report
from benchmarks.kit.beside import JaxStep, Peers, TransformersStep
from benchmarks.kit.compiled import random_params
from etc_jax.models.encoder_decoder import weights as conversion
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig
from etc_jax.models.family import sizes as model_sizes
from etc_jax.objectives.seq2seq import shifted_right

MODELS = ("led_base", "long_t5_tglobal_base")
# Of the distance of all gradients together, by dtype and by how positions are encoded.
# Nothing scales the logits of T5's attention: with random weights few keys decide, and
# gradients in bfloat16 are 0.11 (here) and 0.14 (transformers) away from float32 after
# two layers, where LED's and BART's are 0.008 apart. Another model's are 1.4 away.
GRADIENT_TOLERANCES = {
    ("float32", "learnt"): 1e-3,
    ("float32", "relative"): 1e-3,
    ("bfloat16", "learnt"): 0.05,
    ("bfloat16", "relative"): 0.5,
}


@dataclasses.dataclass(frozen=True)
class StepSizes:
    """Pairs of texts.

    Attributes:
      model: a name of `models.family.sizes`.
      length: tokens of each input.
      target_length: tokens of each target.
      batch_size: pairs.
      num_layers: of each side; 0: those of the model.
      logits_chunk_length: tokens whose logits this library computes at once.
      remat: whether activations of layers are computed again, 1 or 0.
      seed: of weights and tokens.
      dtype: see `kit.beside`.
    """

    model: str
    length: int
    target_length: int = 512
    batch_size: int = 1
    num_layers: int = 0
    logits_chunk_length: int = 128
    remat: int = 1
    seed: int = 0
    dtype: str = "float32"

    @property
    def config(self) -> EncoderDecoderConfig:
        """The model, without dropout, with what is computed again."""
        config = with_layers(model_sizes()[self.model], self.num_layers)
        rates = ("dropout_rate", "attention_dropout_rate", "activation_dropout_rate")
        fields = {field.name for field in dataclasses.fields(config)}
        return dataclasses.replace(
            config,
            **{name: 0.0 for name in rates if name in fields},
            remat_policy="attention" if self.remat else "none",
            dtype=self.dtype,
            logits_chunk_length=self.logits_chunk_length,
        )

    @property
    def tokens(self) -> tuple[np.ndarray, np.ndarray]:
        """int32 `[batch_size, length]` and `[batch_size, target_length]`."""
        rng = np.random.default_rng(self.seed + 1)
        shapes = [(self.batch_size, n) for n in (self.length, self.target_length)]
        return tuple(rng.integers(5, 30_000, s).astype(np.int32) for s in shapes)


def with_layers(config: EncoderDecoderConfig, count: int) -> EncoderDecoderConfig:
    """The model with so many layers on each side; 0 leaves them."""
    changes = {"num_layers": count, "num_decoder_layers": count} if count else {}
    return dataclasses.replace(config, **changes)


def random_weights(config: EncoderDecoderConfig, seed: int) -> dict:
    """Numpy parameters of `EncoderDecoder`."""
    return random_params(conversion.shapes(config), seed)


def losses(
    model: EncoderDecoder, params: Any, tokens: jax.Array, targets: jax.Array
) -> jax.Array:
    """Nats of each target, float32 as `targets` `[b, m]`; the first input is global."""
    config = model.config
    start = {"start_id": config.decoder_start_id, "pad_id": config.pad_id}
    index = jnp.zeros((len(tokens), 1), jnp.int32) if config.has_globals else None
    found, _ = model.apply(
        {"params": params},
        tokens,
        shifted_right(targets, jnp.ones_like(targets), **start),
        targets,
        global_index=index,
        method="losses",
    )
    return found


def jax_step(sizes: StepSizes) -> JaxStep:
    """This library's side."""
    config = sizes.config
    model = EncoderDecoder(config, deterministic=False)

    def loss(params, tokens, targets):
        return jnp.mean(losses(model, params, tokens, targets))

    return JaxStep(
        loss,
        random_weights(config, sizes.seed),
        *sizes.tokens,
        export_fn=lambda gradients: conversion.export_hf(gradients, config),
    )


def transformers_step(sizes: StepSizes) -> TransformersStep:
    """The side of transformers."""
    import torch

    model = beside.load(random_weights(sizes.config, sizes.seed), sizes.config)
    if sizes.remat:
        model.gradient_checkpointing_enable()
    tokens, targets = (torch.from_numpy(x).long() for x in sizes.tokens)
    inputs = {"input_ids": tokens, "labels": targets}
    inputs |= beside.global_mask(sizes.config, tokens)
    return TransformersStep(model, sizes.dtype, **inputs)


def parts(sizes: StepSizes) -> beside.Parts:
    """See `beside.step_parts`."""
    tolerance = GRADIENT_TOLERANCES[sizes.dtype, sizes.config.positions]
    return beside.step_parts(
        jax_step(sizes), transformers_step(sizes), tolerance=tolerance
    )


PEERS = Peers(
    __name__,
    __doc__,
    StepSizes,
    {"etc_jax": jax_step, "transformers": transformers_step},
    parts,
    what=lambda s: (
        f"{s.model}, {s.batch_size} x ({s.length} tokens in, {s.target_length} out)"
    ),
    faster=lambda *_: 1.5,
    axes={
        "models": (report.names(model_sizes()), MODELS),
        "lengths": (report.integers, (4096,)),
    },
)
main = PEERS.main
