"""The pre-training configs say what the paper says, and build."""

import pytest
from every_config_test import load, module

from etc_jax import config as config_lib
from etc_jax.training.run import train_and_evaluate

PAPER_TOKENS = 512 * 4096  # of one step of a base model


@pytest.mark.parametrize("name", ["etc_base_pretrain", "etc_large_pretrain"])
def test_tiny_learns_the_built_in_text(name):
    values = module(name).get_config("tiny")
    config = config_lib.from_config_dict(values)  # no file is to be named
    assert (config.data.source, config.data.tokenizer) == ("builtin", None)
    assert config.data.vocab_size == config.model.vocab_size < 20_000


@pytest.mark.full
def test_tiny_has_text_enough_to_train_and_to_measure(tmp_path):
    values = module("etc_base_pretrain").get_config("tiny")
    values.train.update(num_steps=2, eval_steps=1)
    values.schedule.warmup_steps = 1
    train_and_evaluate(config_lib.from_config_dict(values), tmp_path)
    assert "cpc_pool_top1" in (tmp_path / "final_report.json").read_text()


@pytest.mark.parametrize("length, glob", [(512, 128), (4096, 230), (8192, 460)])
def test_a_step_has_as_many_tokens_at_every_length(length, glob):
    config = load("etc_base_pretrain", str(length))
    assert (config.data.long_length, config.data.global_length) == (length, glob)
    assert config.train.batch_size * length == PAPER_TOKENS


def test_the_default_is_the_paper_s_base_model():
    config = load("etc_base_pretrain")
    assert (config.train.batch_size, config.train.num_steps) == (512, 63_000)
    assert config.optimizer.learning_rate == pytest.approx(0.00282842712)
    assert config.optimizer.name == "lamb_bert"
    assert (config.objective.mlm_weight, config.objective.cpc_weight) == (0.8, 0.2)
    assert (config.model.radius, config.model.max_distance) == (84, 12)
    assert config.model.hard_g2l
    assert load("etc_large_pretrain").train.batch_size == 1024


@pytest.mark.parametrize(
    "name, lifted, from_nothing",
    [
        ("etc_base_pretrain", "lifted", ""),
        ("etc_large_pretrain", "roberta_vocab", "roberta_vocab,from_scratch"),
    ],
)
def test_what_is_lifted_has_its_own_rate_and_is_not_forgotten(
    name, lifted, from_nothing
):
    """Section 4.1: sqrt(8) x 1e-3; appendix C: 2e-3 when lifted."""
    config, other = load(name, lifted), load(name, from_nothing)
    assert config.optimizer.learning_rate == 2e-3
    assert other.optimizer.learning_rate == pytest.approx(2.8284271e-3)
    assert config.model == other.model
    assert other.checkpoint.init_from is None
    values = config_lib.to_dict(config)
    values["checkpoint"]["init_from"] = None
    with pytest.raises(config_lib.ConfigError, match="init_from is not; name the"):
        config_lib.from_config_dict(values)


def test_a_run_from_nothing_is_asked_for_only_where_it_is_not_meant_anyway():
    with pytest.raises(ValueError, match="from_scratch goes with roberta_vocab"):
        module("etc_large_pretrain").get_config("from_scratch")


def test_variants_change_what_they_say():
    one = load("etc_base_pretrain", "512,shared,no_cpc,no_hard_g2l")
    assert one.model.share_qkv and one.model.share_out and not one.model.hard_g2l
    assert (one.objective.mlm_weight, one.objective.cpc_weight) == (1.0, 0.0)
    other = load("etc_base_pretrain", "fixed_blocks,2x_radius,2x_pretraining")
    assert other.data.global_tokens == "fixed_blocks"
    assert other.data.tokens_per_block == 97
    assert other.objective.cpc_weight == 0.0
    assert other.model.radius == 169
    assert (other.train.num_steps, other.schedule.warmup(126_000)) == (126_000, 12_600)


def test_a_wrong_variant_is_named():
    with pytest.raises(ValueError, match="'2x_radios'.*'2x_radius'"):
        load("etc_base_pretrain", "2x_radios")
    with pytest.raises(ValueError, match="512, 8192 exclude each other"):
        load("etc_base_pretrain", "512,8192")
