"""The models of `benchmarks lifted_bert`: one BERT, as an ETC and as itself."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from benchmarks.kit import finetuning_runs
from benchmarks.rows.structure_ablation import NO_CPC
from etc_jax import config as config_lib
from etc_jax.config import Config
from etc_jax.configs.etc import bert_base_nq, etc_base_pretrain
from etc_jax.conversion.families import bert
from etc_jax.conversion.formats import native
from etc_jax.conversion.surgery.lift import PAPER, LiftOptions, lifted_config
from etc_jax.data.text.sources import read_documents
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.models.etc.config import EtcConfig

# All that a BERT has, so that the model computes what it does.
SAME = LiftOptions(
    positions="copy", types="copy", activation="source", epsilon="source"
)
# Sizes that a lift cannot change.
_SIZES = ("vocab_size", "embed_dim", "num_layers", "num_heads", "mlp_dim")
# Long tokens of pre-training for each global token: 17.8 in the paper's inputs of 4096.
_LONG_PER_GLOBAL = 16
_LEAST_GLOBAL = 16


@dataclasses.dataclass(frozen=True)
class Kind:
    """What a BERT becomes.

    Attributes:
      name: of the kind.
      config: module of the config whose model it is, at another size.
      options: of the lift.
      is_bert: every token sees every other, and inputs are flat.
    """

    name: str
    config: ModuleType
    options: LiftOptions
    is_bert: bool = False


ETC = Kind("etc", etc_base_pretrain, PAPER)
BERT = Kind("bert", bert_base_nq, SAME, is_bert=True)


@dataclasses.dataclass(frozen=True)
class Source:
    """The BERT that everything begins with.

    Attributes:
      folder: of Hugging Face, with a vocabulary.
      config: of the model.
      tokenizer: of the vocabulary.
      has_mlm_bias: whether its head of masked language modelling is there.
    """

    folder: pathlib.Path
    config: bert.BertSizes
    tokenizer: Tokenizer
    has_mlm_bias: bool

    @classmethod
    def open(cls, folder: pathlib.Path) -> Source:
        """Opens a folder.

        Raises:
          ValueError, OSError: if there is no BERT with its vocabulary.
        """
        config, weights = bert.open_checkpoint(folder)
        tokenizer = open_tokenizer(folder)
        return cls(folder, config, tokenizer, bert.MLM_BIAS in weights)

    def model(self, kind: Kind, length: int) -> EtcConfig:
        """The model of a kind, as lifting makes it.

        Args:
          kind: what the BERT becomes.
          length: of the inputs; a BERT sees as far.

        Raises:
          ValueError: if the BERT does not reach as far, or cannot be lifted.
        """
        fields = kind.config.get_config().model.to_dict()
        fields |= {name: getattr(self.config, name) for name in _SIZES}
        if kind.is_bert:
            places = self.config.num_positions
            if length > places:
                raise ValueError(
                    f"{self.folder} has positions for {places} tokens, not {length}; "
                    f"lower --short_length to {places}"
                )
            fields |= {"radius": length, "max_positions": places}
        return lifted_config(self.config, native.model_config(fields), kind.options)


def format_of(paths: Sequence[str], field: str) -> str:
    """The format of text to go on with, "text" or "jsonl".

    Args:
      paths: of files, or globs.
      field: of a JSONL row, that holds the text.

    Raises:
      ValueError, OSError: if no file is there, or not all are of one format.
    """
    files = read_documents(paths, text_field=field).files
    formats = sorted({file.format for file in files})
    if len(formats) > 1:
        raise ValueError(
            f"--text names files of {' and '.join(formats)}; give those of one"
        )
    return formats[0]


def lift(source: Source, kind: Kind, model: EtcConfig, out: pathlib.Path) -> None:
    """Lifts the BERT into a model, unless that was done before.

    Args:
      source: the BERT.
      kind: what it becomes.
      model: of which config.
      out: folder of the model.

    Raises:
      ValueError: if the folder holds another lift.
      RunError: if `etc-jax convert` refuses, which says why.
    """
    if native.exists(out):
        _check_lift(source, model, out)
        return
    full = kind.config.get_config().model.to_dict()
    flags = [
        f"--{name}={getattr(kind.options, name)}"
        for name in ("positions", "types", "activation", "epsilon")
    ]
    flags += [
        f"--config.model.{name}={value}"
        for name, value in dataclasses.asdict(model).items()
        if value != full[name]
    ]
    config = f"--config={kind.config.__file__}"
    finetuning_runs.convert(f"--lift={source.folder}", config, f"--out={out}", *flags)


def _check_lift(source: Source, model: EtcConfig, out: pathlib.Path) -> None:
    made_from = json.loads((out / native.REPORT).read_text())["made_from"]
    there = (made_from["lift"], native.read_config(out))
    if there != (str(source.folder), model):
        raise ValueError(
            f"{out} holds a lift of {there[0]} into another model, or of another "
            "BERT; choose another --workdir"
        )


def pretraining_config(
    source: Source,
    kind: Kind,
    run: Config,
    *,
    length: int,
    steps: int,
    more: Mapping[str, Any],
) -> Config:
    """The config of going on with pre-training, MLM + CPC, or MLM alone for a BERT.

    Args:
      source: the BERT, whose vocabulary the text is in.
      kind: what it has become.
      run: that begins with the result, whose model is taken.
      length: of an example, in long tokens.
      steps: of pre-training.
      more: {dotted path: value} of the config, such as `checkpoint.init_from`.

    Raises:
      ValueError: if something does not fit.
    """
    config = etc_base_pretrain.get_config()
    config.model.update(config_lib.to_dict(run)["model"])
    config.data.update(
        tokenizer=str(source.folder),
        vocab_size=source.tokenizer.vocab_size,
        long_length=length,
        global_length=max(_LEAST_GLOBAL, length // _LONG_PER_GLOBAL),
        max_sentence_tokens=min(length, config.data.max_sentence_tokens),
    )
    finetuning_runs.set_training(config, seed=0, steps=steps)
    # That of the config is for batches as large as its own.
    config.optimizer.name = "adamw"
    changes = dict(more)
    if not source.has_mlm_bias:
        # Without one it starts from the frequencies of the text.
        changes["checkpoint.init_from_partial"] = ("mlm_bias",)
    if kind.is_bert:
        changes |= NO_CPC
    return finetuning_runs.changed(config, finetuning_runs.as_changes(changes))


def differences(model: EtcConfig, other: EtcConfig) -> dict[str, Any]:
    """{dotted path: value} of what is different in the other."""
    theirs = dataclasses.asdict(other)
    return {
        f"model.{name}": theirs[name]
        for name, value in dataclasses.asdict(model).items()
        if theirs[name] != value
    }
