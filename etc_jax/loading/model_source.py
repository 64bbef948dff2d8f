"""A model from wherever it is: parameters, config, tokenizer, and the run it is of.

    source = model_source.find("models/bert")
    source.config, source.params, source.tokenizer

Every command that takes the folder of a model reads it by this.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from etc_jax.base import registry, strict_json
from etc_jax.config import Config, ConfigError, from_json, to_dict
from etc_jax.config.kinds import is_objective
from etc_jax.config.sections import LENGTHS
from etc_jax.conversion import hugging_face
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import (
    generation_file,
    label_names,
    native,
    sentence_folder,
)
from etc_jax.conversion.formats.config_file import HF_CONFIG, read_object
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.conversion.formats.sentence_folder import SentenceFolder
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.datasets.of_config import task_of
from etc_jax.generation.options import GenerationConfig, of_model
from etc_jax.loading.companions import Companions
from etc_jax.training.checkpoints import model_folder, parameter_source
from etc_jax.training.checkpoints.model_folder import Kind, ModelFolder
from etc_jax.training.checkpoints.saved_params import SavedParams, read_params

# Fields of the section data that decide how a record becomes an input. Its options are
# left out: they can be given anew, and what came of that stands beside the digest.
_SHAPES_INPUTS = (*LENGTHS, "flat", "official_quirks")


@dataclasses.dataclass(frozen=True)
class ModelSource:
    """A model where it lies. What is asked for is read then, and once.

    Attributes:
      place: its folder.
      step: of a run's checkpoint; None: the newest that is whole.
    """

    place: ModelFolder
    step: int | None = None

    @property
    def is_hf(self) -> bool:
        """Whether it is a folder of Hugging Face."""
        return self.place.kind is Kind.HUGGING_FACE

    @functools.cached_property
    def saved(self) -> SavedParams | None:
        """The checkpoint of a run; None of others.

        Raises:
          RunError: if none can be read.
        """
        if self.place.kind not in (Kind.RUN, Kind.CHECKPOINT):
            return None
        return read_params(self.place.path, self.step)

    @functools.cached_property
    def section(self) -> Mapping[str, Any]:
        """Family and fields of the model. No parameters are read, nor checked.

        Raises:
          ValueError, RunError: if it cannot be read.
        """
        return parameter_source.of_folder(self.place).model()

    @functools.cached_property
    def config(self) -> Any:
        """Of the model, a dataclass of its family; see `section`."""
        return native.model_config(self.section)

    @functools.cached_property
    def params(self) -> dict[str, Any]:
        """Nested dict of numpy arrays, without those of helper models.

        Raises:
          ValueError, RunError: if they are damaged, or not those of the config.
        """
        if self.saved is not None:
            return self.saved.params
        read = hugging_face.read if self.is_hf else native.load
        return read(self.place.path).params

    @functools.cached_property
    def tokenizer(self) -> Tokenizer | None:
        """None if there is none, as for models of bytes.

        Raises:
          ValueError: if it cannot be read, or is that of another model.
        """
        if (tokenizer := self._tokenizer()) is not None:
            check_ids(tokenizer, self.config, self.place.tokenizer_folder)
        return tokenizer

    def _tokenizer(self) -> Tokenizer | None:
        folder = self.place.tokenizer_folder
        if self.is_hf:
            try:
                return open_tokenizer(folder)
            except FileNotFoundError:
                return None
        if not (path := folder / TOKENIZER).is_file():
            return None
        if self.place.kind is Kind.CONVERTED and native.lists(folder, TOKENIZER):
            return Tokenizer.from_bytes(native.read_file(folder, TOKENIZER), str(path))
        # Of a run, or put beside a model that was converted without one.
        return open_tokenizer(path)

    @functools.cached_property
    def sentences(self) -> SentenceFolder | None:
        """How it makes vectors of texts; None if that is not said.

        Sentence-transformers says it beside a model, a run in its config.

        Raises:
          ValueError: if vectors are made in a way that is not known here.
        """
        if (says := self.place.sentences) is not None:
            return says
        values = self._run_values
        return None if values is None else sentence_folder.of_run(values)

    @property
    def _run_values(self) -> Mapping[str, Any] | None:
        """Those of the config of `run`, whose data set need not be there."""
        if self.saved is not None:
            return to_dict(self.saved.config)
        if (text := self._exported_text) is None:
            return None
        values = strict_json.loads(text)
        if not (isinstance(values, dict) and isinstance(values.get("objective"), dict)):
            raise ValueError(
                f"{self.place.path / HF_CONFIG} is no config of a run; export it again"
            )
        return values

    @functools.cached_property
    def _exported_text(self) -> str | None:
        """The config of the run that a converted model was exported from."""
        path, converted = self.place.path, self.place.kind is Kind.CONVERTED
        if not (converted and (path / HF_CONFIG).is_file()):
            return None
        return native.read_file(path, HF_CONFIG).decode()

    @functools.cached_property
    def run(self) -> Config | None:
        """The config of the run that trained it; None if it is not known.

        Raises:
          ValueError: if it cannot be read.
        """
        if self.saved is not None:
            return self.saved.config
        if (text := self._exported_text) is None:
            return None
        try:
            return from_json(text)
        except ConfigError as error:
            raise ValueError(f"{self.place.path / HF_CONFIG}: {error}") from error

    @functools.cached_property
    def digest(self) -> str | None:
        """See `digest_of`; None of a model without a run or a tokenizer.

        Raises:
          ValueError, RunError: if something of it cannot be read.
        """
        if self.run is None or self.tokenizer is None:
            return None
        return digest_of(self.params, self.run, self.tokenizer)

    def labels(self) -> dict[str, Any]:
        """What a config.json of Hugging Face says of the labels that it chooses among.

        Returns:
          `id2label`, `label2id` and `problem_type`, as far as they are known.

        Raises:
          ValueError: if a file is damaged, or the data set of a run is not there.
        """
        path = self.place.path
        if self.is_hf:
            return label_names.of_config(read_object(path / HF_CONFIG))
        if self.run is not None:
            if is_objective(self.run.objective.name):
                return {}
            task = task_of(self.run)
            return label_names.of_task(task.classes, task.learner)
        if self.place.kind is Kind.CONVERTED and (path / label_names.FILE).is_file():
            return strict_json.loads(native.read_file(path, label_names.FILE))
        return {}

    @functools.cached_property
    def generation(self) -> GenerationFile | None:
        """How its folder says that it writes texts; None if it does not.

        Raises:
          ValueError: naming the file and the option, if one has no such value.
        """
        path = self.place.path
        if self.place.kind in (Kind.RUN, Kind.CHECKPOINT):
            return None
        if (file := generation_file.read(path)) is not None or not self.is_hf:
            return file
        writes = native.family_of(self.config) in registry.names("decoder")
        return generation_file.of_config(path) if writes else None

    def companions(
        self, tokenizer: Tokenizer | None, sentences: SentenceFolder | None
    ) -> Companions:
        """What goes with it into the folder of another model.

        Args:
          tokenizer: of that one.
          sentences: see `sentences`, of that one.

        Raises:
          ValueError: if a file is damaged, or the data set of a run is not there.
        """
        if self.generation is not None:
            generation = generation_file.files_of(self.generation.values)
        else:
            generation = generation_files(self.config, self.run)
        return Companions(tokenizer, self.labels(), sentences, generation)


def digest_of(params: Any, config: Config, tokenizer: Tokenizer) -> str:
    """SHA-256, in hexadecimal, of all that decides what a trained model predicts.

    Args:
      params: nested dict of numpy arrays.
      config: of the run.
      tokenizer: of the run's data.
    """
    sha = hashlib.sha256(tokenizer.fingerprint().encode())
    sections = to_dict(config)
    # A run on texts has no field that shapes windows.
    data = {f: x for f, x in sections["data"].items() if f in _SHAPES_INPUTS}
    facts = [sections["model"], sections["objective"], data]
    sha.update(json.dumps(facts, sort_keys=True).encode())
    for path, array in sorted(flatten(params).items()):
        sha.update(f"{path} {array.dtype} {array.shape}".encode())
        sha.update(np.ascontiguousarray(array).view(np.uint8))
    return sha.hexdigest()


def generation_files(model: Any, run: Config | None) -> dict[str, bytes]:
    """{name: content} of how a model writes that no file says; {} if it writes none.

    Args:
      model: its config.
      run: the config of the run that trained it, if it is known.
    """
    if not hasattr(model, "decoder_start_id"):
        return {}
    says = getattr(getattr(run, "objective", None), "generation", GenerationConfig())
    values = generation_file.values_of(says.over(of_model(model)).said())
    return generation_file.files_of({**values, "pad_token_id": model.pad_id})


def check_ids(tokenizer: Tokenizer, config: Any, folder: str | os.PathLike) -> None:
    """Refuses a tokenizer whose pieces of text a model has no rows for.

    A model that was trained with a tokenizer has a row for each piece that texts are
    made of, so that such a tokenizer is that of another model. Special and added tokens
    may lack rows, as the `<mask>` of bart-large-cnn does: inputs that have one are
    refused (`tokenizers.rows`).

    Args:
      tokenizer: in the folder.
      config: of the model.
      folder: of the tokenizer, for the error.

    Raises:
      ValueError: if there is such a piece.
    """
    rows, end = getattr(config, "vocab_size", None), tokenizer.regular_ids[1]
    if rows is not None and end > rows:
        raise ValueError(
            f"the tokenizer in {folder} has pieces of text up to id {end - 1}, but the "
            f"table of the model has {rows} rows: it is that of another model; give "
            "the vocabulary of this one"
        )


def find(
    place: str | os.PathLike,
    step: int | None = None,
    *,
    named: str = "the model",
    download: bool = False,
) -> ModelSource:
    """The model of a folder or a name.

    Args:
      place: see `model_folder.find`.
      step: of a run's checkpoint; None: the newest that is whole.
      named: what gave the place, for errors.
      download: whether a repository that the cache of Hugging Face lacks is fetched.

    Raises:
      ValueError: if there is none, or a step is given and it is no run.
    """
    folder = model_folder.find(place, named=named, download=download, step=step)
    if step is not None and folder.kind in (Kind.CONVERTED, Kind.HUGGING_FACE):
        raise ValueError(
            f"{folder.path} is {folder.kind.value} and no run: leave step={step} out"
        )
    return ModelSource(folder, step)
