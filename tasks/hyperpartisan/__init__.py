"""Hyperpartisan news (SemEval-2019 task 4, Kiesel et al. 2019), labelled by article.

Does an article take sides blindly? There are 645; Longformer's parts of them are made
by `tasks.hyperpartisan.split`.

    problems = Problems()
    for record in hyperpartisan.read(["articles-training-byarticle.xml"], problems):
        windows += classification.features(record, tokenizer)
    predictions = classification.decode(logits, windows)
    classification.write(predictions, "predictions.json")
"""

from etc_jax import registry
from tasks.classification import make_data_set
from tasks.hyperpartisan.records import LABELS, Record, clean, parse, read

__all__ = ["DATA_SET", "LABELS", "Record", "clean", "parse", "read"]

DATA_SET = registry.register("data_set", "hyperpartisan")(
    make_data_set(
        "hyperpartisan",
        labels=LABELS,
        read=read,
        parse=parse,
        measure="f1",
        positive="true",
        question="Is this article hyperpartisan?",
    )
)
