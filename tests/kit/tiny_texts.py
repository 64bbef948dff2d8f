"""Tiny models with a tokenizer, and texts of many lengths."""

import dataclasses
import functools

import jax
import numpy as np
from causal_pairs import PIECES, WORDS
from random_params import random_params

from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.loading.load import LoadedModel
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.etc.body import Etc
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.led.config import LedConfig
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.sled.config import SledConfig
from etc_jax.models.t5.config import T5Config
from etc_jax.structure import Structure

CLS, SEP = PIECES.index("[CLS]"), PIECES.index("[SEP]")
MAX_LENGTH = 96
_SIZES = {
    "vocab_size": len(PIECES),
    "embed_dim": 8,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 8,
    "max_length": MAX_LENGTH,
}
_PAIRS = {"decoder_start_id": CLS, "eos_id": SEP, "pad_id": 0}
ENCODERS = {
    "bert": BertConfig(**_SIZES),
    "longformer": LongformerConfig(**_SIZES, pad_id=0, attention_window=(4, 8)),
    "causal longformer": LongformerConfig(
        **_SIZES, pad_id=0, attention_window=(4,), causal=True
    ),
    "big_bird": BigBirdConfig(**_SIZES, block_size=4, num_random_blocks=1),
    "big_bird with globals": BigBirdConfig(
        **_SIZES, block_size=4, num_random_blocks=1, num_globals=3
    ),
}
PAIRS = {
    "led": LedConfig(
        **_SIZES,
        **_PAIRS,
        attention_window=(4,),
        num_decoder_heads=2,
        decoder_mlp_dim=8,
    ),
    "t5": T5Config(**_SIZES, **_PAIRS),
    "long_t5": LongT5Config(**_SIZES, **_PAIRS, radius=3, block_size=4),
    "bart_ls": BartLsConfig(
        **_SIZES,
        **_PAIRS,
        block_size=4,
        pool_kernel=4,
        pool_stride=3,
        pool_padding=2,
        pooling_layers=1,
    ),
    "sled": BartConfig(
        **{**_SIZES, "max_length": 16},
        **_PAIRS,
        sled=SledConfig(window=8, input_length=MAX_LENGTH),
    ),
}
CONFIGS = ENCODERS | PAIRS


@functools.cache
def params_of(name: str):
    ones = np.ones((1, 4), np.int32)
    if name in PAIRS:
        # Attention of T5 is not scaled: larger numbers would magnify rounding.
        return random_params(EncoderDecoder(PAIRS[name]).init, ones, ones, spread=0.3)
    return random_params(EncoderForMaskedLm(ENCODERS[name]).init, ones, spread=0.5)


def tiny(name: str, **changes) -> LoadedModel:
    """A model as `load` makes one."""
    config = CONFIGS[name]
    most = getattr(config, "longest_input", config.max_length)
    made = {
        "params": jax.tree.map(jax.numpy.asarray, params_of(name)),
        "tokenizer": WordPieceTokenizer(PIECES),
        "max_length": most,
    }
    return LoadedModel(config=config, **made | changes)


def texts(count: int, longest: int, seed: int = 0) -> list[str]:
    """Of 0 to `longest` words."""
    rng = np.random.default_rng(seed)
    lengths = rng.permutation(np.linspace(0, longest, count).astype(int))
    return [" ".join(rng.choice(WORDS, n)) for n in lengths]


ETC = EtcConfig(
    vocab_size=len(PIECES),
    embed_dim=8,
    num_layers=1,
    num_heads=2,
    mlp_dim=8,
    radius=3,
    max_distance=2,
    num_labels=8,
)


def tiny_etc() -> LoadedModel:
    """An ETC, whose tokenizer has the global tokens of sentences as id 1."""
    pieces = [PIECES[0], "[unused0]", *PIECES[2:], "[UNK]"]
    config = dataclasses.replace(ETC, vocab_size=len(pieces))
    none = np.zeros((1, 0), np.int32)
    structure = Structure(none, none, np.zeros((1, 0, 1), np.int16))
    params = random_params(Etc(config).init, none, none, structure, spread=0.5)
    return LoadedModel(
        config=config,
        params={"encoder": params},
        tokenizer=WordPieceTokenizer(pieces),
        max_length=24,
    )
