"""Inputs of models that read a text and write another one."""

from __future__ import annotations

from etc_jax import registry
from etc_jax.data.schema import ID_DTYPE, Field, Schema

SCHEMA = Schema(
    "text_to_text",
    fields={
        "input_tokens": Field("input", stored=ID_DTYPE),
        "input_example_ids": Field("input", stored="int16", by_run=True),
        "target_tokens": Field("target", stored=ID_DTYPE),
        "target_weights": Field("target", "float32", stored="bool", by_run=True),
    },
    lengths={"input": "input_length", "target": "target_length"},
    text=("input", "target"),
    marks={"input": "input_example_ids", "target": "target_weights"},
    tables={"input_tokens": "vocab_size", "target_tokens": "vocab_size"},
)
registry.register("format", SCHEMA.name)(SCHEMA)
