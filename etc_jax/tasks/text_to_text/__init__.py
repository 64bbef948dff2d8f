"""One's own pairs of texts: a model reads the first and writes the second.

    etc-jax prepare --task=text_to_text --tokenizer=tokenizer.json \\
        --input_length=512 --target_length=32 --out=prepared/train train.jsonl

A file has a JSON object a line, with `input` and `target`, both text, and `id` if there
is one; without, records are named by the beginning of their SHA-256. Records to be
answered need no `target`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from etc_jax.datasets.pairs import Pair, parse, read
from etc_jax.datasets.task import DataSet, register
from etc_jax.datasets.text_converter import ONLY_WRITTEN, make_text_converter
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.scoring.answers import exact_match, token_overlap
from etc_jax.scoring.result import Scores

SIZES = TextToTextSizes(input_length=1024, target_length=128)


def gold(record: Pair) -> dict[str, str] | None:
    """What `score` needs of a record; None without a target."""
    if record.target is None:
        return None
    return {"id": record.id, "target": record.target}


def score(gold: Sequence[Mapping[str, str]], predictions: Mapping[str, str]) -> Scores:
    """`exact_match` and `f1` of the words, both as in SQuAD, means over all records."""
    pairs = [(predictions.get(x["id"], ""), x["target"]) for x in gold]
    metrics = {
        "exact_match": np.mean([exact_match(*pair) for pair in pairs]).item(),
        "f1": np.mean([token_overlap(*pair).f1 for pair in pairs]).item(),
    }
    return Scores.of(metrics, [x["id"] for x in gold], {"text": predictions})


DATA_SET = register(
    DataSet(
        name="text_to_text",
        read=read,
        parse=parse,
        metric="f1",
        no_answer="",
        official=dict,
        gold=gold,
        score=score,
        converters={"text_to_text": make_text_converter("text_to_text", sizes=SIZES)},
        absent=ONLY_WRITTEN,
    )
)
"""The data set, as commands and configs find it."""
