"""Hyperpartisan news (SemEval-2019 task 4, Kiesel et al. 2019), labelled by article.

Does an article take sides blindly? There are 645; Longformer's parts of them are made
by `etc_jax.tasks.hyperpartisan.split`.

    task = hyperpartisan.DATA_SET.in_format("sequence")
    for record in task.read(["articles-training-byarticle.xml"], Problems()):
        windows += task.features(record, tokenizer)
    task.write(task.answers(logits, windows), "predictions.json")
"""

from etc_jax.datasets.task import register
from etc_jax.tasks.classification import make_data_set
from etc_jax.tasks.hyperpartisan import records

DATA_SET = register(
    make_data_set(
        "hyperpartisan",
        labels=records.LABELS,
        read=records.read,
        parse=records.parse,
        metric="f1",
        positive="true",
        question="Is this article hyperpartisan?",
    )
)
