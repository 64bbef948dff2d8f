"""One's own pairs of texts: a model reads the first and writes the second.

    etc-jax prepare --task=text_to_text --tokenizer=tokenizer.json \\
        --input_length=512 --target_length=32 --out=prepared/train train.jsonl

A file has a JSON object a line, with `input` and `target`, both text, and `id` if there
is one; without, records are named by the beginning of their SHA-256. Records to be
answered need no `target`.
"""

from __future__ import annotations

from etc_jax.datasets import pairs
from etc_jax.datasets.task import register
from etc_jax.datasets.text_converter import make_text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes
from etc_jax.scoring import texts

SIZES = TextToTextSizes(input_length=1024, target_length=128)


DATA_SET = register(
    make_text_data_set(
        "text_to_text",
        read=pairs.read,
        parse=pairs.parse,
        # Both as in SQuAD.
        metric="f1",
        score=texts.scorer("exact_match", "f1"),
        sizes=SIZES,
    )
)
"""The data set, as commands and configs find it."""
