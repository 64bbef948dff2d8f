"""A run does not begin with parameters that mean something else to its model."""

import dataclasses
import itertools
import logging
import types

import pytest
import toy_job

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.cli import flag as config_flag
from etc_jax.config.model_fields import must_agree
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.training.checkpoints import warm_start
from etc_jax.training.errors import UserError
from etc_jax.training.run import train_and_evaluate

# Of every encoder-decoder.
PAIRS = {"activation", "layer_norm_epsilon", "pad_id", "decoder_start_id", "eos_id"}
# By hand: what makes something else of the same arrays.
UNSEEN = {
    "bart": PAIRS | {"scale_embedding", "pre_norm"},
    "led": PAIRS | {"scale_embedding", "pre_norm", "attention_window"},
    "t5": PAIRS | {"max_distance", "scaled_logits"},
    "long_t5": PAIRS | {"max_distance", "scaled_logits", "radius", "block_size"},
    "bert": {"activation", "layer_norm_epsilon"},
    "roberta": {"activation", "layer_norm_epsilon", "pad_id"},
    "longformer": {
        *("activation", "layer_norm_epsilon", "pad_id", "attention_window"),
        *("attention_dilation", "causal", "positions"),
    },
    "big_bird": {
        *("activation", "layer_norm_epsilon", "pattern", "block_size"),
        *("num_globals", "num_random_blocks", "random_blocks", "rescale_embeddings"),
    },
    "etc": {
        *("radius", "max_distance", "activation", "layer_norm_epsilon", "pre_norm"),
        *("hard_g2l", "hard_l2g", "parent_labels", "pattern", "reversible"),
        *("lsh_chunk_length", "num_hashes", "num_buckets"),
    },
    "reformer": {
        *("pattern", "causal", "num_hashes", "num_buckets", "duplicates", "rounding"),
        *("activation", "layer_norm_epsilon", "positions"),
        *(
            f"{kind}_{what}"
            for kind in ("local", "lsh")
            for what in ("chunk_length", "chunks_before", "chunks_after")
        ),
    },
}
UNSEEN["bart_ls"] = UNSEEN["bart"] | {
    *("block_size", "overlap", "num_globals"),
    *("pool_kernel", "pool_stride", "pool_padding"),
}
UNSEEN["reformer_seq2seq"] = PAIRS | UNSEEN["reformer"] - {"causal"}
UNSEEN["reformer_seq2seq"].add("decoder_pattern")


def check(config, there):
    source = types.SimpleNamespace(model=lambda: there, folder="models/before")
    [start] = warm_start._starts(config)
    warm_start._check_model(start, source)


def config_of(family, *changes):
    values = config_lib.default_config(family)
    values.objective.name = "causal_lm" if family == "reformer" else "masked_lm"
    values.data.update(source="bytes", paths=("x",), vocab_size=100, input_length=128)
    values.checkpoint.update(init_from="models/before", init_from_changes=changes)
    return config_lib.from_config_dict(values)


def section(config):
    return config_lib.to_dict(config)["model"]


def test_every_family_is_looked_at():
    config_of("etc")
    known = {x for x in registry.names("model_config") if not x.startswith("toy")}
    assert known == set(UNSEEN)


@pytest.mark.parametrize("family", UNSEEN)
def test_each_field_that_no_shape_shows_is_named_with_both_values(family):
    config = config_of(family)
    check(config, section(config))
    for field in dataclasses.fields(config.model):
        there = section(config) | {field.name: "of before"}
        if field.name not in UNSEEN[family]:
            check(config, there)
            continue
        with pytest.raises(UserError) as caught:
            check(config, there)
        assert f"model.{field.name}: 'of before' there, " in str(caught.value)
        check(config_of(family, field.name), there)
    assert set(must_agree(type(config.model))) == UNSEEN[family]


def test_a_field_that_came_later_has_had_its_default():
    config = config_of("etc")
    there = section(config)
    del there["hard_l2g"], there["parent_labels"]
    check(config, there)
    there["of_another_version"] = 7
    with pytest.raises(UserError, match="of_another_version: 7 there, '.absent.' here"):
        check(config, there)


def test_another_family_is_named():
    there = section(config_of("longformer"))
    with pytest.raises(UserError, match="family: 'longformer' there, 'roberta' here"):
        check(config_of("roberta"), there)
    check(config_of("roberta", "family"), there)
    with pytest.raises(UserError, match="activation: 'relu' there"):
        check(config_of("roberta", "family"), there | {"activation": "relu"})


def test_a_change_that_is_no_field_is_an_error():
    config = config_of("etc", "radios")
    with pytest.raises(UserError, match="'radios', no field .* did you mean 'radius'"):
        check(config, section(config))


def test_a_model_that_nothing_is_known_of_is_said(caplog):
    with caplog.at_level(logging.WARNING):
        check(config_of("etc"), {})
    assert "does not say of which model it is" in caplog.text


def test_a_run_is_refused_before_it_writes_anything(tmp_path, monkeypatch):
    train_and_evaluate(toy_job.config(train__num_steps=4), tmp_path / "before")
    monkeypatch.setattr(
        warm_start, "must_agree", lambda cls: [*must_agree(cls), "length"]
    )
    changes = {"model__length": 6, "checkpoint__init_from": str(tmp_path / "before")}
    with pytest.raises(UserError, match="length: 8 there, 6 here"):
        train_and_evaluate(toy_job.config(**changes), tmp_path / "new")
    assert not list((tmp_path / "new").glob("checkpoints/*"))
    named = toy_job.config(**changes, checkpoint__init_from_changes=("length",))
    assert train_and_evaluate(named, tmp_path / "new").step == 12


# --- the shipped configs --------------------------------------------------------------


def load(name, arg=""):
    module = config_flag.module_of(name)
    values = module.get_config(arg)
    if not values.data.paths and values.data.source != "builtin":
        values.data.paths = ("train",)
    if values.data.source in ("windows", "cache"):
        values.data.validation_paths = ("dev",)
    values.checkpoint.init_from = "models/before"
    return config_lib.from_config_dict(values)


TASKS = ("hotpotqa", "nq", "openkp", "wikihop")
STAGES = [f"stage{i}" for i in range(1, 6)]
WINDOWS = ("", ",fixed_window", ",decreasing_window", ",no_dilation")
# (what is trained, what it begins with) as the configs' texts say.
PAIRS = [
    *(
        ((f"etc_{size}_{task}", arg), (f"etc_{size}_pretrain", arg))
        for size, task in itertools.product(("base", "large"), TASKS)
        for arg in ("",)
    ),
    *(
        ((f"etc_base_{task}", arg), ("etc_base_pretrain", arg))
        for task in TASKS
        for arg in ("shared", "no_hard_g2l")
    ),
    *(
        (("etc_base_nq", x), ("etc_base_pretrain", x))
        for x in ("2x_radius", "2x_vocab")
    ),
    (("etc_base_nq", "8192"), ("etc_base_pretrain", "8192")),
    (("etc_base_nq", "fixed_blocks"), ("etc_base_pretrain", "fixed_blocks")),
    (("etc_base_hotpotqa", "flat"), ("etc_base_pretrain", "no_cpc")),
    (("bert_base_nq", ""), ("bert_base_nq", "")),
    *(
        (("longformer_charlm", after + kind), ("longformer_charlm", before + kind))
        for before, after in itertools.pairwise(STAGES)
        for kind in WINDOWS
    ),
]


@pytest.mark.parametrize("after, before", PAIRS, ids=str)
def test_shipped_configs_begin_with_what_they_say(after, before):
    check(load(*after), section(load(*before)))


@pytest.mark.parametrize(
    "task", ["classification", "coreference", "hotpotqa", "mlm", "triviaqa", "wikihop"]
)
def test_shipped_configs_begin_with_the_released_longformer(task):
    there = {"family": "longformer", **dataclasses.asdict(LongformerConfig())}
    check(load(f"longformer_{task}"), there)


def test_a_variant_that_must_be_pre_trained_so_is_refused():
    there = section(load("etc_base_pretrain"))
    with pytest.raises(UserError, match="model.hard_g2l: True there, False here"):
        check(load("etc_base_hotpotqa", "no_hard_g2l"), there)
    with pytest.raises(UserError, match="model.radius: 84 there, 169 here"):
        check(load("etc_base_nq", "2x_radius"), there)
