"""IMDB (Maas et al. 2011): is a review of a film for it or against it?

problems = Problems()
for record in read(["aclImdb/test"], problems):
    windows += features(record, tokenizer)
predictions = decode(logits, windows)
write(predictions, "predictions.json")
"""

import functools

from tasks.classification_decoding import (
    NO_LABEL,
    decode,
    decode_each,
    gold_outputs,
    official_gold,
    score,
    unread_gold,
    write,
)
from tasks.classification_explained import explain
from tasks.classification_features import (
    SIZES,
    ClassificationWindow,
    features,
)
from tasks.imdb_records import LABELS, Record, parse, read
from tasks.one_sequence import model_inputs
from tasks.task import Task

__all__ = [
    "LABELS",
    "SIZES",
    "TASK",
    "ClassificationWindow",
    "Record",
    "decode",
    "features",
    "gold_outputs",
    "model_inputs",
    "official_gold",
    "parse",
    "read",
    "write",
]

# The label that F1 is of. The papers report accuracy.
POSITIVE = "pos"

TASK = Task(
    "imdb",
    sizes=SIZES,
    read=read,
    parse=parse,
    features=features,
    inputs=model_inputs,
    settings=(None,),
    setting=None,
    measure="accuracy",
    decode=decode_each,
    no_answer=NO_LABEL,
    official=dict,
    gold=official_gold,
    score=functools.partial(score, positive=POSITIVE),
    explain=functools.partial(explain, question="Is this review for the film?"),
    unread_gold=functools.partial(unread_gold, positive=POSITIVE),
)
