"""Configs of small runs on prepared inputs, and the commands around them."""

import dataclasses
import json
import pathlib

from etc_jax import config as config_lib
from etc_jax.cli import evaluate, prepare
from etc_jax.datasets.task import find_task
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

SMALL = {"embed_dim": 8, "num_heads": 2, "mlp_dim": 16, "num_layers": 1}


def small_config(
    name, cache, vocab_size, lengths, *, family="etc", model=(), **changes
) -> config_lib.Config:
    """Of a run on a cache, of its windows evaluated too.

    Args:
      name: of the data set.
      cache: its folder.
      vocab_size: of tokenizer and model.
      lengths: of the cache by name.
      family: of the model.
      model: its fields besides `SMALL`.
      **changes: further fields, as `train__num_steps=3`, or "train.num_steps".
    """
    values = config_lib.default_config(family)
    model = {**SMALL, "vocab_size": vocab_size, "attention": "dense", **dict(model)}
    values.model.update(model)
    values.objective.name = name
    paths = (str(cache),)
    values.data.update(source="windows", paths=paths, validation_paths=paths)
    values.data.update(vocab_size=vocab_size, **lengths)
    changes = {path.replace("__", "."): x for path, x in changes.items()}
    values.update_from_flattened_dict(changes)
    return config_lib.from_config_dict(values)


def once(num_steps: int) -> dict[str, int]:
    """Changes of a run that is evaluated and saved at its end alone."""
    names = ("train.num_steps", "train.eval_every_steps", "checkpoint.every_steps")
    return dict.fromkeys(names, num_steps)


def sizes_of(name, format, lengths) -> dict[str, int]:
    """Lengths by name."""
    return dataclasses.asdict(type(find_task(name, format).sizes)(*lengths))


def prepared(name, format, file, tokenizer, lengths, folder, options=()) -> str:
    """The cache of a file in a folder."""
    tokenizer.save(folder / "tokenizer.json")
    cache = str(folder / "cache")
    flags = [f"--{option}".removesuffix("=true") for option in options]
    flags += [f"--{k}={x}" for k, x in sizes_of(name, format, lengths).items()]
    flags += [f"--tokenizer={folder / 'tokenizer.json'}", "--workers=0", str(file)]
    assert 0 == prepare.main(
        [f"--task={name}", f"--format={format}", f"--out={cache}", *flags]
    )
    return cache


def trained(config, run) -> None:
    """Trains to the end."""
    assert train_and_evaluate(config, str(run)).exit_code == errors.DONE


def evaluated(run, file, out) -> dict:
    """What `etc-jax evaluate` writes of the scores of a file."""
    assert evaluate.main([f"--model={run}", f"--out={out}", str(file)]) == 0
    return json.loads((pathlib.Path(out) / evaluate.SCORES).read_text())


def prepared_here(run, name, file, *flags, format="sequence", lengths, **kwargs) -> str:
    """What `etc-jax prepare` prints; the tests' `run` is given what else there is.

    The cache is the folder "prepared", beside the tokenizer.
    """
    given = (f"--task={name}", "--tokenizer=tokenizer.json", f"--format={format}")
    sizes = [f"--{k}={x}" for k, x in sizes_of(name, format, lengths).items()]
    return run(
        *(prepare, *given, "--workers=0", *sizes, "--out=prepared", *flags, file),
        **kwargs,
    )


def scores_of(folder) -> dict:
    """The scores in a folder."""
    return json.loads((pathlib.Path(folder) / evaluate.SCORES).read_text())
