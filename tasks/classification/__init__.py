"""What data sets share that give each text a label: inputs, decoding, metrics."""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

from etc_jax.datasets.decoding import of_one_setting
from etc_jax.datasets.task import DataSet, Form
from tasks.classification import structured
from tasks.classification.decoding import (
    NO_LABEL,
    gold_outputs,
    labels_of,
    official_gold,
    score,
    unread_gold,
)
from tasks.classification.explained import explain
from tasks.classification.inputs import SIZES, features, whole_length

__all__ = ["SIZES", "features", "gold_outputs", "make_data_set", "official_gold"]


def make_data_set(
    name: str,
    *,
    labels: Sequence[str],
    read: Callable[..., Any],
    parse: Callable[..., Any],
    measure: str,
    positive: str,
    question: str,
) -> DataSet:
    """A data set of labelled texts.

    Args:
      name: of the data set.
      labels: there are, in the order of their logits.
      read: see `DataSet`.
      parse: see `DataSet`.
      measure: see `DataSet`.
      positive: the label that F1 is of.
      question: to which the label is the answer, for readers.
    """
    sequence = Form(
        learner="labels",
        classes=tuple(labels),
        sizes=SIZES,
        features=features,
        decode=of_one_setting(labels_of),
        explain=functools.partial(explain, question=question),
        gold_outputs=gold_outputs,
        whole_length=whole_length,
    )
    structured_form = dataclasses.replace(
        sequence,
        sizes=structured.SIZES,
        features=structured.features,
        whole_length=structured.whole_length,
    )
    return DataSet(
        name=name,
        read=read,
        parse=parse,
        measure=measure,
        no_answer=NO_LABEL,
        official=dict,
        gold=official_gold,
        score=functools.partial(score, positive=positive),
        unread_gold=functools.partial(unread_gold, positive=positive),
        forms={"sequence": sequence, "structured": structured_form},
    )
