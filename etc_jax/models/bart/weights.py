"""BART as Hugging Face writes it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from etc_jax.base.rules import choice, flag
from etc_jax.conversion import exchange
from etc_jax.conversion.config_rules import RATE, SPREAD
from etc_jax.conversion.engine import TRANSPOSE, Row, Transform
from etc_jax.conversion.torch_rows import ACTIVATIONS, linear, norm
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.encoder_decoder.config import Side
from etc_jax.models.encoder_decoder.hf_config import (
    COUNT,
    ID,
    MAYBE_ID,
    NAMES,
    SIZE,
    Key,
    Keys,
)
from etc_jax.models.encoder_decoder.weights import (
    LOGITS_BIAS,
    TABLE,
    exchange_of,
    layer_path,
    projections,
    runs_of,
)

# Keys of config.json that BART and what grew from it have.
KEYS = {
    "vocab_size": Key(SIZE, 50265, "vocab_size"),
    "d_model": Key(SIZE, 1024, "embed_dim"),
    "encoder_layers": Key(COUNT, 12, "num_layers"),
    "decoder_layers": Key(COUNT, 12, "num_decoder_layers"),
    "encoder_attention_heads": Key(COUNT, 16, "num_heads"),
    "decoder_attention_heads": Key(COUNT, 16, "num_decoder_heads"),
    "encoder_ffn_dim": Key(SIZE, 4096, "mlp_dim"),
    "decoder_ffn_dim": Key(SIZE, 4096, "decoder_mlp_dim"),
    "dropout": Key(RATE, 0.1, "dropout_rate"),
    "attention_dropout": Key(RATE, 0.0, "attention_dropout_rate"),
    "activation_dropout": Key(RATE, 0.0, "activation_dropout_rate"),
    "init_std": Key(SPREAD, 0.02, "initializer_range"),
    "activation_function": Key(choice(ACTIVATIONS), "gelu"),
    "pad_token_id": Key(ID, 1, "pad_id"),
    "bos_token_id": Key(MAYBE_ID, 0, "bos_id"),
    "eos_token_id": Key(ID, 2, "eos_id"),
    "decoder_start_token_id": Key(ID, 2, "decoder_start_id"),
    "forced_bos_token_id": Key(MAYBE_ID, None, "forced_bos_id"),
    "forced_eos_token_id": Key(MAYBE_ID, None, "forced_eos_id"),
    "architectures": Key(NAMES, None),
}
ONLY = {
    "is_decoder": False,
    "is_encoder_decoder": True,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
    # Of configs written before transformers 4.
    "normalize_before": False,
    "normalize_embedding": True,
    "add_final_layer_norm": False,
    "static_position_embeddings": False,
}
WRITTEN = {
    "is_encoder_decoder": True,
    "use_cache": True,
    "dtype": "float32",
    "tie_word_embeddings": True,
    "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
    "classifier_dropout": 0.0,
}
_LABELS = {f"LABEL_{i}": i for i in range(3)}


def fields_from(values: Mapping[str, Any]) -> dict[str, Any]:
    """See `Keys`."""
    return {"activation": ACTIVATIONS[values["activation_function"]]}


def values_to(config: BartConfig) -> dict[str, Any]:
    """See `Keys`."""
    for name, only in (
        ("pre_norm", False),
        ("final_norm", False),
        ("embed_norm", True),
        ("layer_norm_epsilon", 1e-5),
    ):
        if (value := getattr(config, name)) != only:
            raise ValueError(
                f"{name} is {value}, but of transformers' "
                f"{exchange.model_type_of(config)} it is {only}; keep this model here"
            )
    names = {ours: theirs for theirs, ours in reversed(ACTIVATIONS.items())}
    return {
        "activation_function": names[config.activation],
        "decoder_attention_heads": config.decoder_side.num_heads,
        "decoder_ffn_dim": config.decoder_side.mlp_dim,
    }


# (layer there, layer here, side) -> rows; layers end with "." and "/".
AttentionRows = Callable[[str, str, Side], list[Row]]
# transformers keeps a row in front of the vocabulary's.
_FIRST = Transform(lambda x: x.reshape(x.shape[-1:]), lambda x: x[None])


def names(
    config: BartConfig, encoder_attention: AttentionRows | None = None
) -> tuple[Row, ...]:
    """Rows for all weights, without what stands before those of the body.

    Args:
      config: of the model.
      encoder_attention: of the encoder's layers; None: `attention`.
    """
    rows = [
        Row(TABLE, "token_embedder/embedding"),
        Row(LOGITS_BIAS, "logits_bias", _FIRST),
    ]
    for side in ("encoder", "decoder"):
        theirs = f"{side}.embed_positions.weight"
        rows.append(Row(theirs, f"{side}/position_embedder/embedding"))
        rows += norm(f"{side}.layernorm_embedding", f"{side}/embed_norm")
        rows += norm(f"{side}.layer_norm", f"{side}/final_norm")
    encoder_attention = encoder_attention or attention
    runs = runs_of(config)
    for i in range(len(config.patterns)):
        theirs, ours = runs.source(i), layer_path("encoder", i)
        rows += encoder_attention(theirs, ours, config.encoder_side)
        rows += layer(theirs, ours)
    theirs, ours = "decoder.layers.{layer}.", layer_path("decoder")
    side = config.decoder_side
    rows += attention(theirs, ours, side)
    rows += maps(f"{theirs}encoder_attn.", f"{ours}cross_attention/", side)
    rows += norm(f"{theirs}encoder_attn_layer_norm", f"{ours}cross_attention_norm")
    return (*rows, *layer(theirs, ours))


def attention(theirs: str, ours: str, side: Side) -> list[Row]:
    """Rows of the attention to the sequence itself, of one layer."""
    return maps(f"{theirs}self_attn.", f"{ours}attention/", side)


def maps(theirs: str, ours: str, side: Side) -> list[Row]:
    """Rows of the four maps of an attention."""
    kernel, bias, out = projections(side)
    rows = []
    for kind in ("query", "key", "value"):
        rows += linear(f"{theirs}{kind[0]}_proj", f"{ours}{kind}", kernel, bias)
    return [*rows, *linear(f"{theirs}out_proj", f"{ours}out", out)]


def layer(theirs: str, ours: str) -> list[Row]:
    """Rows of what a layer has besides attention."""
    return [
        *norm(f"{theirs}self_attn_layer_norm", f"{ours}attention_norm"),
        *linear(f"{theirs}fc1", f"{ours}mlp/wi", TRANSPOSE),
        *linear(f"{theirs}fc2", f"{ours}mlp/wo", TRANSPOSE),
        *norm(f"{theirs}final_layer_norm", f"{ours}mlp_norm"),
    ]


EXCHANGE = exchange_of(
    BartConfig,
    Keys(
        {
            **KEYS,
            "forced_eos_token_id": Key(MAYBE_ID, 2, "forced_eos_id"),
            "max_position_embeddings": Key(SIZE, 1024, "max_length"),
            "scale_embedding": Key(flag(), False, "scale_embedding"),
        },
        ONLY,
        {
            **WRITTEN,
            "is_decoder": False,
            "id2label": {str(i): name for name, i in _LABELS.items()},
            "label2id": _LABELS,
        },
        "Bart",
        fields_from,
        values_to,
        "model.",
    ),
    tokenizer_class="RobertaTokenizer",
)
