"""Small random encoder-decoders, for comparison with transformers."""

import random

import jax
import numpy as np

from etc_jax.models.bart.config import BartConfig
from etc_jax.models.encoder_decoder import weights as conversion
from etc_jax.models.led.config import LedConfig
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.t5.config import T5Config

VOCABULARY = 23


def _sizes(rng: random.Random) -> dict:
    heads = rng.choice((1, 2, 3))
    return {
        "vocab_size": VOCABULARY,
        "embed_dim": heads * rng.choice((2, 4)) * 2,
        "num_heads": heads,
        "num_layers": rng.choice((1, 2, 4)),
        "num_decoder_layers": rng.choice((1, 2, 3)),
        "mlp_dim": rng.choice((5, 8)),
        "max_length": 64,
        "activation": rng.choice(("gelu", "relu", "silu")),
    }


def _bart(rng: random.Random) -> dict:
    # One head less divides the width too: it is an even multiple of both.
    return {
        **_sizes(rng),
        "num_decoder_heads": rng.choice((1, 2)),
        "decoder_mlp_dim": rng.choice((3, 7)),
        "activation": rng.choice(("gelu_exact", "gelu", "relu")),
    }


def _t5(rng: random.Random) -> dict:
    gated = rng.random() < 0.5
    choices = ("gelu", "relu", "silu") if gated else ("gelu_exact", "relu", "gelu")
    return {
        **_sizes(rng),
        "head_dim": rng.choice((2, 5)),
        # Half of them and fewer is no distance that they end at in the decoder.
        "num_buckets": rng.choice((5, 8, 32)),
        "max_distance": rng.choice((12, 19, 128)),
        "gated": gated,
        "activation": rng.choice(choices),
        "tied_logits": rng.random() < 0.5,
        "scaled_logits": rng.random() < 0.5,
    }


def bart(rng: random.Random) -> BartConfig:
    return BartConfig(**_bart(rng), scale_embedding=rng.random() < 0.5)


def led(rng: random.Random) -> LedConfig:
    # transformers cuts chunks of no window of 2, and pads to multiples of the largest.
    windows = rng.choice(((4,), (8,), (4, 8)))
    fields = _bart(rng) | {"num_layers": rng.choice((2, 4))}
    return LedConfig(**fields, max_target_length=31, attention_window=windows)


def t5(rng: random.Random) -> T5Config:
    return T5Config(**_t5(rng))


def long_t5(rng: random.Random) -> LongT5Config:
    return LongT5Config(
        **_t5(rng),
        encoder_attention=rng.choice(("local", "transient_global")),
        radius=rng.choice((0, 1, 3, 6)),
        # Of other sizes, transformers' sums of fractions are not exact.
        block_size=rng.choice((2, 4, 8)),
    )


FAMILIES = (bart, led, t5, long_t5)


def random_params(config, seed: int):
    rng = np.random.default_rng(seed)
    return jax.tree.map(
        lambda x: rng.normal(0.2, 0.4, x.shape).astype(np.float32),
        conversion.shapes(config),
    )
