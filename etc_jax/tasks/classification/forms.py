"""What a `Task` is where a text has one label, and where it has any number of them."""

import functools
from typing import Any

from etc_jax.datasets.decoding import of_one_setting
from etc_jax.tasks.classification import decoding, explained

# Fields by name. The learners are in `etc_jax.objectives.learners`.
ONE_LABEL: dict[str, Any] = {
    "learner": "labels",
    "metric": "accuracy",
    "no_answer": decoding.NO_LABEL,
    "right_share": decoding.right_share,
    "confusion": decoding.confusion,
    "decode": of_one_setting(decoding.labels_of),
    "explain": functools.partial(explained.explain, question=""),
    "gold_outputs": decoding.gold_outputs,
}
LABEL_SETS: dict[str, Any] = {
    "learner": "label_sets",
    "metric": "micro_f1",
    "no_answer": [],
    "right_share": decoding.right_share,
    "confusion": None,
    "decode": of_one_setting(decoding.label_sets_of),
    "explain": explained.explain_sets,
    "gold_outputs": decoding.gold_sets_outputs,
}
