"""The commands of a row at the paper's size, on the files of the official releases.

Files have the names that they have in their releases, below a folder that is given:
`data_sets.json`. Models that others released have theirs of Hugging Face.
"""

from __future__ import annotations

import dataclasses
import functools
import glob
import importlib.resources
import json
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from etc_jax import config as config_lib
from etc_jax.cli import flag as config_flag
from etc_jax.config import Config
from etc_jax.configs.text_to_text import bart_ls
from etc_jax.papers import lengths
from etc_jax.papers.chain import Chain, Command, Measured
from etc_jax.papers.table import Row, Table, variants_of, with_tuples

# Configs whose argument says what is learnt, and from which model.
_BY_ARGUMENT = ("sled", "led", "bart_ls", "long_t5")
# What stands for a path, or a number, that only exists once the commands are done.
_LATER = re.compile(r",(prepared|from|dev)=([^,]*)")
# Tokens that a data set adds to a Longformer's vocabulary (Beltagy et al. 2020).
_ADDED = {"hotpotqa": "[q],[/q],<t>,</t>,[s]", "wikihop": "[q],[/q],[ent],[/ent]"}
_LIFTED_BERT = ("--positions=copy", "--types=copy", "--activation=source")


@dataclasses.dataclass(frozen=True)
class Files:
    """Of a data set.

    Attributes:
      task: of `etc-jax prepare`.
      train: files to learn from; patterns of a shell.
      dev: files to be chosen and scored by.
      flags: of preparing what is learnt.
    """

    task: str
    train: tuple[str, ...]
    dev: tuple[str, ...]
    flags: tuple[str, ...] = ()


@functools.cache
def data_sets() -> Mapping[str, Files]:
    """By the names that tables have for them."""
    file = importlib.resources.files(__package__) / "data_sets.json"
    return {
        name: Files(**{"task": name, **with_tuples(fields)})
        for name, fields in json.loads(file.read_text()).items()
    }


def chain_of(chain: Chain, table: Table, row: Row, seed: int) -> dict[str, Measured]:
    """Adds the commands of a row; returns where its figures will be, by column.

    Args:
      chain: to add to.
      table: of the row.
      row: what is run.
      seed: of the last run; those before have the paper's.
    """
    measured = lengths.add_stats(
        chain,
        row,
        lambda name: [data_sets()[name].task, *row.stats],
        lambda name: tuple(f"{chain.data}/{x}" for x in _one_each(data_sets()[name])),
    )
    for name, config in row.runs.items():
        start = None
        if row.pretrain:
            start = _trained_on_texts(chain, row, row.pretrain, row.pretrain_changes)
        elif words := row.start.get(name, row.start.get("")):
            command, *words = words
            values = "_".join(x.partition("=")[2] for x in words)
            if command == "train":  # and what follows only evaluates it
                words.append(f"--config.train.seed={seed}")
                values += f"_seed{seed}"
            start = chain.do(command, f"models/{_folder(values)}", *words)
        if name in data_sets():
            run = _on_records(chain, config, row, name, start, seed)
            at, step = "scores", None
        else:  # texts, of which the run's own evaluations are the measure
            changes = *row.changes, f"--config.train.seed={seed}"
            run = _trained_on_texts(chain, row, config, changes, start)
            run, at, step = chain.name_of(run), "evaluation", row.step
        for column, metric in table.columns_of(name).items():
            measured[column] = metric.at(run, at, step)
    return measured


def _one_each(files: Files) -> tuple[str, str]:
    (train,), (dev,) = files.train, files.dev
    return train, dev


def _folder(config: str) -> str:
    """A name for the folder of a config's run."""
    return re.sub(r"[^\w.=-]+", "-", config)


def _trained_on_texts(
    chain: Chain,
    row: Row,
    config: str,
    changes: Sequence[str],
    start: str | None = None,
) -> str:
    """A run that learns texts; returns its folder."""
    texts, ends = chain.texts, []
    if row.corpus:
        kind, *words = row.corpus
        tokenizer, out = f"--tokenizer={tokenizer_of(config)}", f"texts/{kind}.jsonl.gz"
        texts = chain.do(f"corpora {kind}", out, tokenizer, *words, texts)
        ends = [f"_{kind}"]
    flags = _texts_flags(chain, config, texts, start)
    out = f"runs/{_run_name(config, changes, *ends)}"
    if start:
        out += f"_from_{pathlib.Path(start).name}"
    return chain.do("train", out, f"--config={config}", *flags, *changes)


def _texts_flags(chain: Chain, config: str, texts: str, start: str | None) -> list[str]:
    """Where a config that learns texts finds them, and what it begins with."""
    values = config_flag.read(config)
    flags = []
    if values.data.source in ("jsonl", "bytes", "builtin"):
        flags.append(f"--config.data.paths=('{texts}',)")
    if values.data.source == "builtin":
        flags.append("--config.data.source=jsonl")
    if values.data.source in ("jsonl", "builtin"):
        flags.append(f"--config.data.tokenizer={tokenizer_of(config)}")
    if start := start or _started(chain, config):
        flags.append(f"--config.checkpoint.init_from={start}")
    return flags


def _started(chain: Chain, config: str) -> str:
    """The model that a run without one of ours begins with; "": none."""
    name, variants = config.partition(":")[0], variants_of(config)
    size = "base" if "base" in variants else "large"
    if name == "denoising":
        return _extended(chain, f"bart-{size}", "bart_ls", 16384)
    if name == "etc_large_pretrain" and "roberta_vocab" in variants:
        out = "models/lifted_roberta_large"
        return chain.do("convert", out, "--lift=roberta-large", f"--config={config}")
    if name == "bert_base_nq":
        lift = "--lift=bert-base-uncased", f"--config={config}"
        return chain.do("convert", "models/bert_base", *lift, *_LIFTED_BERT)
    return ""


def _extended(chain: Chain, model: str, family: str, length: int, *more: str) -> str:
    flags = f"--from={model}", f"--to={family}", f"--max_length={length}", *more
    end = "".join(_folder(x.replace("--", "_")) for x in more)
    return chain.do("extend", f"models/{model}_{family}{end}", *flags)


def mechanism(variants: Sequence[str], **instead: int) -> list[str]:
    """What `extend` is to know of a BART-LS of table 1.

    Args:
      variants: of the config.
      **instead: values other than those of the paper.
    """
    values = {k: x for name in variants for k, x in bart_ls.ROWS.get(name, {}).items()}
    values |= {k: x for k, x in instead.items() if k in values}
    return [f"--{k}" if x is True else f"--{k}={x}" for k, x in values.items()]


def tokenizer_of(config: str) -> str:
    """The vocabulary of a config's model, as it is released."""
    name, variants = config.partition(":")[0], variants_of(config)
    size = "base" if "base" in variants else "large"
    if name in ("denoising", "bart_ls"):
        return f"bart-{size}"
    if name == "reformer_wmt14":
        return "wmt14.model"
    if name.startswith("longformer"):
        return _released(name, variants)
    if name.startswith("etc_large") and "bert_vocab" not in variants:
        is_own = name == "etc_large_pretrain" and "roberta_vocab" not in variants
        return "bert_base_uncased/vocab.txt" if is_own else "roberta-large"
    if name in _BY_ARGUMENT:
        return _released(name, variants)
    return "bert_base_uncased/vocab.txt"


def _released(name: str, variants: list[str]) -> str:
    """The model that a config begins with, as others released it."""
    size = next((x for x in ("large", "xl") if x in variants), "base")
    if name.startswith("longformer"):
        if "roberta" in variants or name == "longformer_mlm":
            return f"roberta-{size}"
        return f"longformer-{size}-4096"
    if name == "sled":
        return f"t5-v1_1-{size}" if "t5" in variants else f"bart-{size}"
    return f"led-{size}-16384" if name == "led" else f"long-t5-tglobal-{size}"


def _on_records(chain, config, row: Row, data_name, start, seed) -> str:
    """A run on a data set and its evaluation, whose name in the chain is returned."""
    files, values = data_sets()[data_name], config_flag.read(config)
    name, variants = config.partition(":")[0], variants_of(config)
    tokenizer = tokenizer_of(config)
    if start is None:
        start = _started(chain, config)
    if name.startswith("longformer"):
        start, tokenizer = _longformer(chain, name, variants, files.task)
    if name == "bart_ls" and not start:
        start = _extended(chain, tokenizer, "bart_ls", 16384, *mechanism(variants))
    if name in ("sled", "led", "long_t5"):
        start = tokenizer
    flags = _prepare_flags(values, row.changes)
    train, dev = (_there(chain.data, part) for part in (files.train, files.dev))
    words = [f"--task={files.task}", f"--tokenizer={tokenizer}", *flags]
    how = (x.strip("-").rpartition("=")[2] for x in flags)
    end = _folder("_".join([data_name, pathlib.Path(tokenizer).name, *how]))
    prepared = chain.do("prepare", f"prepared/{end}", *words, *files.flags, *train)
    out = _run_name(f"{config}_{data_name}", row.changes, _of(row), f"_seed{seed}")
    if name in _BY_ARGUMENT:
        config += f",prepared={prepared},from={start},dev={dev[0]}"
        words = [f"--config.data.validation_files={tuple(dev)}"] * (len(dev) > 1)
    else:
        # `prepare` tells the number of inputs that a config takes as windows=NUMBER.
        checked = chain.do("prepare", f"prepared/{end}_dev", *words, *dev)
        words = [
            f"--config.data.paths=('{prepared}',)",
            f"--config.data.validation_paths=('{checked}',)",
        ]
        if values.checkpoint.best_metric.startswith("official_"):
            words.append(f"--config.data.validation_files={tuple(dev)}")
        if start:
            words.append(f"--config.checkpoint.init_from={start}")
    words += [*row.changes, f"--config.train.seed={seed}"]
    run = chain.do("train", f"runs/{out}", f"--config={config}", *words)
    scored = f"scores/{out}"
    chain.do("evaluate", scored, f"--model={run}", *dev)
    return scored


def _there(data: str, patterns: Sequence[str]) -> list[str]:
    """The files that match; a pattern whose files are not there stays."""
    every = (f"{data}/{pattern}" for pattern in patterns)
    return [path for x in every for path in sorted(glob.glob(x)) or [x]]


def _of(row: Row) -> str:
    corpus = f"_{row.corpus[0]}" if row.corpus else ""
    return f"_from_{_folder(row.pretrain)}{corpus}" if row.pretrain else ""


def _longformer(chain: Chain, name: str, variants: list[str], task: str):
    """(the model that it begins with, the vocabulary of its inputs)."""
    model = _released(name, variants)
    if task in _ADDED:
        tokens = f"--from={model}", f"--tokens={_ADDED[task]}"
        grown = chain.do("grow", f"models/{model}_{task}", *tokens)
        return grown, grown
    return chain.do("convert", f"models/{model}", f"--hf={model}"), model


def _prepare_flags(values: Any, changes: Sequence[str]) -> list[str]:
    """How inputs are made, as a config reads them."""
    data = values.data
    lengths = ("input_length", "target_length")
    if values.model.family == "etc":
        lengths = ("long_length", "global_length")
    elif data.format != "text_to_text":
        lengths = ("input_length",)
    changed = dict(x.removeprefix("--config.").split("=", 1) for x in changes)
    flags = [f"--{x}={changed.get(f'data.{x}', data[x])}" for x in lengths]
    if values.model.family != "etc" and data.format != "text_to_text":
        flags.append("--format=sequence")
    options = dict(x.split("=", 1) for x in data.input_options)
    for option, value in options.items():
        if value != "false":
            flags.append(f"--{option}" + ("" if value == "true" else f"={value}"))
    return flags


def _run_name(config: str, changes: Sequence[str], *ends: str) -> str:
    words = (x.removeprefix("--config.").rpartition(".")[2] for x in changes)
    return _folder("_".join([config, *words])) + "".join(ends)


def config_of(command: Command) -> Config:
    """The config of a `train`, without what it is to read, which is not there yet.

    Raises:
      ValueError: if it is wrong.
    """
    changes = [x for x in command.argv if x.startswith("--config.")]
    later = dict(_LATER.findall(command.config))
    values = config_flag.read(without_paths(command.config), changes)
    if later:
        paths = (later["prepared"],)
        values.data.update(paths=paths, validation_paths=paths)
        values.checkpoint.init_from = later["from"]
    return config_lib.from_config_dict(values)


def without_paths(config: str) -> str:
    """The name of a config, or its argument, without what commands have yet to make."""
    return _LATER.sub("", config)
