"""A model from wherever it is."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from typing import Any

import jax
import jax.numpy as jnp

from etc_jax import registry, strict_json
from etc_jax.config import to_dict
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import native
from etc_jax.conversion.formats.config_file import HF_CONFIG
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.loading import places, sentence_folder
from etc_jax.loading.model import LoadedModel
from etc_jax.loading.sentence_folder import SentenceFolder
from etc_jax.loading.text_encoder import KIND, text_encoder_of
from etc_jax.text_codecs import tokenizer_of_model, tokenizer_of_run
from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.folder import FOLDER
from etc_jax.training.checkpoints.saved_params import SavedParams, read_params


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
    folder = places.folder_of(place, download=download)
    sentences = sentence_folder.read(folder)
    params, config, tokenizer, run = _read(
        folder / (sentences.model if sentences else ""), step
    )
    sentences = sentences or _as_trained(folder, run)
    if tokenizer is not None and tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"the tokenizer in {folder} has {tokenizer.vocab_size} ids, but the table "
            f"of the model {config.vocab_size} rows: it is that of another model"
        )
    if sentences is not None and max_length is not None:
        sentences = dataclasses.replace(sentences, max_length=max_length)
    return LoadedModel(
        config=config,
        params=jax.tree.map(jnp.asarray, params),
        tokenizer=tokenizer,
        max_length=_max_length(config, max_length, sentences),
        sentences=sentences,
        run=run,
    )


def _as_trained(folder: pathlib.Path, run: SavedParams | None) -> SentenceFolder | None:
    """How vectors were made when they were learnt; None where none were."""
    if run is not None:
        return sentence_folder.of_run(to_dict(run.config))
    if not (native.exists(folder) and (folder / HF_CONFIG).is_file()):
        return None
    # A model that was exported from a run has its config; its data set may be anywhere.
    config = strict_json.loads(native.read_file(folder, HF_CONFIG).decode())
    if not (isinstance(config, dict) and isinstance(config.get("objective"), dict)):
        raise ValueError(f"{folder / HF_CONFIG} is no config of a run; export it again")
    return sentence_folder.of_run(config)


def _read(
    folder: pathlib.Path, step: int | None
) -> tuple[dict[str, Any], Any, Tokenizer | None, SavedParams | None]:
    """(parameters, config, tokenizer if any, run if it is one)."""
    if native.exists(folder):
        _refuse_step(folder, step)
        params, config = native.load(folder)
        return params, config, tokenizer_of_model(folder), None
    if (folder / HF_CONFIG).is_file():
        _refuse_step(folder, step)
        params, config, _ = hugging_face.read(folder)
        return params, config, _tokenizer_in(folder), None
    if not manifest.exists(folder) and not (folder / FOLDER).is_dir():
        raise ValueError(
            f"{folder} has no model: neither {HF_CONFIG} of Hugging Face, nor "
            f"{native.MODEL} of a converted model, nor {FOLDER} of a run"
        )
    saved = read_params(folder, step)
    has_one = (saved.run / TOKENIZER).exists()
    tokenizer = tokenizer_of_run(saved) if has_one else None
    run = saved._replace(params={})
    return saved.params, saved.config.model, tokenizer, run


def _tokenizer_in(folder: pathlib.Path) -> Tokenizer | None:
    try:
        return open_tokenizer(folder)
    except FileNotFoundError:
        return None


def _refuse_step(folder: pathlib.Path, step: int | None) -> None:
    if step is not None:
        raise ValueError(f"{folder} is a model and no run: leave step={step} out")


def _max_length(
    config: Any, asked: int | None, sentences: SentenceFolder | None
) -> int | None:
    """Tokens of the longest text; None for models that encode no texts."""
    family = native.family_of(config)
    if family not in registry.names(KIND):
        return None
    longest = text_encoder_of(family, config).max_length
    if asked is None:
        # Some folders of sentence-transformers say more than there are positions.
        usual = sentences.max_length if sentences else None
        return min(usual or longest, longest)
    if not 3 <= asked <= longest:
        raise ValueError(
            f"max_length is {asked}; expected 3 to {longest}, which the model reads"
        )
    return asked
