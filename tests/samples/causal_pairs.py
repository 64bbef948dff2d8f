"""Pairs of texts that a very small model learns: which word was named?"""

import json
import pathlib
import random

import numpy as np

from etc_jax import config as config_lib
from etc_jax.cli import prepare
from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

WORDS = "red green blue black white brown grey pink".split()
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "is", "the", "colour", *WORDS]
# Two pairs; 3 is the token that ends a text.
BATCH = {
    "input_tokens": np.int32([[5, 6, 3, 0, 0], [7, 8, 9, 10, 3]]),
    "input_example_ids": np.int32([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]),
    "target_tokens": np.int32([[11, 12, 3, 0], [13, 3, 0, 0]]),
    "target_weights": np.float32([[1, 1, 1, 0], [1, 1, 0, 0]]),
}
MODELS = {
    "longformer": {
        "attention_window": (16,),
        "attention": "dense",  # compiles faster
        "causal": True,
        "num_types": 1,
    },
    "reformer": {
        "pattern": ("local",),
        "local_chunk_length": 4,
        "axial_shape": (4, 4),
        "axial_dims": (8, 24),
    },
    "reformer_seq2seq": {
        "pattern": ("local",),
        "decoder_pattern": ("local",),
        "num_decoder_layers": 1,
        "axial_shape": None,
        "local_chunk_length": 16,
        "decoder_start_id": PIECES.index("[CLS]"),
        "eos_id": PIECES.index("[SEP]"),
    },
}


def copies(count, seed):
    """Records whose target is a word of the input, of which inputs name one or two."""
    rng = random.Random(seed)
    for i in range(count):
        word = rng.choice(WORDS)
        text = "the colour is " * rng.randint(1, 2) + word
        yield {"id": f"{seed}{i}", "input": text, "target": word}


def write(path, records):
    path.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    return path


def prepared(folder: pathlib.Path, *flags: str, **counts: int):
    """Window caches of so many copies each, beside their files and their tokenizer."""
    WordPieceTokenizer(PIECES).save(folder / "tokenizer.json")
    for side, count in counts.items():
        file = write(folder / f"{side}.jsonl", copies(count, side))
        argv = ["--task=text_to_text", f"--tokenizer={folder / 'tokenizer.json'}"]
        argv += [*flags, "--workers=0", f"--out={folder / side}", str(file)]
        assert prepare.main(argv) == 0


def trained(family: str, folder: pathlib.Path) -> tuple[str, pathlib.Path]:
    """(run of a model of a family, development records)."""
    prepared(folder, "--input_length=10", "--target_length=4", train=128, dev=8)
    dev = folder / "dev.jsonl"
    values = config_lib.default_config(family)
    model = {"embed_dim": 32, "num_heads": 2, "mlp_dim": 32, "max_length": 16}
    model |= {"num_layers": 1, "vocab_size": len(PIECES), "initializer_range": 0.1}
    model |= {"dropout_rate": 0.0, "attention_dropout_rate": 0.0}
    fields = {k: x for k, x in model.items() if k in values.model}
    values.model.update({**fields, **MODELS[family]})
    values.objective.name = "text_to_text"
    values.data.update(
        source="windows",
        format="text_to_text",
        paths=(str(folder / "train"),),
        validation_paths=(str(folder / "dev"),),
        validation_files=(str(dev),),
        vocab_size=len(PIECES),
        input_length=10,
        target_length=4,
    )
    values.optimizer.learning_rate = 1e-2
    values.schedule.warmup_steps = 5
    values.train.update(batch_size=32, num_steps=120, eval_every_steps=120)
    values.checkpoint.every_steps = 120
    run = folder / "run"
    config = config_lib.from_config_dict(values)
    assert train_and_evaluate(config, str(run)).exit_code == errors.DONE
    return str(run), dev
