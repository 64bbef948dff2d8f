"""IMDB (Maas et al. 2011): is a review of a film for it or against it?

problems = Problems()
for record in imdb.read(["aclImdb/test"], problems):
    windows += classification.features(record, tokenizer)
predictions = classification.decode(logits, windows)
classification.write(predictions, "predictions.json")
"""

from etc_jax import registry
from tasks.classification import make_task
from tasks.imdb.records import LABELS, Record, parse, read

__all__ = ["LABELS", "TASK", "Record", "parse", "read"]

TASK = make_task(
    "imdb",
    read=read,
    parse=parse,
    # The papers report it.
    measure="accuracy",
    positive="pos",
    question="Is this review for the film?",
)

registry.register("data_set", "imdb")(TASK)
