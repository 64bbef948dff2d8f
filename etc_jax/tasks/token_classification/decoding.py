"""From logits of tags to tags, and to metrics."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.datasets.decoding import SURE, check_outputs, require_gold
from etc_jax.scoring import tags as scoring
from etc_jax.scoring.result import Scores
from etc_jax.tasks.token_classification.document import Record
from etc_jax.tasks.token_classification.schemes import TaggedSpan, spans_of, tags_of
from etc_jax.tasks.token_classification.windows import TaggedWindow, runs_of

Windows = Sequence[TaggedWindow]
# Of each sentence that a window has words of: its number, and the tags of these words.
TagRuns = list[tuple[int, list[str]]]
# The tags of each sentence.
Tags = list[list[str]]


def tag_runs(logits: np.ndarray, windows: Windows) -> list[TagRuns]:
    """The tags of the words that each window predicts.

    Args:
      logits: `[b, n, c]`, in the order of `record.labels`; those of the first pieces of
        words count.
      windows: as `features` made them, in order.

    Raises:
      ValueError: if the logits are not of these windows, or not finite.
    """
    if windows:
        n, c = len(windows[0].labels["tags"]), len(windows[0].record.labels)
        check_outputs({"": logits}, windows, {"": (n, c)})
    return [
        _runs(window, np.argmax(row[window.first_pieces], axis=-1))
        for window, row in zip(windows, logits, strict=True)
    ]


def _runs(window: TaggedWindow, numbers: np.ndarray) -> TagRuns:
    record, first = window.record, window.words.start
    tags = [record.labels[number] for number in numbers]
    return [
        (run.sentence, tags[run.start - first : run.stop - first])
        for run in runs_of(record, window.words)
    ]


def pool(of_windows: Sequence[TagRuns]) -> Tags:
    """The tags of each sentence, of all windows of a record in order."""
    tags_by_sentence: dict[int, list[str]] = {}
    for number, tags in (run for runs in of_windows for run in runs):
        tags_by_sentence.setdefault(number, []).extend(tags)
    return list(tags_by_sentence.values())


def official(predictions: Mapping[str, Tags]) -> list[dict[str, Any]]:
    """An object a record: its id, and the tags of its sentences."""
    return [{"id": name, "tags": tags} for name, tags in predictions.items()]


def official_gold(record: Record) -> dict[str, Any] | None:
    """What scoring needs of a record; None without tags."""
    if record.tags is None:
        return None
    return {"id": record.id, "tags": [list(tags) for tags in record.tags]}


def unread_gold(name: str) -> dict[str, Any]:
    """What scoring takes for a record that could not be read: it adds no word."""
    return {"id": name, "tags": []}


def score_entities(
    gold: Sequence[Mapping[str, Any]],
    predictions: Sequence[Mapping[str, Any]],
    read: Callable[[Sequence[str]], list[TaggedSpan]] = spans_of,
) -> Scores:
    """Precision, recall and F1 of entities; see `scoring.tags.score_entities`.

    Args:
      gold: of records, see `official_gold`.
      predictions: see `official`.
      read: tags of a sentence -> its entities.
    """

    def as_iob2(tags: Sequence[str]) -> Sequence[str]:
        return tags_of(read(tags), len(tags))

    return scoring.score_entities(_by_id(gold), _by_id(predictions), as_iob2)


def score_plain(
    gold: Sequence[Mapping[str, Any]], predictions: Sequence[Mapping[str, Any]]
) -> Scores:
    """Accuracy, and F1 of each tag; see `scoring.tags.score_plain`."""
    return scoring.score_plain(_by_id(gold), _by_id(predictions))


def entities_right(gold: Mapping[str, Any], metrics: Mapping[str, float]) -> float:
    """F1 of a record's entities; all is right where there are none and none is found.

    F1 is 0 then, as in seqeval.
    """
    del gold
    return 1.0 if metrics["accuracy"] == 1.0 else metrics["f1"]


def _by_id(values: Sequence[Mapping[str, Any]]) -> dict[str, Tags]:
    return {value["id"]: value["tags"] for value in values}


def gold_outputs(windows: Windows) -> np.ndarray:
    """Logits `[b, n, c]` of a model that is sure of every label.

    Raises:
      ValueError: if a window has no gold tags.
    """
    require_gold(windows, official_gold)
    labels = np.array([window.labels["tags"] for window in windows])
    classes = len(windows[0].record.labels) if windows else 0
    return SURE * (np.arange(classes) == labels[..., None])
