"""Names of an encoder's weights that all of its families share.

Whatever a checkpoint calls them, weights are read under one set of names: those of the
body without `bert.` or `roberta.`, as `encoder.layer.0.output.dense.weight`, and those
of the head of masked language modelling as `mlm.dense`, `mlm.norm`, `mlm.bias` and
`mlm.decoder`.
"""

from collections.abc import Mapping

import numpy as np

from etc_jax.conversion.renaming import Renamed
from etc_jax.models.encoder.hf_config import facts_of

TOKENS = "embeddings.word_embeddings.weight"
POSITIONS = "embeddings.position_embeddings.weight"
TYPES = "embeddings.token_type_embeddings.weight"
# Not a weight: 0, 1, ..., which old versions of transformers saved with the rest.
POSITION_IDS = "embeddings.position_ids"
MLM_BIAS = "mlm.bias"
MLM_PARTS = (
    "mlm.dense.weight",
    "mlm.dense.bias",
    "mlm.norm.weight",
    "mlm.norm.bias",
    MLM_BIAS,
)
DECODER = "mlm.decoder.weight"
DECODER_BIAS = "mlm.decoder.bias"

# What a checkpoint calls as this module does.
_HEADS = ("qa_outputs.", "qa_classifier.", "classifier.", "cls.")
# The first checkpoints name the parts of a norm as TensorFlow did.
_OLD_NORMS = {".gamma": ".weight", ".beta": ".bias"}


class BertWeights(Renamed):
    """Arrays of a checkpoint under the names of this module.

    Args:
      source: original name -> array; may be lazy.
      family: see `hf_config.facts_of`.

    Raises:
      ValueError: if two original names mean the same.
    """

    def __init__(self, source: Mapping[str, np.ndarray], family: str):
        prefixes = facts_of(family).bodies
        of_body = not any(name.startswith(prefixes) for name in source)
        super().__init__(
            source,
            lambda original: _our_name(original, family),
            lambda name: original_name(name, None if of_body else family),
        )


def _our_name(original: str, family: str) -> str:
    facts = facts_of(family)
    name = original
    for theirs, ours in (*facts.mlm, *((body, "") for body in facts.bodies)):
        if original.startswith(theirs):
            name = ours + original.removeprefix(theirs)
            break
    for old, new in _OLD_NORMS.items():
        if name.endswith(old):
            name = name.removesuffix(old) + new
    return name


def original_name(name: str, family: str | None) -> str:
    """The inverse of what `BertWeights` does to a name; None: of a body alone."""
    if family is None:
        return name
    facts = facts_of(family)
    for theirs, ours in facts.mlm:
        if name.startswith(ours):
            return theirs + name.removeprefix(ours)
    return name if name.startswith(_HEADS) else facts.bodies[0] + name
