"""A model from wherever it is."""

from __future__ import annotations

import dataclasses
import numbers
import os
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.sentence_folder import SentenceFolder
from etc_jax.loading import model_source
from etc_jax.loading.model import LoadedModel
from etc_jax.loading.text_encoder import encodes, text_encoder_of


def load(
    place: str | os.PathLike,
    *,
    step: int | None = None,
    max_length: int | None = None,
    download: bool = False,
) -> LoadedModel:
    """Reads a model with its tokenizer.

        model = etc_jax.load("longformer-base-4096")
        vectors = model.encode(texts)  # float32 [texts, embed_dim]

    Args:
      place: folder of a run or of one of its checkpoints, of a converted model, or of
        Hugging Face or sentence-transformers; or the name of a repository of Hugging
        Face. A folder of that path comes first.
      step: of a run's checkpoint; None: the newest.
      max_length: tokens of the longest text that is encoded; None: what the folder
        says, or as many as the model reads.
      download: whether a repository that the local cache lacks is fetched.

    Raises:
      ValueError: if there is no model, one of a kind that is not known, or files are
        missing or damaged.
      RunError: if no checkpoint of a run can be read.
    """
    source = model_source.find(place, step, download=download)
    config, sentences, saved = source.config, source.sentences, source.saved
    if sentences is not None and max_length is not None:
        sentences = dataclasses.replace(sentences, max_length=max_length)
    return LoadedModel(
        config=config,
        params=jax.tree.map(jnp.asarray, source.params),
        tokenizer=source.tokenizer,
        max_length=_max_length(config, max_length, sentences),
        sentences=sentences,
        run=None if saved is None else saved._replace(params={}),
        # One that has not read the parameters: no second copy stays.
        source=dataclasses.replace(source),
    )


def _max_length(
    config: Any, asked: int | None, sentences: SentenceFolder | None
) -> int | None:
    """Tokens of the longest text; None: any, or for models that encode no texts."""
    family = native.family_of(config)
    if not encodes(family):
        return None
    longest = text_encoder_of(family, config).max_length
    if asked is None:
        # Some folders of sentence-transformers say more than there are positions.
        usual = sentences.max_length if sentences else None
        return min((x for x in (usual, longest) if x), default=None)
    if not isinstance(asked, numbers.Integral) or asked < 3:
        raise ValueError(f"max_length is {asked!r}; expected 3 or more")
    if longest is not None and asked > longest:
        raise ValueError(
            f"max_length is {asked}; expected 3 to {longest}: the model has no "
            "positions for more"
        )
    return asked
