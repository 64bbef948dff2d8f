"""WikiHop in one sequence, or several for long records, as Longformer reads it.

The tokenizer is one that has grown by `TOKENS`; see `etc_jax.convert grow`.
"""

from etc_jax.datasets.task import Form
from tasks.wikihop.sequence_decoding import decode_each, gold_outputs, pool
from tasks.wikihop.sequence_explained import explain, pool_explained
from tasks.wikihop.sequence_inputs import (
    SIZES,
    TOKENS,
    WikihopSequence,
    features,
    whole_length,
)

__all__ = [
    "FORM",
    "SIZES",
    "TOKENS",
    "WikihopSequence",
    "decode_each",
    "features",
    "gold_outputs",
    "pool",
]

FORM = Form(
    learner="wikihop",
    tokens=TOKENS,
    sizes=SIZES,
    features=features,
    decode=decode_each,
    explain=explain,
    pool=pool,
    pool_explained=pool_explained,
    gold_outputs=gold_outputs,
    whole_length=whole_length,
)
