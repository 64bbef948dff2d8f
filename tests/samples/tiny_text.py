"""Text of made-up words in JSONL files, and the sizes of a config that reads them."""

import json

import numpy as np

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
# Of token caches, whose documents are kept for validation already.
CACHE_SIZES = {k: x for k, x in SIZES.items() if k != "data.validation_fraction"}


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
