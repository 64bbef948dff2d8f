"""What the configs share: a paper's models and settings, and its sweeps as data."""

from etc_jax.recipes.encoders import (
    ROBERTA_LENGTH,
    SHORT_LONGFORMER,
    longformer,
)
from etc_jax.recipes.etc import (
    ETC_ABLATIONS,
    ETC_GLOBAL_LENGTHS,
    ETC_PRETRAINING,
    ETC_STARTS,
    etc_base,
    etc_large,
    etc_nq,
    etc_openkp,
    etc_pretraining,
    etc_started,
)
from etc_jax.recipes.finetuning import (
    ENCODER,
    ENCODER_WITHOUT_POOLER,
    TINY_MODEL,
    TINY_STEPS,
    FinetuningRecipe,
    encoder_parts,
    given_values,
    given_windows,
    positive,
    scale_down,
    sweep,
)

__all__ = [
    "ENCODER",
    "ENCODER_WITHOUT_POOLER",
    "ETC_ABLATIONS",
    "ETC_GLOBAL_LENGTHS",
    "ETC_PRETRAINING",
    "ETC_STARTS",
    "FinetuningRecipe",
    "ROBERTA_LENGTH",
    "SHORT_LONGFORMER",
    "TINY_MODEL",
    "TINY_STEPS",
    "encoder_parts",
    "etc_base",
    "etc_large",
    "etc_nq",
    "etc_openkp",
    "etc_pretraining",
    "etc_started",
    "given_values",
    "given_windows",
    "longformer",
    "positive",
    "scale_down",
    "sweep",
]
