"""What a `Task` is where a text has one label, and where it has any number of them."""

import functools
from typing import Any

from etc_jax.datasets.decoding import of_one_setting
from etc_jax.tasks.classification import label_sets
from etc_jax.tasks.classification.decoding import (
    NO_LABEL,
    confusion,
    gold_outputs,
    labels_of,
    right_share,
)
from etc_jax.tasks.classification.explained import explain

# Fields by name. The learners are in `etc_jax.objectives.learners`.
ONE_LABEL: dict[str, Any] = {
    "learner": "labels",
    "metric": "accuracy",
    "no_answer": NO_LABEL,
    "right_share": right_share,
    "confusion": confusion,
    "decode": of_one_setting(labels_of),
    "explain": functools.partial(explain, question=""),
    "gold_outputs": gold_outputs,
}
LABEL_SETS: dict[str, Any] = {
    "learner": "label_sets",
    "metric": "micro_f1",
    "no_answer": [],
    "right_share": right_share,
    "confusion": None,
    "decode": of_one_setting(label_sets.label_sets_of),
    "explain": label_sets.explain,
    "gold_outputs": label_sets.gold_outputs,
}
