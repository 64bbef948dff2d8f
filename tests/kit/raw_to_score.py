"""From raw files over a cache and some steps of training to scores and answers."""

import dataclasses
import json
import pathlib

import multihop_samples
from natural_questions_samples import write_lines

from etc_jax import config as config_lib
from etc_jax.cli import evaluate, predict, prepare
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets.task import find_task
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate


def sizes_of(task, format, lengths):
    """Lengths by name."""
    return dataclasses.asdict(type(find_task(task, format).sizes)(*lengths))


def config_of(task, format, cache, lengths, model, vocab_size, options, steps):
    """Of a run of some steps; `model`: its fields besides these."""
    model = dict(model)
    values = config_lib.default_config(model.pop("family", "etc"))
    fields = {
        "vocab_size": vocab_size,
        "embed_dim": 16,
        "num_heads": 2,
        "mlp_dim": 32,
        "num_layers": 1,
        "attention": "dense",
        "dropout_rate": 0.0,
        "attention_dropout_rate": 0.0,
        "initializer_range": 0.2,
        **model,
    }
    small = {
        **{f"model.{name}": value for name, value in fields.items()},
        "objective.name": task,
        "data.source": "windows",
        "data.paths": (cache,),
        "data.validation_paths": (cache,),
        "data.vocab_size": vocab_size,
        "data.input_options": options,
        **{f"data.{name}": x for name, x in sizes_of(task, format, lengths).items()},
        "optimizer.learning_rate": 1e-2,
        "schedule.warmup_steps": 2,
        "train.batch_size": 8,
        "train.num_steps": steps,
        "train.eval_every_steps": 10,
        "checkpoint.every_steps": steps,
    }
    values.update_from_flattened_dict(small)
    return config_lib.from_config_dict(values)


def losses_scores_and_answers(
    task: str,
    format: str,
    path: pathlib.Path,
    values: list[dict],
    *,
    lengths: tuple[int, int],
    model: dict,
    folder: pathlib.Path,
    capsys,
    options: tuple[str, ...] = (),
    steps: int = 30,
    tokenizer: Tokenizer | None = None,
) -> tuple[list[float], dict, list[dict]]:
    """Prepares, trains, evaluates and predicts.

    Args:
      task: name of the data set.
      format: of its inputs.
      path: of its raw files, which nothing is left out of.
      values: records as `etc-jax predict` takes them; the first two are asked.
      lengths: long and global tokens.
      model: fields of the model's config, `family` among them.
      folder: for all that is written; predictions lie in `dev`.
      capsys: of the test.
      options: of the inputs, as a config has them.
      steps: of training, a multiple of 10.
      tokenizer: None: that of `multihop_samples`.

    Returns:
      Losses of the records trained on after each 10 steps, what
      `etc-jax evaluate` writes of scores, and what `etc-jax predict` prints.
    """
    tokenizer = tokenizer or multihop_samples.tokenizer()
    tokenizer.save(folder / "tokenizer.json")
    flags = [f"--{option}" for option in options]
    cache, run, out = (str(folder / name) for name in ("cache", "run", "dev"))
    status = prepare.main(
        [
            *(f"--task={task}", f"--format={format}", f"--out={cache}", *flags),
            *(f"--{k}={x}" for k, x in sizes_of(task, format, lengths).items()),
            *(f"--tokenizer={folder / 'tokenizer.json'}", "--workers=0", str(path)),
        ]
    )
    assert status == 0 and "nothing left out" in capsys.readouterr().out
    config = config_of(
        task, format, cache, lengths, model, tokenizer.vocab_size, options, steps
    )
    assert train_and_evaluate(config, run).exit_code == errors.DONE
    lines = (folder / "run" / "metrics.jsonl").read_text().splitlines()
    losses = [x["loss"] for x in map(json.loads, lines) if x["kind"] == "eval"]
    assert len(losses) == steps // 10

    assert evaluate.main([f"--model={run}", f"--out={out}", str(path)]) == 0
    scores = json.loads((folder / "dev" / evaluate.SCORES).read_text())
    assert scores["task"] == task
    capsys.readouterr()
    asked = write_lines(folder / "asked.jsonl", values[:2])
    assert predict.main([f"--model={run}", "--json", str(asked)]) == 0
    answers = [json.loads(x) for x in capsys.readouterr().out.splitlines()]
    assert len(answers) == 2
    return losses, scores, answers
