"""Texts with labels: one's own files by the names of their columns, and what all share.

    etc-jax prepare --task=classification --format=sequence \\
        --text_column=body --label_column=topic --tokenizer=vocab.txt \\
        --out=prepared train.csv

The labels are found in the files and kept with the inputs and the model. Accuracy,
macro and micro F1 need the extra "metrics". IMDB and hyperpartisan news are made of the
same forms (`make_data_set`).
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from etc_jax.datasets.task import DataSet, FeatureConverter, in_formats, register
from etc_jax.tasks.classification import decoding, explained, inputs, records
from etc_jax.tasks.classification.forms import ONE_LABEL


def _fields_of(cls: type) -> dict[str, Any]:
    """Those of `ONE_LABEL` that a class has."""
    names = {field.name for field in dataclasses.fields(cls)}
    return {name: value for name, value in ONE_LABEL.items() if name in names}


def _converters(**fields: Any) -> Mapping[str, FeatureConverter]:
    """Both converters of texts with labels, with some fields of their own."""
    structured = {
        "sizes": inputs.STRUCTURED_SIZES,
        "record_length": inputs.structured_length,
    }
    common = {**_fields_of(FeatureConverter), "features": inputs.features, **fields}
    return in_formats({"sequence": inputs, "structured": structured}, **common)


def make_data_set(
    name: str,
    *,
    labels: Sequence[str],
    read: Callable[..., Any],
    parse: Callable[..., Any],
    metric: str,
    positive: str,
    question: str,
) -> DataSet:
    """A data set of texts with one of some labels that are always the same.

    Args:
      name: of the data set.
      labels: there are, in the order of their logits.
      read: see `DataSet`.
      parse: see `DataSet`.
      metric: see `DataSet`.
      positive: the label that F1 is of.
      question: to which the label is the answer, for readers.
    """
    return DataSet(
        **{**_fields_of(DataSet), "metric": metric},
        name=name,
        read=read,
        parse=parse,
        official=dict,
        gold=decoding.official_gold,
        score=functools.partial(decoding.score, positive=positive),
        unread_gold=functools.partial(decoding.unread_gold, positive=positive),
        converters=_converters(
            classes=tuple(labels),
            explain=functools.partial(explained.explain, question=question),
        ),
    )


DATA_SET = register(
    DataSet(
        **_fields_of(DataSet),
        name="classification",
        read=records.read,
        parse=records.parse,
        release=records.release,
        official=dict,
        gold=decoding.official_gold,
        score=decoding.score_labels,
        unread_gold=decoding.unknown_gold,
        converters=_converters(options=records.OPTIONS),
    )
)
