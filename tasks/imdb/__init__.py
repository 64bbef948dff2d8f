"""IMDB (Maas et al. 2011): is a review of a film for it or against it?

problems = Problems()
for record in imdb.read(["aclImdb/test"], problems):
    windows += classification.features(record, tokenizer)
predictions = classification.decode(logits, windows)
classification.write(predictions, "predictions.json")
"""

from etc_jax import registry
from tasks.classification import make_data_set
from tasks.imdb.records import LABELS, Record, parse, read

__all__ = ["DATA_SET", "LABELS", "Record", "parse", "read"]

DATA_SET = registry.register("data_set", "imdb")(
    make_data_set(
        "imdb",
        labels=LABELS,
        read=read,
        parse=parse,
        # The papers report it.
        measure="accuracy",
        positive="pos",
        question="Is this review for the film?",
    )
)
