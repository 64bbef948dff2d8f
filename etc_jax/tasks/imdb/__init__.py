"""IMDB (Maas et al. 2011): is a review of a film for it or against it?

task = imdb.DATA_SET.in_format("sequence")
for record in task.read(["aclImdb/test"], Problems()):
    windows += task.features(record, tokenizer)
task.write(task.answers(logits, windows), "predictions.json")
"""

from etc_jax.datasets.task import register
from etc_jax.tasks.classification import make_data_set
from etc_jax.tasks.imdb import records

DATA_SET = register(
    make_data_set(
        "imdb",
        labels=records.LABELS,
        read=records.read,
        parse=records.parse,
        # The papers report it.
        metric="accuracy",
        positive="pos",
        question="Is this review for the film?",
    )
)
