"""What would be silently wrong on a device: ids beyond tables, bad structures."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from etc_jax import structure
from etc_jax.models.etc_config import EtcConfig

Batch = Mapping[str, Any]


def missing_entries(batch: Batch, needed: Iterable[str]) -> list[str]:
    """One message if entries are missing; [] if none is."""
    if missing := [name for name in needed if name not in batch]:
        there = ", ".join(sorted(batch))
        return [f"the batch lacks {', '.join(missing)}; it has {there}"]
    return []


def wrong_ids(
    batch: Batch, names: Iterable[str], model: EtcConfig, field: str, remedy: str
) -> Iterator[str]:
    """A message for each entry with ids beyond a table of the model.

    Args:
      batch: of numpy arrays.
      names: entries to look at.
      model: config of the encoder.
      field: its field that has the number of rows.
      remedy: what may be wrong.
    """
    rows = getattr(model, field)
    for name in names:
        low, high = int(batch[name].min()), int(batch[name].max())
        if low < 0 or high >= rows:
            yield (
                f"{name} holds ids from {low} to {high}, but model.{field} is {rows}; "
                f"{remedy}"
            )


def wrong_places(batch: Batch, name: str, into: str) -> Iterator[str]:
    """A message if places lie beyond the row that they point into."""
    low, high = int(batch[name].min()), int(batch[name].max())
    length = batch[into].shape[1]
    if low < 0 or high >= length:
        yield f"{name} holds places from {low} to {high}, but {into} has {length}"


def wrong_padded_places(batch: Batch, name: str, into: str) -> Iterator[str]:
    """A message if places, of which -1 is none, lie beyond the row they point into."""
    low, high, n = batch[name].min(), batch[name].max(), batch[into].shape[1]
    if low < -1 or high >= n:
        yield (
            f"{name} holds places {low} to {high}, expected -1 for none, or 0 to "
            f"{n - 1}; prepare the files again"
        )


def wrong_structure(batch: Batch, name: str, model: EtcConfig) -> Iterator[str]:
    """A message if a structure breaks the rules of the model."""
    try:
        structure.validate(batch[name], model.rules, model.num_labels)
    except ValueError as error:
        yield f"{name}: {error}"
