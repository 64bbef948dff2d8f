"""Tags of words: entities by seqeval, plain tags by scikit-learn (extra "metrics")."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from etc_jax.base import extras
from etc_jax.scoring.result import Scores

# The tags of the sentences of a record.
Tags = Sequence[Sequence[str]]

_OUTSIDE = "O"
_PARTS = ("precision", "recall", "f1")
_NO_TAG = ""


def score_entities(
    gold: Mapping[str, Tags],
    predictions: Mapping[str, Tags],
    entities_fn: Callable[[Sequence[str]], Sequence[str]] = list,
) -> Scores:
    """Precision, recall and F1 of entities, each right if type and both ends are.

    They are read as CoNLL's evaluation does (seqeval's default), whatever the scheme:
    an entity begins at B and S, after E and S, and where the type changes. `f1` and its
    like are of all entities together, `macro_f1` the mean over all types that are gold
    or predicted, `f1_PER` that of a type that is gold. `accuracy` is the share of words
    with the right tag, O included.

    Args:
      gold: tags of sentences by id.
      predictions: the same; a missing sentence has no entity.
      entities_fn: the tags of a sentence -> those that seqeval reads, where they are of
        a scheme that it does not know without being told.

    Raises:
      ValueError: if there is no gold record, or a sentence has another number of tags
        than the gold one.
      extras.MissingExtraError: if seqeval is not installed.
    """
    module = "seqeval.metrics.sequence_labeling"
    seqeval = extras.needed(module, extra="metrics", to="score tags of entities")
    right, predicted = _aligned(gold, predictions, _OUTSIDE)
    accuracy = _accuracy(right, predicted)
    right, predicted = (
        [list(entities_fn(x)) for x in tags] for tags in (right, predicted)
    )
    kinds = sorted(
        {kind for x in (right, predicted) for kind, *_ in _entities(seqeval, x)}
    )
    gold_kinds = {kind for kind, *_ in _entities(seqeval, right)}
    metrics = dict.fromkeys(_PARTS, 0.0) | dict.fromkeys(map(_macro, _PARTS), 0.0)
    metrics["accuracy"] = accuracy
    if kinds:  # seqeval has no mean over no type
        score = seqeval.precision_recall_fscore_support
        for average, name in (("micro", str), ("macro", _macro)):
            values = score(right, predicted, average=average, zero_division=0)
            metrics |= _named(values, name)
        each = score(right, predicted, average=None, zero_division=0)
        # Without an average, seqeval gives values in the order of sorted types.
        for number, kind in enumerate(kinds):
            if kind in gold_kinds:
                values = [value[number] for value in each]
                metrics |= _named(values, lambda part, of=kind: f"{part}_{of}")
    return Scores.of(metrics, list(gold), {"tags": predictions})


def _entities(seqeval, sentences: list[list[str]]):
    return seqeval.get_entities(sentences) if sentences else []


def score_plain(gold: Mapping[str, Tags], predictions: Mapping[str, Tags]) -> Scores:
    """`accuracy` over all words, `macro_f1` and F1 of each gold tag (`f1_NOUN`).

    Macro F1 is the mean over all tags that are gold or predicted.

    Args:
      gold: tags of sentences by id.
      predictions: the same; words of a missing sentence have no tag.

    Raises:
      ValueError: as for `score_entities`.
      extras.MissingExtraError: if scikit-learn is not installed.
    """
    sklearn = extras.needed("sklearn.metrics", extra="metrics", to="score tags")
    right, predicted = _aligned(gold, predictions, _NO_TAG)
    flat = [[tag for tags in x for tag in tags] for x in (right, predicted)]
    metrics = {"accuracy": _accuracy(right, predicted), "macro_f1": 0.0}
    tags = sorted({*flat[0], *flat[1]} - {_NO_TAG})
    if tags:
        each = sklearn.f1_score(*flat, labels=tags, average=None, zero_division=0.0)
        metrics["macro_f1"] = float(each.mean())
        gold_tags = {*flat[0]}
        of_tags = zip(tags, each.tolist(), strict=True)
        metrics |= {f"f1_{tag}": f1 for tag, f1 in of_tags if tag in gold_tags}
    return Scores.of(metrics, list(gold), {"tags": predictions})


def _macro(part: str) -> str:
    return f"macro_{part}"


def _named(values, name) -> dict[str, float]:
    return {
        name(part): float(value) for part, value in zip(_PARTS, values, strict=False)
    }


def _accuracy(right: list[list[str]], predicted: list[list[str]]) -> float:
    pairs = [
        pair
        for both in zip(right, predicted, strict=True)
        for pair in zip(*both, strict=True)
    ]
    return sum(a == b for a, b in pairs) / max(len(pairs), 1)


def _aligned(
    gold: Mapping[str, Tags], predictions: Mapping[str, Tags], missing: str
) -> tuple[list[list[str]], list[list[str]]]:
    """(gold, predicted) tags of all sentences."""
    if not gold:
        raise ValueError("gold: at least one record expected, got none")
    pairs = [
        pair
        for name, of_record in gold.items()
        for pair in _sentences(name, of_record, predictions.get(name, ()), missing)
    ]
    return [right for right, _ in pairs], [predicted for _, predicted in pairs]


def _sentences(
    name: str, gold: Tags, predicted: Tags, missing: str
) -> Iterator[tuple[list[str], list[str]]]:
    if len(predicted) > len(gold):
        raise ValueError(
            f"{name!r}: tags of {len(predicted)} sentences predicted, but there are "
            f"{len(gold)}"
        )
    for number, right in enumerate(gold):
        tags = predicted[number] if number < len(predicted) else [missing] * len(right)
        if len(tags) != len(right):
            raise ValueError(
                f"{name!r}, sentence {number + 1}: {len(tags)} tags predicted for "
                f"{len(right)} words; expected one each"
            )
        yield list(right), list(tags)
