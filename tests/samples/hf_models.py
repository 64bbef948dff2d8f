"""Small models of the families that Hugging Face has, with random parameters."""

import dataclasses
import functools

import tiny_model
from random_params import drawn

from etc_jax.conversion import hugging_face
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder import weights as encoder
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig
from etc_jax.models.led.config import LedConfig
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.reformer import weights as reformer
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.models.t5.config import T5Config

# Of one layer, which compiles fastest.
TINY = {
    "vocab_size": 19,
    "embed_dim": 12,
    "num_layers": 1,
    "num_heads": 3,
    "mlp_dim": 10,
    "max_length": 16,
    "attention": "dense",
}
_SIZES = {**TINY, "num_layers": 4, "max_length": 48, "attention": "auto"}
ENCODERS = {
    "bert": BertConfig(**_SIZES, activation="relu"),
    "roberta": RobertaConfig(**_SIZES, num_types=2),
    "longformer": LongformerConfig(**_SIZES, attention_window=(4, 8)),
    "longformer of one window": LongformerConfig(**_SIZES, attention_window=(8,)),
    "big_bird": BigBirdConfig(**_SIZES, block_size=4, num_random_blocks=1),
    "big_bird of all": BigBirdConfig(
        **_SIZES, pattern="full", rescale_embeddings=True, projection_bias=False
    ),
}
_PAIR = {**_SIZES, "num_decoder_layers": 2}
_OF_BART = {"num_decoder_heads": 2, "decoder_mlp_dim": 8}
PAIRS = {
    "bart": BartConfig(**_PAIR, **_OF_BART, activation="relu", forced_bos_id=0),
    "led": LedConfig(**_PAIR, **_OF_BART, attention_window=(4, 8)),
    "t5": T5Config(**_PAIR, head_dim=5),
    "t5 v1.1": T5Config(
        **_PAIR,
        head_dim=5,
        gated=True,
        activation="gelu",
        tied_logits=False,
        scaled_logits=False,
    ),
    "t5 tied and not scaled": T5Config(**_PAIR, scaled_logits=False),
    "longt5": LongT5Config(**_PAIR, head_dim=5),
    "longt5 local": LongT5Config(**_PAIR, encoder_attention="local", radius=5),
}
REFORMER = tiny_model.REFORMER_OF_ODD_WIDTHS
REFORMERS = {
    "reformer": REFORMER,
    "reformer of absolute positions": dataclasses.replace(
        REFORMER, axial_shape=None, axial_dims=None
    ),
    "reformer of two factors": dataclasses.replace(
        REFORMER, num_buckets=(2, 4), causal=False
    ),
    "reformer by length": dataclasses.replace(
        REFORMER, num_buckets=None, pattern=("lsh",)
    ),
}
CONFIGS = ENCODERS | PAIRS | REFORMERS


def params_of(model, *, spread=0.3, mean=0.1, seed=0):
    """Random parameters of a config's language model, or of a module over an encoder.

    Args:
      model: that config or module.
      spread: standard deviation.
      mean: of all, the scales of norms too.
      seed: of numpy.
    """
    options = {"spread": spread, "center": mean, "scale": mean, "seed": seed}
    return drawn(_shapes(model), **options)


@functools.cache
def _shapes(model):
    if isinstance(model, ReformerConfig):
        return reformer.shapes(model)
    if isinstance(model, EncoderDecoderConfig):
        return encoder_decoder.shapes(model)
    if isinstance(model, EncoderConfig):
        model = EncoderForMaskedLm(model)
    return encoder.shapes(model)


def folder_of(folder, config, pieces=None, **files):
    """A folder of Hugging Face with a model, and a vocabulary if there are pieces."""
    files = {name.replace("__", "."): content for name, content in files.items()}
    if pieces is not None:
        files["vocab.txt"] = "".join(f"{piece}\n" for piece in pieces).encode()
    hugging_face.save(folder, params_of(config), config, files=files)
    return folder
