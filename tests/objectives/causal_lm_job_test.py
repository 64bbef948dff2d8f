"""Language models through the training loop: sources, figures, bad input."""

import numpy as np
import pytest
from config_changes import changed
from training_runs import lines

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.training.run import train_and_evaluate

SIZES = {
    "embed_dim": 16,
    "num_layers": 2,
    "pattern": ("local", "lsh"),
    "num_heads": 2,
    "mlp_dim": 32,
    "max_length": 32,
    "axial_shape": (4, 8),
    "axial_dims": None,
    "local_chunk_length": 8,
    "lsh_chunk_length": 8,
    "num_buckets": None,
    "dropout_rate": 0.0,
    "vocab_size": 256,
    "initializer_range": 0.1,
}


def config_of(**changes):
    config = config_lib.default_config("reformer")
    config.model.update(SIZES)
    config.objective.name = "causal_lm"
    config.data.update(vocab_size=256, input_length=32)
    config.optimizer.update(learning_rate=1e-2, weight_decay=0.0)
    config.train.update(
        num_steps=20, batch_size=8, eval_every_steps=10, log_every_steps=5
    )
    config.checkpoint.update(every_steps=20)
    return changed(config, changes)


@pytest.fixture
def of_bytes(tmp_path):
    """A text of which the next byte follows from the one before."""
    file = tmp_path / "abc.txt"
    file.write_bytes(b"abcdefghijklmnop" * 400)
    return {"data__source": "bytes", "data__paths": (str(file),)}


# In the default run: a text in `causal_text_test`, bytes in `longformer_lm_job_test`.
@pytest.mark.full
def test_a_text_is_learnt_and_its_bits_are_told(of_bytes, tmp_path):
    folder = tmp_path / "run"
    result = train_and_evaluate(config_of(**of_bytes), folder)
    assert result.exit_code == 0
    first, last = lines(folder, "eval")
    for line in (first, last):
        assert line["bits"] == pytest.approx(line["loss"] / np.log(2), rel=1e-5)
    # Sixteen symbols take 4 bits, one that is known takes none.
    assert last["bits"] < min(3.0, first["bits"])


def test_duplication_counts_the_second_half_alone():
    changes = {"data__source": "duplication", "data__vocab_size": 20}
    config = config_of(**changes)
    job = registry.lookup("objective", "causal_lm")(config, None)
    batch = job.train_batch(0, np.arange(8))
    assert batch["target_weights"].sum() == 8 * 15
    assert job.steps_per_epoch is None


def test_images_need_one_file_each(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (20, 4, 8)).astype(np.uint8)
    np.save(tmp_path / "x.npy", images)
    paths = (str(tmp_path / "x.npy"),)
    changes = {"data__source": "byte_images", "data__paths": paths}
    config = config_of(**changes, data__validation_paths=paths)
    job = registry.lookup("objective", "causal_lm")(config, None)
    assert job.train_batch(0, np.arange(8))["targets"].shape == (8, 32)
    assert job.steps_per_epoch == 20 / 8
    with pytest.raises(config_lib.ConfigError, match=r"validation_paths: .* one .npy"):
        config_of(**changes)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"data__source": "windows", "data__paths": ("x",)},
            "learns from one of .*bytes",
        ),
        (
            {"data__source": "duplication", "data__paths": ("x",)},
            "paths: is .*not use it",
        ),
        (
            {"data__source": "duplication", "objective__name": "mlm_cpc"},
            "'mlm_cpc' learns from one of builtin",
        ),
        ({"data__source": "duplication", "data__scored_length": 4}, "it .bytes does"),
        (
            {
                "data__source": "bytes",
                "data__paths": ("x",),
                "data__validation_paths": ("y",),
            },
            "validation_paths: is .*does not use it",
        ),
        ({"model__vocab_size": 100, "data__source": "duplication"}, "model.vocab_size"),
        (
            {"data__source": "duplication", "data__input_length": 64},
            "length: is 64, more than the 32 tokens of model.max_length",
        ),
    ],
)
def test_configs_that_do_not_go_together_are_refused(changes, message):
    with pytest.raises(config_lib.ConfigError, match=message):
        config_of(**changes)


def test_a_model_that_sees_both_sides_is_refused():
    config = config_of(data__source="duplication", model__causal=False)
    message = "with model.causal=True, got family 'reformer'"
    with pytest.raises(ValueError, match=message):
        registry.lookup("objective", "causal_lm")(config, None)


def test_bytes_beyond_the_table_are_named_before_compiling(of_bytes):
    small = {"model__vocab_size": 64, "data__vocab_size": 64}
    job = registry.lookup("objective", "causal_lm")(
        config_of(**of_bytes, **small), None
    )
    [*_, problem] = job.check_batch(job.train_batch(0, np.arange(8)))
    assert "vocab_size is 64; tokenizer and config differ; bytes take 256" in problem
