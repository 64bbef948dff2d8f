"""Text of made-up words in JSONL files, and the sizes of a config that reads them."""

import json

import numpy as np
from config_changes import changed

from etc_jax import config as config_lib

LEXICON = [f"{a}{b}{c}o" for a in "bdgkm" for b in "aeiou" for c in "lnrst"]
VOCAB_SIZE = 180
# Changes of the default config.
SIZES = {
    "model.vocab_size": VOCAB_SIZE,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "model.mlp_dim": 16,
    "model.num_layers": 1,
    "data.vocab_size": VOCAB_SIZE,
    "data.long_length": 128,
    "data.global_length": 16,
    "data.validation_fraction": 0.4,
}


def config(**changes) -> config_lib.Config:
    """Of pre-training on JSONL files or token caches; changes as `data__paths=()`."""
    values, sizes = config_lib.default_config(), dict(SIZES)
    if changes.get("data__source") == "cache":
        # Its documents are kept for validation already.
        del sizes["data.validation_fraction"]
    else:
        values.data.update(source="jsonl", text_field="body")
    values.update_from_flattened_dict(sizes)
    return changed(values, changes)


def write_rows(path, count=80, seed=0):
    """JSONL of documents with 12 sentences each in two paragraphs; field "body"."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(count):
        said = [
            " ".join(rng.choice(LEXICON, rng.integers(8, 12))).capitalize() + "."
            for _ in range(12)
        ]
        rows.append({"body": " ".join(said[:6]) + "\n\n" + " ".join(said[6:])})
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
