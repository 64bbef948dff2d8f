"""Pairs of texts that a very small model learns: which word was named?"""

import json
import pathlib
import random

from etc_jax import config as config_lib
from etc_jax.cli import prepare
from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

WORDS = "red green blue black white brown grey pink".split()
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "is", "the", "colour", *WORDS]
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


def trained(family: str, folder: pathlib.Path) -> tuple[str, pathlib.Path]:
    """(run of a model of a family, development records)."""
    tokenizer = WordPieceTokenizer(PIECES)
    tokenizer.save(folder / "tokenizer.json")
    dev = write(folder / "dev.jsonl", copies(8, "dev"))
    for path in (write(folder / "train.jsonl", copies(128, "train")), dev):
        status = prepare.main(
            [
                *("--task=text_to_text", f"--tokenizer={folder / 'tokenizer.json'}"),
                *("--input_length=10", "--target_length=4", "--workers=0"),
                *(f"--out={folder / path.stem}", str(path)),
            ]
        )
        assert status == 0
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
