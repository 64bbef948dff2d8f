"""IMDB (Maas et al. 2011): is a review of a film for it or against it?

task = imdb.DATA_SET.in_format("sequence")
for record in task.read(["aclImdb/test"], Problems()):
    windows += task.features(record, tokenizer)
task.write(task.answers(logits, windows), "predictions.json")
"""

from etc_jax.base import registry
from etc_jax.tasks.classification import make_data_set
from etc_jax.tasks.imdb.records import LABELS, Record, parse, read

__all__ = ["DATA_SET", "LABELS", "Record", "parse", "read"]

DATA_SET = registry.register("data_set", "imdb")(
    make_data_set(
        "imdb",
        labels=LABELS,
        read=read,
        parse=parse,
        # The papers report it.
        metric="accuracy",
        positive="pos",
        question="Is this review for the film?",
    )
)
