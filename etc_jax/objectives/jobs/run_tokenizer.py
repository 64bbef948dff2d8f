"""The tokenizer of a run lies in its folder, for what goes on from there."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from etils import epath

from etc_jax.base.whole_files import whole
from etc_jax.config import Config
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers import rows
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.loading import model_source
from etc_jax.training.workdir import is_recorded


def save(tokenizer: Tokenizer, workdir: epath.PathLike) -> None:
    """Writes it there, unless a run has begun there with the one that is there.

    Whether it is that of the data still is seen by its digest beside each checkpoint.
    """
    path = epath.Path(workdir) / TOKENIZER
    if path.exists() and is_recorded(epath.Path(workdir)):
        return
    with whole(path) as part:
        tokenizer.save(part)


def check_rows(tokenizer: Tokenizer, model: Any, ids: Mapping[str, np.ndarray]) -> None:
    """Refuses data with a token that the model has no row for.

    The data is read only if the tokenizer has such a token.

    Args:
      tokenizer: of the data.
      model: config of the model.
      ids: where they lie -> int `[n]`, ids of all the data.

    Raises:
      ValueError: naming the token, or if the tokenizer is that of another model.
    """
    if tokenizer.vocab_size <= model.vocab_size:
        return
    model_source.check_ids(tokenizer, model, "the data")
    for path, array in ids.items():
        rows.check_rows(array, model.vocab_size, tokenizer, path)


def check_starts(config: Config, tokenizer: Tokenizer, workdir: epath.PathLike) -> None:
    """`check_same` of all that a run starts from: its model and helper models."""
    starts = {"checkpoint.init_from": config.checkpoint.init_from}
    for helper in config.objective.helpers:
        starts[f"objective.{helper.name}_init_from"] = helper.init_from
    for named, init_from in starts.items():
        if init_from is not None:
            check_same(init_from, tokenizer, workdir, named)


def check_same(
    init_from: epath.PathLike,
    tokenizer: Tokenizer,
    workdir: epath.PathLike,
    named: str = "checkpoint.init_from",
) -> None:
    """Refuses to start from a model of another vocabulary, where that is known.

    A run that has begun is not asked again: its checkpoints have the digest, and the
    folder may be gone.

    Args:
      init_from: a folder or a name; see `model_source.find`.
      tokenizer: of the data.
      workdir: of the run.
      named: what gave the folder, for the message.

    Raises:
      ValueError: if a tokenizer lies there and is another one, or no model does.
    """
    if is_recorded(epath.Path(workdir)):
        return
    source = model_source.find(init_from, named=named)
    of_model = source.tokenizer
    if of_model is None or of_model.fingerprint() == tokenizer.fingerprint():
        return
    model, data = (
        f"{x.kind} {x.fingerprint()[:12]} of {x.vocab_size} ids"
        for x in (of_model, tokenizer)
    )
    raise ValueError(
        f"{named} is a model with the vocabulary {model}, but the data is in {data}; "
        f"prepare it with --tokenizer={source.place.tokenizer_folder}"
    )
