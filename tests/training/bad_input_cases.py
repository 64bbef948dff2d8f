"""Thirty likely mistakes, some in several forms: how each is made, what it says."""

import dataclasses
import json
import shutil
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import toy_job
from bad_input_bench import VOCAB_SIZE, put

from etc_jax import config as config_lib
from etc_jax.objectives import mlm, pretraining_job
from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training import distributed
from etc_jax.training import workdir as workdir_lib
from etc_jax.training.errors import UserError

# (number, title, what the message holds, function of the bench that returns it)
MISTAKES = []


def mistake(number, title, *parts):
    def add(fn):
        MISTAKES.append((number, title, parts, fn))
        return fn

    return add


@mistake(
    1,
    "a token id beyond the vocabulary, in a batch",
    "long_tokens holds ids from 0 to 32100",
    "model.vocab_size is 180",
    "tokenizer and config differ",
)
def _(bench):
    return bench.spoilt(put("long_tokens", 32100))


@mistake(
    1,
    "a token id beyond the vocabulary, in a token cache",
    "tokens.npy holds id 32100",
    "has 180 ids",
    "tokenise the text again",
)
def _(bench):
    def change(folder):
        tokens = np.load(folder / "tokens.npy")
        tokens[5] = 32100
        np.save(folder / "tokens.npy", tokens)

    return bench.tampered_cache(change)


@mistake(
    1,
    "a model with fewer ids than the vocabulary",
    "model.vocab_size: is 31",
    "data.vocab_size = 32",
    "at least as large",
)
def _(bench):
    return bench.config(model__vocab_size=31)


@mistake(
    2,
    "a negative token id",
    "global_tokens holds ids from -1",
    "model.vocab_size is 180",
)
def _(bench):
    return bench.spoilt(put("global_tokens", -1))


@mistake(
    3,
    "a label of -100",
    "mlm_targets holds ids from -100",
    "weight 0 in mlm_weights",
)
def _(bench):
    return bench.spoilt(put("mlm_targets", -100))


@mistake(
    4,
    "a label beyond the classes",
    "mlm_targets holds ids",
    "to 180",
    "model.vocab_size is 180",
)
def _(bench):
    return bench.spoilt(put("mlm_targets", VOCAB_SIZE))


@mistake(
    5,
    "a batch with nothing to predict",
    "the loss is 0",
)
def _(bench):
    logits = jnp.zeros((2, 3, 7))
    ids, weights = np.zeros((2, 3), np.int32), np.zeros((2, 3), np.float32)
    losses, hits, places = mlm.masked_lm(logits, ids, weights)
    loss = losses / jnp.maximum(places, 1)
    assert float(loss) == float(hits) == 0.0
    return "(allowed) the loss is 0, not NaN"


@mistake(
    6,
    "a seed of 41 bits",
    "train.seed: is 1099511627776",
    "expected 0 <= seed < 2**32",
)
def _(bench):
    return bench.config(train__seed=2**40)


@mistake(
    7,
    "uint16 tokens of a vocabulary of 70,000",
    "tokens are uint16",
    "70000",
    "tokenise the text again",
)
def _(bench):
    def change(folder):
        header = json.loads((folder / "header.json").read_text())
        header["vocab_size"] = 70_000
        (folder / "header.json").write_text(json.dumps(header))

    return bench.tampered_cache(change)


@mistake(
    8,
    "sentences longer than what is left of them",
    "100.0% of the sentences",
    "data.max_sentence_tokens",
    "raise it",
)
def _(bench):
    return bench.text(data__max_sentence_tokens=4)


@mistake(
    8,
    "documents too short to be used",
    "has 13 sentences",
    "lower min_sentences",
)
def _(bench):
    return bench.text(data__min_sentences=13)


@mistake(
    8,
    "more masked tokens than places",
    "chosen for MLM has no room",
    "raise data.mlm_capacity",
)
def _(bench):
    return bench.text(data__mlm_capacity=2)


@mistake(
    9,
    "a batch without an entry that the model reads",
    "lacks mlm_positions",
    "it has cpc_documents",
)
def _(bench):
    def spoil(batch):
        return {k: v for k, v in batch.items() if k != "mlm_positions"}

    return bench.spoilt(spoil)


@mistake(
    9,
    "rows without the field of the text",
    "rows.jsonl:1: no field 'text'",
    "there are 'body'",
    "set text_field",
)
def _(bench):
    return bench.text(data__text_field="text", data__cache_dir=str(bench.folder))


@mistake(
    10,
    "a mesh of fewer devices than there are",
    "needs 4 devices, but there are 8",
    "mesh.data=-1",
)
def _(bench):
    return bench.toy(mesh__data=4)


@mistake(
    11,
    "a mesh whose axes are Explicit, jax's default",
    "Auto",
)
def _(bench):
    kinds = set(make_mesh(MeshConfig()).axis_types)
    assert kinds == {jax.sharding.AxisType.Auto}
    return "(cannot happen) every mesh is made with Auto axes"


@mistake(
    12,
    "a negative learning rate",
    "optimizer.learning_rate: is -0.001",
    "expected more than 0",
)
def _(bench):
    return bench.config(optimizer__learning_rate=-1e-3)


@mistake(
    12,
    "a learning rate that is not a number",
    "optimizer.learning_rate: is nan",
    "expected a finite",
)
def _(bench):
    return bench.config(optimizer__learning_rate=float("nan"))


@mistake(
    13,
    "a checkpoint of another dtype",
    "params/mlp/wi/kernel: float32[16, 32] in the checkpoint, bfloat16",
    "section model",
)
def _(bench):
    make = toy_job.init_params

    def narrow(c, rng):
        return jax.tree.map(lambda x: x.astype(jnp.bfloat16), make(c, rng))

    bench.monkeypatch.setattr(toy_job, "init_params", narrow)
    return bench.unrecorded()


@mistake(
    14,
    "a bit of a checkpoint has flipped",
    "no usable checkpoint",
    "step 4",
    "checksum",
    "from a copy",
)
def _(bench):
    run = bench.folder / "run"
    shutil.copytree(bench.finished, run)
    files = [p for p in (run / "checkpoints" / "4" / "state").rglob("*") if p.is_file()]
    largest = max(files, key=lambda p: p.stat().st_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 1
    largest.write_bytes(data)
    return bench.toy()


@mistake(
    15,
    "fewer source files than hosts",
    "none twice",
)
def _(bench):
    job = pretraining_job.make_job(bench.text_config(), bench.folder)
    whole = job.train_batch(0, np.arange(8))["long_tokens"]
    hosts = [job.train_batch(0, np.arange(i, i + 2)) for i in range(0, 8, 2)]
    np.testing.assert_array_equal(
        np.concatenate([batch["long_tokens"] for batch in hosts]), whole
    )
    assert len(np.unique(whole, axis=0)) == 8
    return (
        "(cannot happen) of one file, 4 hosts read 4 x 2 rows, none twice: rows are "
        "dealt out, not files"
    )


@mistake(
    16,
    "text that is not UTF-8",
    "latin1.jsonl",
    "no UTF-8, at most 0.10% may be",
    "convert it to UTF-8",
)
def _(bench):
    path = bench.folder / "latin1.jsonl"
    text = bench.rows.read_text().replace("e", "é")
    path.write_bytes(text.encode("latin-1"))
    return bench.text(data__paths=(str(path),))


@mistake(
    17,
    "a mesh of more devices than there are",
    "needs 16 devices, but there are 8",
)
def _(bench):
    return bench.toy(mesh__data=4, mesh__fsdp=4, train__batch_size=16)


@mistake(
    18,
    "a dimension that its mesh axis does not divide",
    "model.mlp_dim: is 33",
    "mesh.tensor = 2",
    "nearest valid: 32 or 34",
)
def _(bench):
    return bench.config(model__mlp_dim=33, mesh__tensor=2)


@mistake(
    18,
    "likewise, of a parameter that only the layout finds",
    "params/mlp/wi/kernel: dimension 1",
    "is 12, not divisible by 8",
    "nearest valid: 8 or 16",
)
def _(bench):
    config = toy_job.config(mesh__tensor=8, train__num_steps=4)
    object.__setattr__(config.model, "mlp_dim", 12)  # past the config's own check
    return bench.refused(config)


@mistake(
    19,
    "a batch that the mesh does not divide",
    "train.batch_size: is 9",
    "mesh.data x mesh.fsdp",
    "8 or 10",
)
def _(bench):
    return bench.config(train__batch_size=9, mesh__fsdp=2)


@mistake(
    19,
    "a batch that the devices left for data do not divide",
    "train.batch_size is 12",
    "data=8 x fsdp=1",
    "8 or 16",
)
def _(bench):
    return bench.toy(train__batch_size=12)


@mistake(
    19,
    "a batch that microbatches do not divide",
    "is 8, not divisible by 3",
    "train.accumulation_steps",
    "6 or 9",
)
def _(bench):
    return bench.config(train__batch_size=8, train__accumulation_steps=3)


@mistake(
    20,
    "a mesh axis that does not exist",
    "mesh.tensors: unknown key",
    "did you mean 'tensor'?",
)
def _(bench):
    return bench.config(mesh__tensors=2)


@mistake(
    21,
    "a misspelt section",
    "optimiser: unknown section",
    "'optimizer'",
)
def _(bench):
    values = toy_job.config_dict().to_dict()
    values["optimiser"] = {}
    return bench.config(values)


@mistake(
    21,
    "a misspelt field",
    "train.bach_size: unknown key",
    "'batch_size'",
)
def _(bench):
    return bench.config(train__bach_size=8)


@mistake(
    21,
    "a misspelt field of a nested section",
    "optimizer.adafactor.decay_rat",
    "'decay_rate'",
)
def _(bench):
    return bench.config(optimizer__adafactor={"decay_rat": 0.8})


@mistake(
    22,
    "a string for an integer",
    "train.batch_size: is '8' (str); expected an int",
)
def _(bench):
    return bench.config(train__batch_size="8")


@mistake(
    22,
    "a float for an integer",
    "train.num_steps: is 1000.0 (float); expected an int",
)
def _(bench):
    return bench.config(train__num_steps=1e3)


@mistake(
    23,
    "a warm-up longer than the run",
    "schedule.warmup_steps: is 13",
    "train.num_steps = 12",
    "no larger",
)
def _(bench):
    return bench.config(schedule__warmup_steps=13)


@mistake(
    24,
    "a pattern that matches no file",
    "data.paths: no file matches '*.jsonl'",
    "correct the pattern",
)
def _(bench):
    return bench.text(data__paths=(str(bench.folder / "*.jsonl"),))


@mistake(
    25,
    "an objective that does not exist",
    "objective.name: no pretraining named 'mlm_cpcc'",
    "did you mean 'mlm_cpc'?",
)
def _(bench):
    return bench.config(objective__name="mlm_cpcc")


@mistake(
    25,
    "a kind of source that does not exist",
    "data.source: is 'json'",
    "'builtin', 'text', 'jsonl'",
    "did you mean 'jsonl'?",
)
def _(bench):
    return bench.config(data__source="json")


@mistake(
    26,
    "a tokenizer that is not there",
    "data.tokenizer: no tokenizer at",
    "expected vocab.txt",
)
def _(bench):
    return bench.text(data__tokenizer=str(bench.folder / "vocab.txt"))


@mistake(
    26,
    "a tokenizer file that is garbage",
    "vocab.txt is not a WordPiece vocabulary",
    "expected UTF-8",
)
def _(bench):
    path = bench.folder / "vocab.txt"
    path.write_bytes(bytes(range(256)) * 4)
    return bench.text(data__tokenizer=str(path))


@mistake(
    27,
    "a checkpoint of other shapes",
    "params/mlp/wi/kernel: float32[16, 32] in the checkpoint, float32[16, 64] wanted",
    "section model",
)
def _(bench):
    make = toy_job.init_params

    def wider(c, rng):
        return make(dataclasses.replace(c, mlp_dim=64), rng)

    bench.monkeypatch.setattr(toy_job, "init_params", wider)
    return bench.unrecorded()


@mistake(
    28,
    "a sequence longer than the positions of the model",
    "data.long_length: is 128",
    "positions for 100",
    "model.max_positions to 128",
)
def _(bench):
    with pytest.raises(config_lib.ConfigError) as caught:
        bench.text_config(model__max_positions=100)
    return str(caught.value)


@mistake(
    28,
    "a sequence that its mesh axis does not divide",
    "data.long_length: is 129",
    "mesh.sequence = 2",
    "128 or 130",
)
def _(bench):
    return bench.config(data__long_length=129, mesh__sequence=2)


@mistake(
    29,
    "a workdir of another run",
    "holds a run with another config",
    "another --workdir",
    "optimizer.learning_rate: 0.01 there, 0.02 now",
)
def _(bench):
    return bench.again(optimizer__learning_rate=0.02)


@mistake(
    30,
    "a checkpoint beyond the last step",
    "of step 4, beyond train.num_steps = 3",
    "raise train.num_steps",
)
def _(bench):
    return bench.unrecorded(train__num_steps=3)


@mistake(
    30,
    "a disk without room for the checkpoints",
    "4 checkpoints of",
    "lower checkpoint.keep = 3",
)
def _(bench):
    usage = types.SimpleNamespace(free=1000)
    bench.monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    return bench.toy()


@mistake(
    30,
    "a workdir that cannot be written",
    "cannot be used",
    "Permission denied",
    "another --workdir",
)
def _(bench):
    def read_only(folder):
        raise PermissionError(13, "Permission denied", str(folder))

    bench.monkeypatch.setattr(workdir_lib, "_write_something", read_only)
    return bench.toy()


@mistake(
    30,
    "nothing to evaluate on",
    "no evaluation batch",
    "raise data.held_back_fraction",
)
def _(bench):
    bench.monkeypatch.setattr(toy_job, "EVAL_BATCHES", 0)
    return bench.toy()


@mistake(
    30,
    "a bad row of a JSONL file",
    "rows.jsonl:81: not JSON",
    "correct the line",
)
def _(bench):
    path = bench.folder / "rows.jsonl"
    path.write_text(bench.rows.read_text() + '{"body": "cut sho\n')
    return bench.text(data__paths=(str(path),))


@mistake(
    30,
    "hosts with different configs",
    "differ in their config",
    "train.seed: 0 on process 0, 7 on process 1",
    "same command",
)
def _(bench):
    def exchange(value):
        yield value
        yield {**value, "train.seed": 7} if "train.seed" in value else value

    bench.monkeypatch.setattr(distributed, "exchange", exchange)
    return bench.toy()


@mistake(
    30,
    "another number of processes than was said",
    "RANK is 4, but WORLD_SIZE is 4",
    "from 0 to WORLD_SIZE - 1",
)
def _(bench):
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")
    with pytest.raises(UserError) as caught:
        distributed.detect(dict(zip(names, ("host0", "1234", "4", "4"), strict=True)))
    return str(caught.value)
