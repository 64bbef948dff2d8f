"""One's own pairs of texts: a model reads the first and writes the second.

    etc-jax prepare --task=text_to_text --tokenizer=tokenizer.json \\
        --input_length=512 --target_length=32 --out=prepared/train train.jsonl

A file has a JSON object a line, with `input` and `target`, both text, and `id` if there
is one; without, records are named by the beginning of their SHA-256. Records to be
answered need no `target`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.datasets import pairs
from etc_jax.datasets.task import register
from etc_jax.datasets.text_converter import make_text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.scoring.answers import exact_match, token_overlap
from etc_jax.scoring.result import Scores

SIZES = TextToTextSizes(input_length=1024, target_length=128)


def score(gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]) -> Scores:
    """`exact_match` and `f1` of the words, both as in SQuAD, means over all records."""
    texts = [(predictions.get(x["id"], ""), *x["references"]) for x in gold]
    metrics = {
        "exact_match": np.mean([exact_match(*pair) for pair in texts]).item(),
        "f1": np.mean([token_overlap(*pair).f1 for pair in texts]).item(),
    }
    return Scores.of(metrics, [x["id"] for x in gold], {"text": predictions})


DATA_SET = register(
    make_text_data_set(
        "text_to_text",
        read=pairs.read,
        parse=pairs.parse,
        metric="f1",
        score=score,
        sizes=SIZES,
    )
)
"""The data set, as commands and configs find it."""
