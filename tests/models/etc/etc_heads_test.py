import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import official_heads
import pytest

from etc_jax.base import registry
from etc_jax.base.types import Rows
from etc_jax.config.kinds import section_of
from etc_jax.conversion.engine import export_params, flatten, import_params
from etc_jax.models.etc import head_weights as etc_heads, openkp_weights as etc_openkp
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.etc.official import import_official, official_names
from etc_jax.models.heads import CandidateHead, HotpotqaHead, NaturalQuestionsHead
from etc_jax.models.ngram_head import NgramHead
from etc_jax.models.openkp import EtcForKeyphrases, VisualEmbedding
from etc_jax.objectives.learners import finetuning
from etc_jax.ops.visual import Visual
from etc_jax.structure import Structure

CONFIG = EtcConfig(embed_dim=4, num_heads=2, mlp_dim=6)
IDS = jnp.zeros((1, 2), jnp.int32)
ROWS = Rows(jnp.zeros((1, 3, 4)), jnp.zeros((1, 2, 4)))
LOOK = Visual(IDS, IDS, IDS, jnp.zeros((1, 2, 8)))
# What of a model is beside the encoder: module, inputs, rows, official variables.
PARTS = {
    "hotpotqa": (HotpotqaHead(CONFIG), (ROWS,), etc_heads.HOTPOTQA),
    "natural_questions": (
        NaturalQuestionsHead(CONFIG),
        (ROWS,),
        etc_heads.NATURAL_QUESTIONS,
    ),
    "wikihop": (CandidateHead(CONFIG), (ROWS,), etc_heads.CANDIDATES),
}
PARTS = {
    name: (*part, official_heads.shapes(name, 4, 6)) for name, part in PARTS.items()
} | {
    "openkp": (
        NgramHead(CONFIG),
        (jnp.zeros((1, 2, 4)), IDS),
        etc_openkp.HEAD,
        official_heads.ngrams(4),
    ),
    "visual": (
        VisualEmbedding(CONFIG),
        (LOOK,),
        etc_openkp.VISUAL,
        official_heads.visual(4),
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_official_variables_come_in_and_out_unchanged(name):
    module, inputs, table, shapes = PARTS[name]
    official = official_heads.drawn(shapes)
    abstract = jax.eval_shape(module.init, jax.random.key(0), *inputs)["params"]
    params, report = import_params(table, official, abstract)
    assert not report.missing and not report.unused
    back = export_params(table, params)
    assert set(back) == set(official)
    for variable, value in official.items():
        np.testing.assert_array_equal(back[variable], value)


def test_the_rows_of_openkp_are_those_of_all_but_the_encoder():
    tokens = Rows(IDS, IDS)
    structure = Structure(IDS, IDS, jnp.zeros((1, 2, 1), jnp.int16))
    model = EtcForKeyphrases(dataclasses.replace(CONFIG, num_layers=1))
    call = (tokens, structure, tokens, IDS, LOOK)
    abstract = jax.eval_shape(model.init, jax.random.key(0), *call)["params"]
    del abstract["encoder"]
    official = official_heads.drawn(official_heads.shapes("openkp", 4, 6))
    params, _ = import_params(etc_openkp.ROWS, official, abstract)
    assert jax.tree.map(np.shape, params) == jax.tree.map(np.shape, abstract)


def checkpoint_of(task):
    """(parameters of a model, the official variables they are)."""
    rng = np.random.default_rng(0)
    params = jax.tree.map(
        lambda a: rng.normal(size=a.shape).astype(np.float32),
        jax.eval_shape(task.init, jax.random.key(0)),
    )
    rows = etc_heads.TASKS[task.objective.name]
    names = official_names(task.model, target="encoder/")
    return params, export_params([*names, *rows], params)


def test_every_task_of_etc_has_a_head():
    names = (name.partition("/") for name in registry.names("learner"))
    of_etc = {name for name, _, form in names if form in EtcConfig.formats}
    # The official code gives no text a label, and does not read TriviaQA.
    assert set(etc_heads.TASKS) == of_etc - {
        "labels",
        "label_sets",
        "token_labels",
        "spans",
    }


@pytest.mark.parametrize(
    "objective",
    [
        *(section_of(name)(name) for name in etc_heads.TASKS),
        section_of("wikihop")("wikihop", final_layer=False),
        section_of("openkp")("openkp", visual_features=False),
    ],
    ids=repr,
)
def test_whole_models_go_out_and_come_back(objective):
    config = EtcConfig(vocab_size=9, embed_dim=4, num_heads=2, mlp_dim=6, num_layers=2)
    task = finetuning.find(config, objective)
    params, official = checkpoint_of(task)
    options = etc_heads.options_of(objective.name, official)
    assert dataclasses.replace(objective, **options) == objective
    plain = type(objective)(objective.name, **options)
    assert plain == objective
    again, report = import_official(
        official,
        config,
        jax.eval_shape(task.init, jax.random.key(0)),
        target="encoder/",
        head=etc_heads.TASKS[objective.name],
    )
    assert not report.missing and not report.unused
    got, want = flatten(again), flatten(params)
    assert set(got) == set(want)
    for path, value in want.items():
        np.testing.assert_array_equal(got[path], value, err_msg=path)
