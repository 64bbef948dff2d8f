"""What would be silently wrong on a device beside what a schema says."""

from collections.abc import Iterator, Mapping
from typing import Any

from etc_jax import structure
from etc_jax.models.etc.config import EtcConfig

Batch = Mapping[str, Any]


def wrong_structure(batch: Batch, name: str, model: EtcConfig) -> Iterator[str]:
    """A message if a structure breaks the rules of the model."""
    try:
        structure.validate(batch[name], model.rules, model.num_labels)
    except ValueError as error:
        yield f"{name}: {error}"
