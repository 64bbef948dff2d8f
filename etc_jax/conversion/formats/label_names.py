"""Names of labels, as Hugging Face's config.json has them; a file of a saved model."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

FILE = "labels.json"
# The learner of a run -> how transformers calls what it has learnt.
_PROBLEMS = {
    "labels": "single_label_classification",
    "label_sets": "multi_label_classification",
}


def of_config(values: Mapping[str, Any]) -> dict[str, Any]:
    """What a config.json says of labels; {} if it names none.

    Args:
      values: of the file.
    """
    names = values.get("id2label")
    if not isinstance(names, Mapping) or not names:
        return {}
    fields = {"id2label": dict(names)}
    for key, kind in (("label2id", Mapping), ("problem_type", str)):
        if isinstance(values.get(key), kind):
            fields[key] = values[key]
    return fields


def of_task(classes: Sequence[str], learner: str) -> dict[str, Any]:
    """The same of what a run has learnt; {} without classes.

    Args:
      classes: names in the order of the outputs.
      learner: of the data set; see `datasets.task.FeatureConverter`.
    """
    if not classes:
        return {}
    fields: dict[str, Any] = {
        "id2label": {str(i): name for i, name in enumerate(classes)},
        "label2id": {name: i for i, name in enumerate(classes)},
    }
    if learner in _PROBLEMS:
        fields["problem_type"] = _PROBLEMS[learner]
    return fields


def files_of(labels: Mapping[str, Any]) -> dict[str, bytes]:
    """{name: content} of what is saved with a model; {} without labels."""
    return {FILE: f"{json.dumps(labels, indent=2)}\n".encode()} if labels else {}
