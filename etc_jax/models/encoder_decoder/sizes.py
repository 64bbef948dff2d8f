"""Encoder-decoders of the sizes of their papers, by name."""

from typing import Any

from etc_jax.models.encoder_decoder.config import (
    BartConfig,
    EncoderDecoderConfig,
    LedConfig,
    LongT5Config,
    T5Config,
)
from etc_jax.models.sled.bart_ls_config import BartLsConfig


def _sizes(width: int, mlp: int, layers: int, heads: int) -> dict[str, Any]:
    """Fields of a model with as many layers in the decoder as in the encoder."""
    return {
        "embed_dim": width,
        "mlp_dim": mlp,
        "num_layers": layers,
        "num_decoder_layers": layers,
        "num_heads": heads,
    }


# Lewis et al. 2020, section 2; Beltagy et al. 2020, section 7.
_BART = {"base": _sizes(768, 3072, 6, 12), "large": _sizes(1024, 4096, 12, 16)}
# Raffel et al. 2020, section 3.7.
_T5 = {
    "small": _sizes(512, 2048, 6, 8),
    "base": _sizes(768, 3072, 12, 12),
    "large": _sizes(1024, 4096, 24, 16),
    "3b": _sizes(1024, 16384, 24, 32) | {"head_dim": 128},
}
# Of the gated models that were released later; Guo et al. 2022 have these too.
_T5_V11 = {
    "small": _sizes(512, 1024, 8, 6),
    "base": _sizes(768, 2048, 12, 12),
    "large": _sizes(1024, 2816, 24, 16),
    "xl": _sizes(2048, 5120, 24, 32),
}
_V11 = {
    "gated": True,
    "activation": "gelu",
    "tied_logits": False,
    "scaled_logits": False,
}

SIZES: dict[str, EncoderDecoderConfig] = {
    **{f"bart_{name}": BartConfig(**sizes) for name, sizes in _BART.items()},
    **{f"led_{name}": LedConfig(**sizes) for name, sizes in _BART.items()},
    # Xiong et al. 2022, section 2.1: the last layers of the encoder have averages.
    **{f"bart_ls_{name}": BartLsConfig(**sizes) for name, sizes in _BART.items()},
    **{f"t5_{name}": T5Config(**sizes) for name, sizes in _T5.items()},
    **{f"t5_v11_{name}": T5Config(**sizes, **_V11) for name, sizes in _T5_V11.items()},
    **{
        f"long_t5_{kind}_{name}": LongT5Config(**sizes, encoder_attention=attention)
        for kind, attention in (
            ("local", "local"),
            ("tglobal", "transient_global"),
        )
        for name, sizes in _T5_V11.items()
        if name != "small"
    },
}
