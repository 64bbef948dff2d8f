"""Tiny models as other projects write them, as files to be damaged."""

from __future__ import annotations

import functools
import json
import pathlib
import struct
import tempfile

import hub_samples
from hf_models import params_of

from etc_jax.conversion import hugging_face
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.led.config import LedConfig
from etc_jax.models.long_t5.config import LongT5Config
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.models.t5.config import T5Config

SIZES = {
    "vocab_size": 330,
    "embed_dim": 4,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 8,
    "max_length": 16,
}
PAIRS = {**SIZES, "num_decoder_layers": 1}
FAMILIES = {
    "bert": (BertConfig(**SIZES), "bert tokenizer.json"),
    "roberta": (RobertaConfig(**SIZES), "roberta merges.txt"),
    "longformer": (
        LongformerConfig(**SIZES, attention_window=(4, 8)),
        "longformer tokenizer.json",
    ),
    "big_bird": (BigBirdConfig(**SIZES, block_size=4), "big_bird tokenizer.json"),
    "reformer": (
        ReformerConfig(
            **SIZES,
            pattern=("local", "lsh"),
            axial_shape=(4, 4),
            axial_dims=(2, 2),
            local_chunk_length=4,
            lsh_chunk_length=4,
            num_buckets=(2,),
        ),
        "reformer spiece.model",
    ),
    "bart": (BartConfig(**PAIRS), "bart merges.txt"),
    "led": (
        LedConfig(**PAIRS, max_target_length=8, attention_window=(4, 8)),
        "led tokenizer.json",
    ),
    "t5": (T5Config(**PAIRS, head_dim=2), "t5 spiece.model"),
    "long_t5": (
        LongT5Config(**PAIRS, head_dim=2, radius=2, block_size=4),
        "longt5 spiece.model of 10",
    ),
}
# A second vocabulary of the families, so that every kind of file is damaged.
_OTHERS = {"bert": "bert vocab.txt", "big_bird": "big_bird spiece.model"}


@functools.cache
def files_of(family: str, other: bool) -> dict[str, bytes]:
    """{name: content} of a model with a tokenizer."""
    config, tokenizer = FAMILIES[family]
    tokenizer = _OTHERS.get(family, tokenizer) if other else tokenizer
    with tempfile.TemporaryDirectory() as place:
        folder = hub_samples.FOLDERS[tokenizer](pathlib.Path(place) / "tokenizer")
        files = {p.name: p.read_bytes() for p in folder.iterdir()}
        del files["config.json"]
        model = pathlib.Path(place) / "model"
        hugging_face.save(model, params_of(config), config, files=files)
        return {p.name: p.read_bytes() for p in sorted(model.iterdir())}


def header_of(file: bytes) -> tuple[dict, bytes]:
    """(the JSON of a safetensors file, the arrays after it)."""
    (size,) = struct.unpack("<Q", file[:8])
    return json.loads(file[8 : 8 + size]), file[8 + size :]


def with_header(text: str, arrays: bytes) -> bytes:
    """The inverse of `header_of`, of any text."""
    head = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(head)) + head + arrays
