"""Masked tokens through the training loop: what is learnt, sources, bad input."""

import numpy as np
import pytest
import tiny_text
from config_changes import changed
from training_runs import lines

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.data.bytes.masked import BYTE_MASK
from etc_jax.training.errors import UserError
from etc_jax.training.preflight.plan import check_extras
from etc_jax.training.run import train_and_evaluate

SIZES = {
    "vocab_size": 257,
    "embed_dim": 32,
    "num_layers": 1,
    "pattern": ("local",),
    "num_heads": 2,
    "mlp_dim": 64,
    "causal": False,
    "max_length": 48,
    "axial_shape": (6, 8),
    "axial_dims": None,
    "local_chunk_length": 1,
    "local_chunks_after": 1,
    "dropout_rate": 0.0,
    "initializer_range": 0.2,
}


def config_of(**changes):
    config = config_lib.default_config("reformer")
    config.model.update(SIZES)
    config.objective.name = "masked_lm"
    config.data.update(source="bytes", vocab_size=257, input_length=48)
    config.optimizer.update(learning_rate=2e-2, weight_decay=0.0)
    config.schedule.warmup_steps = 10
    config.train.update(num_steps=40, batch_size=16, eval_every_steps=20)
    config.checkpoint.update(every_steps=40)
    return changed(config, changes)


def job_of(folder=None, **changes):
    return registry.lookup("objective", "masked_lm")(config_of(**changes), folder)


@pytest.fixture
def of_bytes(tmp_path):
    """A text of threes: the middle byte is made of the other two, which are random.

    With its middle byte, each of the others is known. From one side alone, two of three
    bytes are a guess between two at best, so that no more than 2 / 3 are right.
    """
    first, last = np.random.default_rng(0).integers(0, 2, (2, 20_000))
    middle = ord("p") + 2 * first + last
    text = np.stack([ord("a") + first, middle, ord("A") + last], 1)
    file = tmp_path / "threes.txt"
    file.write_bytes(text.astype(np.uint8).tobytes())
    return {"data__paths": (str(file),)}


@pytest.mark.full
def test_a_byte_that_follows_from_both_neighbours_is_learnt(of_bytes, tmp_path):
    folder = tmp_path / "run"
    assert train_and_evaluate(config_of(**of_bytes), folder).exit_code == 0
    first, last = lines(folder, "eval")
    assert last["accuracy"] > 0.75
    assert last["bits"] == pytest.approx(last["loss"] / np.log(2), rel=1e-5)
    assert last["bits"] < min(1.0, first["bits"])
    assert last["overflow"] == 0


def test_batches_of_bytes_fit_their_model(of_bytes):
    job = job_of(**of_bytes)
    batch = job.train_batch(0, np.arange(16))
    assert job.check_batch(batch) == []
    assert batch["mlm_positions"].shape == (16, 8)  # 15 % of 48, rounded up
    assert batch["tokens"].max() == BYTE_MASK
    assert job.tokens_per_step == 16 * 48
    assert job.steps_per_epoch == pytest.approx(54_000 / 48 / 16, rel=0.01)
    counted = sum(b["mlm_weights"].sum() for b in job.eval_batches(np.arange(16)))
    assert counted == pytest.approx(0.15 * 3000, rel=0.02)


def test_batches_from_other_processes_are_the_same(of_bytes):
    here = job_of(**of_bytes).train_batch(3, np.arange(16))
    there = job_of(**of_bytes, data__read_workers=1).train_batch(3, np.arange(16))
    for name, array in here.items():
        np.testing.assert_array_equal(array, there[name])


def test_a_batch_that_does_not_fit_is_named(of_bytes):
    job = job_of(**of_bytes)
    batch = job.train_batch(0, np.arange(16))
    wrong = {
        **batch,
        "tokens": batch["tokens"] + 100,
        "mlm_positions": batch["mlm_positions"] + 48,
    }
    ids, places = job.check_batch(wrong)
    assert "tokens holds ids from" in ids and "model.vocab_size is 257" in ids
    assert "mlm_positions holds positions" in places
    del batch["example_ids"]
    assert "the batch lacks example_ids" in job.check_batch(batch)[0]


@pytest.fixture
def of_text(tmp_path):
    pytest.importorskip("nupunkt")
    tiny_text.write_rows(tmp_path / "rows.jsonl")
    size = tiny_text.VOCAB_SIZE
    return {
        "data__source": "jsonl",
        "data__text_field": "body",
        "data__paths": (str(tmp_path / "rows.jsonl"),),
        "data__validation_fraction": 0.4,
        "data__max_sentence_tokens": 48,
        "data__vocab_size": size,
        "model__vocab_size": size,
    }


def test_documents_become_rows_of_tokens(of_text, tmp_path):
    job = job_of(tmp_path, **of_text)
    batch = job.train_batch(0, np.arange(16))
    assert job.check_batch(batch) == []
    assert (batch["example_ids"] > 0).mean() > 0.7
    share = batch["mlm_weights"].sum() / (batch["example_ids"] > 0).sum()
    assert 0.13 < share < 0.17
    assert job.steps_per_epoch > 1
    assert (tmp_path / "tokenizer.json").exists()
    evaluated = list(job.eval_batches(np.arange(16)))
    assert len(evaluated) > 1
    again = list(job.eval_batches(np.arange(16)))
    for name, array in evaluated[0].items():
        np.testing.assert_array_equal(array, again[0][name])
    assert len(list((tmp_path / "data").rglob("tokens.npy"))) == 2


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model__causal": True}, "sees both sides, got model.causal=True"),
        ({"data__input_length": 64}, "64, more than the 48 tokens of model.max_length"),
        (
            {"model__vocab_size": 256, "data__vocab_size": 256},
            "model.vocab_size is 256, but the mask of bytes has the id 256",
        ),
        ({"data__mlm_capacity": 49}, "data.mlm_capacity is 49, but a row has .* = 48"),
        (
            {"data__source": "duplication", "data__paths": ()},
            "learns from one of .*bytes, .*text",
        ),
        ({"data__paths": ("/nowhere",)}, "'/nowhere' in data.paths matches no file"),
        ({"data__validation_fraction": 1e-6}, "each needs some"),
        ({"data__scored_length": 49}, "data.scored_length is 49"),
    ],
)
def test_what_cannot_be_learnt_is_refused(of_bytes, changes, message):
    with pytest.raises(ValueError, match=message):
        job_of(**(of_bytes | changes))


def test_an_empty_file_is_refused(tmp_path):
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="no byte in .*empty"):
        job_of(data__paths=(str(tmp_path / "empty"),))


def test_other_families_are_refused_with_those_there_are(of_bytes):
    config = config_lib.default_config("etc")
    config.objective.name = "masked_lm"
    config.data.update(source="bytes", paths=of_bytes["data__paths"])
    config = config_lib.from_config_dict(config)
    with pytest.raises(ValueError, match="no masked lm model named 'etc'.* reformer"):
        registry.lookup("objective", "masked_lm")(config, None)


def test_a_missing_cache_is_named_with_other_problems():
    paths = {"data__paths": ("/nowhere",), "data__validation_paths": ("/none",)}
    config = config_of(data__source="cache", data__max_sentence_tokens=48, **paths)
    with pytest.raises(UserError, match="no token cache in /nowhere"):
        check_extras(config)


def test_fields_of_other_objectives_are_refused():
    with pytest.raises(config_lib.ConfigError, match="'masked_lm' does not use it"):
        config_of(data__paths=("x",), objective__cpc_weight=0.0)
