"""The configs of masked tokens: every variant is whole and can be learnt."""

import dataclasses

import jax
import numpy as np
import pytest
from every_config_test import load, parameters_of

from etc_jax.base import registry
from etc_jax.conversion.engine import flatten


@pytest.fixture
def some_bytes(tmp_path):
    file = tmp_path / "some.bin"
    file.write_bytes(np.random.default_rng(0).bytes(30_000))
    return (str(file),)


@pytest.mark.parametrize("size", ["", "4096", "short"])
@pytest.mark.parametrize("text", [False, True])
def test_variants_see_both_sides_of_sequences_as_long_as_their_positions(size, text):
    arg = ",".join(filter(None, [size, "text" * text]))
    config = load("reformer_mlm", arg)
    model = config.model
    assert not model.causal and model.local_chunks_after == 1
    assert (
        config.data.input_length == model.max_length == int(np.prod(model.axial_shape))
    )
    assert config.data.source == ("builtin" if text else "bytes")
    assert model.vocab_size == (8192 if text else 320) == config.data.vocab_size


@pytest.mark.parametrize(
    "name, arg", [("reformer_mlm", "short"), ("longformer_mlm", "short,bytes")]
)
def test_the_short_one_is_small_and_its_batches_fit(name, arg, some_bytes):
    config = load(name, arg, **{"data.paths": some_bytes})
    job = registry.lookup("objective", config.objective.name)(config, None)
    batch = job.train_batch(0, np.arange(config.train.batch_size))
    assert job.check_batch(batch) == []
    assert batch["mlm_positions"].shape == (16, 77)  # 15 % of 512
    shapes = jax.eval_shape(job.init_params, jax.random.key(0))
    assert sum(x.size for x in jax.tree.leaves(shapes)) < 1e6


def test_the_whole_one_is_as_large_as_the_language_model():
    config = load("reformer_mlm")
    assert (config.model.num_layers, config.model.embed_dim) == (12, 768)
    assert config.model.max_length == 65536


def test_a_wrong_variant_is_named():
    with pytest.raises(ValueError, match="no variant 'shirt'.*'short'"):
        load("reformer_mlm", "shirt")


@pytest.mark.parametrize(
    "arg",
    [
        *("", "bytes", "short", "short,bytes", "as_it_is", "as_it_is,short"),
        *("short,roberta,bytes", "short,new_positions"),
    ],
)
def test_variants_of_longformer_fit_together(arg):
    config = load("longformer_mlm", arg)
    assert config.data.input_length == config.model.max_length
    assert config.data.vocab_size == config.model.vocab_size


def test_a_model_is_scored_as_it_is():
    """No step, of the whole model; else the config is that of a run that learns."""
    config = load("longformer_mlm", "as_it_is")
    whole, short = load("longformer_mlm"), load("longformer_mlm", "as_it_is,short")
    assert short.train.num_steps == 0
    assert config.train == dataclasses.replace(whole.train, num_steps=0)
    assert dataclasses.replace(
        config, train=whole.train, checkpoint=whole.checkpoint
    ) == (whole)
    tops = {path.partition("/")[0] for path in flatten(parameters_of(config))}
    assert tops == set(config.checkpoint.init_from_only)
    assert load("longformer_mlm", "as_it_is,roberta").data.input_length == 512


def test_the_whole_longformer_has_as_many_parameters_as_the_released_one():
    """As many as transformers' LongformerForMaskedLM of its sizes."""
    config = load("longformer_mlm")
    shapes = parameters_of(config)
    total = sum(x.size for x in jax.tree.leaves(shapes))
    assert total == 148_711_257
