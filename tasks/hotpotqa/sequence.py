"""HotpotQA in one sequence, as Longformer reads it.

The tokenizer is one that has grown by `TOKENS`; see `etc_jax.convert grow`.
"""

from etc_jax.datasets.task import Form
from tasks.hotpotqa.decoding import THRESHOLDS
from tasks.hotpotqa.sequence_decoding import (
    THRESHOLD,
    Outputs,
    decode_each,
    gold_outputs,
)
from tasks.hotpotqa.sequence_explained import explain
from tasks.hotpotqa.sequence_inputs import (
    SIZES,
    TOKENS,
    HotpotSequence,
    features,
    whole_length,
)
from tasks.hotpotqa.upper_bound import why_lost_in_sequence

__all__ = [
    "FORM",
    "SIZES",
    "THRESHOLD",
    "TOKENS",
    "HotpotSequence",
    "Outputs",
    "decode_each",
    "features",
    "gold_outputs",
]

FORM = Form(
    learner="hotpotqa",
    tokens=TOKENS,
    sizes=SIZES,
    features=features,
    settings=THRESHOLDS,
    setting=THRESHOLD,
    decode=decode_each,
    explain=explain,
    gold_outputs=gold_outputs,
    why_lost=why_lost_in_sequence,
    whole_length=whole_length,
)
