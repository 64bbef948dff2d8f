"""A fine-tuned model with random parameters, saved as a run saves it, and records."""

import json
import pathlib

import jax
import numpy as np
from config_changes import changed
from etils import epath

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.base.whole_files import whole
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.objectives.learners import finetuning
from etc_jax.sharding import path_of
from etc_jax.training import workdir
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.state import TrainState

SPECIAL = ["[PAD]", *(f"[unused{i}]" for i in range(6)), "[UNK]", "[CLS]", "[SEP]"]
LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
DIGITS = [str(i) for i in range(10)]
WORDS = "the of in was born is a which and who where did company town".split()
PAIRS = [a + b for a in LETTERS for b in LETTERS]
BEGINNINGS = [*WORDS, *PAIRS, *LETTERS, *DIGITS]
PIECES = [*SPECIAL, "[MASK]", *BEGINNINGS, *".,?-'()_", *(f"##{b}" for b in BEGINNINGS)]
PIECES = list(dict.fromkeys(PIECES))


# Natural Questions has roles for unused pieces of higher ids.
UNUSED = [f"[unused{i}]" for i in range(6, 104)]


def tokenizer(name: str = "") -> WordPieceTokenizer:
    """Of pairs of letters: any text is short enough."""
    more = UNUSED if name == "natural_questions" else []
    at = PIECES.index("[UNK]")
    return WordPieceTokenizer([*PIECES[:at], *more, *PIECES[at:]])


# The model of this step gives answers of every kind.
STEP = 12

LENGTHS = {
    "hotpotqa": (256, 48),
    "wikihop": (256, 48),
    "natural_questions": (160, 64),
    "openkp": (256, 24),
}
# Of invented records.
SIZES = {
    "hotpotqa": {"contexts": 4, "facts": 2},
    "wikihop": {"contexts": 4, "facts": 2, "candidates": 4},
    "natural_questions": {"contexts": 4, "facts": 2, "annotators": 5},
    "openkp": {"others": 3, "mentions": 1, "words": 40},
}
# The data sets whose files have a record a line.
IN_LINES = ("natural_questions", "openkp")


def config(name: str, **changes) -> config_lib.Config:
    """Of a run; changes as `data__flat=True`."""
    values = config_lib.default_config().to_dict()
    size = tokenizer(name).vocab_size
    values["model"] |= dict(vocab_size=size, embed_dim=8, num_heads=2, mlp_dim=16)
    values["model"] |= dict(num_layers=1, radius=16, max_distance=3, num_labels=10)
    values["model"] |= dict(hard_g2l=True, attention="dense")
    values["objective"]["name"] = name
    long_length, global_length = LENGTHS[name]
    values["data"] |= dict(
        source="windows", paths=("train",), validation_paths=("dev",)
    )
    values["data"] |= dict(vocab_size=size, long_length=long_length)
    values["data"] |= dict(global_length=global_length)
    return changed(values, changes)


def random_params(made: config_lib.Config, seed: int = 0):
    """Random where a new model has random numbers, but so large that answers differ."""
    task = finetuning.of_config(made)
    rng = np.random.default_rng(seed)

    def leaf(path, a):
        name = path_of(path).rpartition("/")[2]
        if name in ("scale", "bias"):
            return np.full(a.shape, name == "scale", a.dtype)
        return np.asarray(rng.normal(size=a.shape), a.dtype)

    abstract = jax.eval_shape(task.init, jax.random.key(0))
    return jax.tree_util.tree_map_with_path(leaf, abstract)


def save_run(
    folder: pathlib.Path, made: config_lib.Config, steps=(STEP,)
) -> pathlib.Path:
    """A workdir with a checkpoint of each step, whose parameters differ."""
    folder.mkdir(parents=True, exist_ok=True)
    workdir.record(made, epath.Path(folder))
    with whole(folder / TOKENIZER) as part:
        tokenizer(made.objective.name).save(part)
    with Checkpointer(folder, keep=len(steps)) as checkpointer:
        for step in steps:
            params = random_params(made, seed=step)
            state = TrainState(np.int32(step), params, {"count": np.int32(step)})
            state = jax.tree.map(jax.numpy.asarray, state)
            data = {"step": step, "config": config_lib.to_dict(made)}
            checkpointer.save(state, data, step=step)
    return folder


def records(name: str, count: int, seed: int = 0) -> list[dict]:
    """Synthetic records in the official format."""
    maker = registry.lookup("invented_items", name)
    return list(maker.records(count, seed=seed, sizes=maker.sizes(**SIZES[name])))


def write_records(folder: pathlib.Path, name: str, values) -> str:
    """A file as the data set has them."""
    if name in IN_LINES:
        return write_lines(folder / "records.jsonl", values)
    return write(folder / "records.json", values)


def write_lines(path: pathlib.Path, values) -> str:
    path.write_text("".join(json.dumps(v) + "\n" for v in values), encoding="utf-8")
    return str(path)


def write(path: pathlib.Path, values) -> str:
    path.write_text(json.dumps(values), encoding="utf-8")
    return str(path)
