"""BERT in numpy, straight from the arrays of a Hugging Face checkpoint: float64.

Written from the description of the model, apart from our modules; it reads arrays by
the names that Hugging Face gives them, so it also says what every name means.
"""

import json
import math
import pathlib

import numpy as np
from safetensors.numpy import save_file

CONFIG = {
    "model_type": "bert",
    "vocab_size": 29,
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "hidden_act": "gelu",
    "layer_norm_eps": 1e-6,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "pad_token_id": 0,
}
ROBERTA = CONFIG | {
    "model_type": "roberta",
    "max_position_embeddings": 18,
    "type_vocab_size": 1,
    "pad_token_id": 1,
}


def shapes(c: dict) -> dict[str, tuple[int, ...]]:
    """Array name -> shape, with the head of masked language modelling."""
    hidden, inner, start = c["hidden_size"], c["intermediate_size"], c["model_type"]
    embeddings = f"{start}.embeddings."
    out = {
        f"{embeddings}word_embeddings.weight": (c["vocab_size"], hidden),
        f"{embeddings}position_embeddings.weight": (
            c["max_position_embeddings"],
            hidden,
        ),
        f"{embeddings}token_type_embeddings.weight": (c["type_vocab_size"], hidden),
        **_both(f"{embeddings}LayerNorm", (hidden,)),
    }
    for i in range(c["num_hidden_layers"]):
        layer = f"{start}.encoder.layer.{i}."
        for name in ("query", "key", "value"):
            out |= _both(f"{layer}attention.self.{name}", (hidden, hidden))
        out |= _both(f"{layer}attention.output.dense", (hidden, hidden))
        out |= _both(f"{layer}attention.output.LayerNorm", (hidden,))
        out |= _both(f"{layer}intermediate.dense", (inner, hidden))
        out |= _both(f"{layer}output.dense", (hidden, inner))
        out |= _both(f"{layer}output.LayerNorm", (hidden,))
    head, norm, bias = HEADS[start]
    out |= _both(f"{head}.dense", (hidden, hidden)) | _both(norm, (hidden,))
    return out | {bias: (c["vocab_size"],)}


# What holds the dense layer of the head, its norm, and the bias over the vocabulary.
HEADS = {
    "bert": (
        "cls.predictions.transform",
        "cls.predictions.transform.LayerNorm",
        "cls.predictions.bias",
    ),
    "roberta": ("lm_head", "lm_head.layer_norm", "lm_head.bias"),
}


def _both(name, shape):
    return {f"{name}.weight": shape, f"{name}.bias": shape[:1]}


def random_arrays(c: dict, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        name: rng.normal(size=shape, scale=0.5).astype(np.float32)
        for name, shape in shapes(c).items()
    }


def write_folder(folder, c: dict, arrays: dict) -> pathlib.Path:
    """A folder as Hugging Face writes it."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c))
    save_file(arrays, folder / "model.safetensors", {"format": "pt"})
    return folder


class Reference:
    """The model: `Reference(config, arrays)`."""

    def __init__(self, c: dict, arrays: dict):
        self.c = c
        self.w = {k: np.asarray(v, np.float64) for k, v in arrays.items()}
        self.start = f"{c['model_type']}."

    def hidden(self, ids, types, mask, positions) -> np.ndarray:
        """`[b, n]` ids, types, masks and rows of the position table -> `[b, n, h]`.

        Positions may be None: no position is added.
        """
        w, embeddings = self.w, f"{self.start}embeddings."
        x = w[f"{embeddings}word_embeddings.weight"][ids]
        x = x + w[f"{embeddings}token_type_embeddings.weight"][types]
        if positions is not None:
            x = x + w[f"{embeddings}position_embeddings.weight"][positions]
        x = self._norm(f"{embeddings}LayerNorm", x)
        for i in range(self.c["num_hidden_layers"]):
            layer = f"{self.start}encoder.layer.{i}."
            x = self._norm(
                f"{layer}attention.output.LayerNorm",
                x + self._attention(f"{layer}attention.", x, mask),
            )
            y = self._gelu(self._linear(f"{layer}intermediate.dense", x))
            y = self._linear(f"{layer}output.dense", y)
            x = self._norm(f"{layer}output.LayerNorm", x + y)
        return x

    def logits(self, x) -> np.ndarray:
        """`[..., h]` -> logits over the vocabulary."""
        head, norm, bias = HEADS[self.c["model_type"]]
        x = self._norm(norm, self._gelu(self._linear(f"{head}.dense", x)))
        table = self.w[f"{self.start}embeddings.word_embeddings.weight"]
        return x @ table.T + self.w[bias]

    def _linear(self, name, x):
        return x @ self.w[f"{name}.weight"].T + self.w[f"{name}.bias"]

    def _norm(self, name, x):
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        y = centred / np.sqrt(variance + self.c["layer_norm_eps"])
        return y * self.w[f"{name}.weight"] + self.w[f"{name}.bias"]

    def _gelu(self, x):
        return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))

    def _attention(self, block, x, mask):
        query, key, value = (
            self._linear(f"{block}self.{name}", x).reshape(
                *x.shape[:2], self.c["num_attention_heads"], -1
            )
            for name in ("query", "key", "value")
        )
        score = np.einsum("bqhd,bkhd->bhqk", query, key) / math.sqrt(query.shape[-1])
        score = np.where(mask[:, None, None, :] > 0, score, -np.inf)
        p = np.exp(score - score.max(-1, keepdims=True))
        p = p / p.sum(-1, keepdims=True)
        y = np.einsum("bhqk,bkhd->bqhd", p, value)
        return self._linear(f"{block}output.dense", y.reshape(x.shape))
