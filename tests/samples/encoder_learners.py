"""Data sets learnt by small encoders of one sequence: models, learners, batches."""

import numpy as np

from etc_jax.config.kinds import section_of
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.roberta.config import RobertaConfig
from etc_jax.objectives.learners import finetuning

_SIZES = {
    "vocab_size": 30,
    "embed_dim": 8,
    "num_layers": 1,
    "num_heads": 2,
    "mlp_dim": 12,
    "max_length": 16,
    "attention": "dense",
}
MODELS = {
    "bert": BertConfig(**_SIZES),
    "roberta": RobertaConfig(**_SIZES),
    "longformer": LongformerConfig(**_SIZES, attention_window=(4,)),
    "big_bird": BigBirdConfig(**_SIZES, block_size=2, num_globals=3),
}
B, N = 3, 14
# What each data set has besides tokens.
_OWN = {
    "triviaqa": {
        "global_index": [[0, 1, -1, -1]] * B,
        "labels": {
            "starts": [[3, 7, -1], [5, -1, -1], [2, 4, 9]],
            "ends": [[4, 7, -1], [6, -1, -1], [2, 5, 9]],
        },
    },
    "wikihop": {
        "global_index": [[0, 1, 2, 4, -1, -1]] * B,
        "candidates": [[2, 4, -1, -1], [1, 2, 5, -1], [3, 4, 5, 6]],
        "labels": {"candidate": [1, 0, 3]},
    },
    "hotpotqa": {
        "global_index": [[0, 1, 2, 4, -1, -1]] * B,
        "paragraphs": [[2, 4, -1, -1], [1, 2, 5, -1], [3, 4, -1, -1]],
        "sentences": [[6, 8, -1, -1], [3, 4, 6, -1], [5, 7, 8, 9]],
        "labels": {
            "relevant": [[1, 0, 0, 0], [0, 1, 0, 0], [1, 1, 0, 0]],
            "support": [[0, 1, 0, 0], [1, 0, 1, 0], [0, 0, 0, 1]],
            "answer_type": [0, 2, 0],
            "starts": [[5, 9, -1], [-1] * 3, [6, -1, -1]],
            "ends": [[6, 9, -1], [-1] * 3, [7, -1, -1]],
        },
    },
}


def learner(name, model="longformer"):
    return finetuning.find(MODELS[model], section_of(name)(name))


def tokens_of(weights, n, length):
    """Rows of `n` random tokens, of which `length` are real where the weight is 1."""
    rng, shape = np.random.default_rng(3), (len(weights), n)
    ids = np.zeros(shape, np.int32)
    ids[:, :length] = np.array(weights)[:, None]
    return {
        "tokens": rng.integers(1, 30, shape).astype(np.int32),
        "types": np.zeros(shape, np.int32),
        "example_ids": ids,
        "weights": np.array(weights, np.float32),
    }


def batch(name, weights=(1, 1, 1), length=12):
    """Three examples of a data set."""
    own = {k: x for k, x in _OWN[name].items() if k != "labels"}
    labels = {k: np.array(x, np.int32) for k, x in _OWN[name]["labels"].items()}
    own = {k: np.array(x, np.int32) for k, x in own.items()}
    return {**tokens_of(weights, N, length), **own, "labels": labels}


def global_tokens(model, given):
    """Further arguments of a model, those of a batch that it takes."""
    return {"global_index": given["global_index"]} if model == "longformer" else {}
