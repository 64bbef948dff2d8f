"""Real records that a small ETC learns by heart, scored on these very records."""

from __future__ import annotations

from collections.abc import Mapping

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row
from etc_jax.papers.tiny import etc, steps
from etc_jax.papers.tiny.long_encoder import MODEL

_TABLE = "own.memorised"
# Data set -> steps of two records, long and global tokens.
_SETTINGS = {"hotpotqa": (1000, 2816, 128), "wikihop": (240, 4096, 256)}
_VOCABULARY = 30_522  # of MODEL


def _memorised(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """Trained and scored on the same records; see `Study`."""
    del row
    measured = {}
    for task, (num_steps, long, global_) in _SETTINGS.items():
        file = f"{chain.data}/{task}/train.json"
        words = f"--task={task}", f"--tokenizer={MODEL}"
        lengths = f"--long_length={long}", f"--global_length={global_}"
        inputs = chain.do("prepare", f"memorised/{task}_inputs", *words, *lengths, file)
        fields = etc.MODEL | {
            "model.mlp_dim": 256,
            "model.vocab_size": _VOCABULARY,
            "data.vocab_size": _VOCABULARY,
            "data.long_length": long,
            "data.global_length": global_,
            "data.paths": (inputs,),
            "data.validation_paths": (inputs,),
            "optimizer.learning_rate": 1e-3,
            "train.batch_size": 2,
            "train.eval_steps": 1,
        }
        run = steps.trained(
            *(chain, f"memorised/{task}", f"etc_base_{task}:tiny"),
            *(seed, num_steps, *steps.changes(fields)),
        )
        measured |= steps.scored(chain, run, _TABLE, task, file)
    return measured


STUDIES = {
    _TABLE: Study(
        "An ETC of 2 layers of 64 with a radius of 16, from nothing, without dropout, "
        "on some dozen official records as long as they are: 1,000 steps of two "
        "records of HotpotQA and 240 of WikiHop. A model that does not get to 100 has "
        "inputs, labels or decoding that contradict each other.",
        _memorised,
    )
}
