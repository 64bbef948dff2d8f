"""Sizes and choices of BERT."""

import dataclasses

from etc_jax.models.encoder.config import EncoderConfig


@dataclasses.dataclass(frozen=True)
class BertConfig(EncoderConfig):
    """A BERT (Devlin et al. 2018)."""
