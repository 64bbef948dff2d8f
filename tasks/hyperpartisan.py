"""Hyperpartisan news (SemEval-2019 task 4, Kiesel et al. 2019), labelled by article.

Does an article take sides blindly? There are 645; Longformer's parts of them are made
by `tasks.hyperpartisan_split`.

    problems = Problems()
    for record in read(["articles-training-byarticle-20181122.xml"], problems):
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
from tasks.hyperpartisan_records import LABELS, Record, clean, parse, read
from tasks.one_sequence import model_inputs
from tasks.task import Task

__all__ = [
    "LABELS",
    "SIZES",
    "TASK",
    "ClassificationWindow",
    "Record",
    "clean",
    "decode",
    "features",
    "gold_outputs",
    "model_inputs",
    "official_gold",
    "parse",
    "read",
    "write",
]

# The label that F1 is of.
POSITIVE = "true"

TASK = Task(
    "hyperpartisan",
    sizes=SIZES,
    read=read,
    parse=parse,
    features=features,
    inputs=model_inputs,
    settings=(None,),
    setting=None,
    measure="f1",
    decode=decode_each,
    no_answer=NO_LABEL,
    official=dict,
    gold=official_gold,
    score=functools.partial(score, positive=POSITIVE),
    explain=functools.partial(explain, question="Is this article hyperpartisan?"),
    unread_gold=functools.partial(unread_gold, positive=POSITIVE),
)
