"""Every config with every variant: it is checked, and its state has a layout."""

import dataclasses
import functools
import inspect
import itertools

import jax
import pytest

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.cli import flag as config_flag
from etc_jax.conversion.engine import flatten
from etc_jax.models.sled.config import SledConfig
from etc_jax.objectives.causal_lm import CausalLm
from etc_jax.objectives.jobs import model_denoising
from etc_jax.objectives.learners import finetuning
from etc_jax.objectives.masked_lm import MaskedLm
from etc_jax.objectives.pretraining import Pretraining
from etc_jax.objectives.sections import TextToTextConfig
from etc_jax.objectives.seq2seq import Seq2Seq
from etc_jax.sharding import MeshConfig, make_mesh
from etc_jax.training.preflight import plan
from etc_jax.training.state import abstract_state

NAMES = config_flag.names()
# Variants that are given with another one.
TOGETHER = {
    ("etc_large_pretrain", "from_scratch"): "roberta_vocab,from_scratch",
    ("reformer_enwik8", "12_layers"): "paper,12_layers",
}
# Configs of texts that are written, which name a data set.
WRITERS = ("sled", "led", "bart_ls", "long_t5")
# What is named for completeness: it is there without.
DEFAULTS = {"stage1", "imdb", "ontonotes", "lsh4", "led", "bert", "text_to_text"}
DEFAULTS |= {"one_global"}
# Where it is not.
CHANGES = {("denoising", "led")}


@functools.cache
def module(name):
    return config_flag.module_of(name)


@functools.cache
def variants(name):
    """All of them, as the message about an unknown one lists them."""
    with pytest.raises(ValueError, match="no variant") as caught:
        module(name).get_config("§")
    names = str(caught.value).partition("there are: ")[2].split(", ")
    return tuple(dict.fromkeys(n for n in names if n not in ("", "none")))


def has_variants(name):
    source = inspect.getsource(module(name))
    return "variants(" in source or "choose(" in source


def cases():
    for name in NAMES:
        yield name, ""
        if has_variants(name):
            yield from ((name, variant) for variant in variants(name))


def load(name, arg="", **changes):
    """A config with what it needs besides; changes as "data.long_length"."""
    values = module(name).get_config(TOGETHER.get((name, arg), arg))
    source = values.data.source
    if source in ("jsonl", "bytes"):
        values.data.paths = ("some",)
    if source in ("windows", "byte_images"):
        values.data.update(paths=("train",), validation_paths=("dev",))
    if source == "pairs":
        values.data.update(
            paths=("train",), validation_paths=("dev",), tokenizer="vocabulary"
        )
    if values.checkpoint.init_from_only or values.checkpoint.init_from_changes:
        values.checkpoint.init_from = "models/before"
    if values.objective.name == "model_denoising":
        values.objective.generator_init_from = "models/generator"
    values.update_from_flattened_dict(changes)
    return config_lib.from_config_dict(values)


@pytest.mark.full
def test_two_variants_go_together_or_exclude_each_other():
    together = 0
    for name in NAMES:
        if not has_variants(name):
            continue
        for pair in itertools.combinations(variants(name), 2):
            try:
                load(name, ",".join(pair))
                together += 1
            except config_lib.ConfigError as error:
                pytest.fail(f"{name}:{','.join(pair)}: {error}")
            except ValueError as error:
                assert any(x in str(error) for x in ("exclude", "goes with", "go with"))
    assert together > 400


def init_of(config):
    """The function of a key that makes the parameters."""
    name = config.objective.name
    if name == "mlm_cpc":
        return Pretraining(config.model, config.objective).init
    languages = {
        "causal_lm": (CausalLm, "causal_lm_model"),
        "masked_lm": (MaskedLm, "masked_lm_model"),
        "seq2seq": (Seq2Seq, "seq2seq_model"),
        "denoising": (Seq2Seq, "seq2seq_model"),
    }
    if name == "model_denoising":
        return model_denoising.task_of(config, rows=None).init
    if name in languages:
        task, kind = languages[name]
        found = registry.lookup(kind, config.family)
        return task(config.model, found).init
    return finetuning.find(config.model, config.objective).init


@functools.cache
def shapes_of(family, model, objective):
    config = config_lib.Config(family=family, model=model, objective=objective)
    return jax.eval_shape(init_of(config), jax.random.key(0))


# What makes no parameter another one, as it is traced soonest.
SAME_SHAPES = {
    "sled": SledConfig(),
    "overlap": False,
    "num_globals": 0,
    "hard_g2l": True,
    "dropout_rate": 0.0,
    "radius": 8,
    "attention": "dense",
    "remat_policy": "none",
}


def parameters_of(config):
    """Shapes of the parameters of a config, traced once for all that have the same."""
    fields = {field.name for field in dataclasses.fields(config.model)}
    same = {k: x for k, x in SAME_SHAPES.items() if k in fields}
    model = dataclasses.replace(config.model, **same)
    objective = config.objective
    if isinstance(objective, TextToTextConfig):
        objective = TextToTextConfig(name="text_to_text")
    return shapes_of(config.family, model, objective)


def layouts():
    for name, arg in cases():
        # Twelve layers that differ are traced one by one: these take seconds each. The
        # many variants of ETC have no groups, and start from the encoder alone.
        full = name == "longformer_charlm" or (name.startswith("etc_") and arg)
        # What data set a text is of changes no parameter.
        full = full or (name in WRITERS and arg in module(name).SETTINGS)
        yield pytest.param(name, arg, marks=[pytest.mark.full] * bool(full))


@pytest.mark.parametrize("name, arg", list(layouts()))
def test_the_state_of_every_variant_has_a_layout(name, arg):
    config = load(name, arg)
    shapes = parameters_of(config)
    # Eight copies of the model: every parameter has its row, every group its parameter.
    state = abstract_state(
        lambda rng: jax.tree.map(lambda a: jax.numpy.zeros(a.shape, a.dtype), shapes),
        plan.optimizer_for(config),
        make_mesh(MeshConfig(data=8)),
    )
    assert flatten(state.params).keys() == flatten(shapes).keys()
    # What the checkpoint is to be started from has these parts.
    for part in config.checkpoint.init_from_only:
        assert [path for path in flatten(shapes) if f"{path}/".startswith(f"{part}/")]


@pytest.mark.parametrize("name", NAMES)
def test_every_variant_is_described_and_changes_something(name):
    for variant in [arg for other, arg in cases() if other == name and arg]:
        text = module(name).__doc__ + (module(name).get_config.__doc__ or "")
        # Of the families that a config can have, it names some.
        family = variant in registry.names("encoder_body") and "longformer, " in text
        assert variant in text or family
        named = variant in DEFAULTS or (variant == "4096" and name.startswith("etc_"))
        named &= (name, variant) not in CHANGES
        assert (load(name, variant) == load(name, "")) == named


def test_new_positions_alone_have_moments():
    config = load("longformer_mlm", "new_positions")
    shapes = parameters_of(config)
    made = jax.eval_shape(plan.optimizer_for(config).init, shapes)
    moments = [x.shape for x in jax.tree.leaves(made) if x.shape]
    assert moments == [(4096 - 512, 768)] * 2
