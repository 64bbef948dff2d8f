"""What data sets share that give each text a label: inputs, decoding, figures."""

import functools
from collections.abc import Callable
from typing import Any

from etc_jax.datasets.task import Task
from etc_jax.formats.sequence import model_inputs
from tasks.classification.decoding import (
    NO_LABEL,
    decode,
    decode_each,
    gold_outputs,
    official_gold,
    score,
    unread_gold,
    write,
)
from tasks.classification.explained import explain
from tasks.classification.features import SIZES, ClassificationWindow, features

__all__ = [
    "SIZES",
    "ClassificationWindow",
    "decode",
    "features",
    "gold_outputs",
    "make_task",
    "model_inputs",
    "official_gold",
    "write",
]


def make_task(
    name: str,
    *,
    read: Callable[..., Any],
    parse: Callable[..., Any],
    measure: str,
    positive: str,
    question: str,
) -> Task:
    """A data set of labelled texts.

    Args:
      name: of the data set.
      read: see `Task`.
      parse: see `Task`.
      measure: see `Task`.
      positive: the label that F1 is of.
      question: to which the label is the answer, for readers.
    """
    return Task(
        name,
        sizes=SIZES,
        read=read,
        parse=parse,
        features=features,
        inputs=model_inputs,
        measure=measure,
        decode=decode_each,
        no_answer=NO_LABEL,
        official=dict,
        gold=official_gold,
        score=functools.partial(score, positive=positive),
        explain=functools.partial(explain, question=question),
        unread_gold=functools.partial(unread_gold, positive=positive),
    )
