import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from etc_jax.base import registry
from etc_jax.base.types import Rows
from etc_jax.config.kinds import section_of
from etc_jax.conversion.engine import export_params, flatten, import_params
from etc_jax.conversion.families import etc_heads
from etc_jax.conversion.families.etc_official import import_official, official_names
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.heads import CandidateHead, HotpotqaHead, NaturalQuestionsHead
from etc_jax.objectives.learners import finetuning

CONFIG = EtcConfig(embed_dim=4, num_heads=2, mlp_dim=6)
ROWS = Rows(jnp.zeros((1, 3, 4)), jnp.zeros((1, 2, 4)))

# Official variable -> shape, as the released code makes them.
LINEAR = {
    "supporting_facts_output": 1,
    "answer_type_output": 3,
    "answer_span_output": 2,
}
FINAL = "global_output_layer/transform/residual_block"
HEADS = {
    "hotpotqa": (
        HotpotqaHead(CONFIG),
        etc_heads.HOTPOTQA,
        {f"{name}_weights": (n, 4) for name, n in LINEAR.items()}
        | {f"{name}_bias": (n,) for name, n in LINEAR.items()},
    ),
    "natural questions": (
        NaturalQuestionsHead(CONFIG),
        etc_heads.NATURAL_QUESTIONS,
        {
            "cls/nq/long_output_weights": (4, 4),
            "cls/nq/long_output_bias": (4,),
            "answer_type_output_weights": (5, 4),
            "answer_type_output_bias": (5,),
        },
    ),
    "candidates": (
        CandidateHead(CONFIG),
        etc_heads.CANDIDATES,
        {
            "output_weights": (1, 4),
            "output_bias": (1,),
            f"{FINAL}/dense_layers/layer_0/kernel": (4, 6),
            f"{FINAL}/dense_layers/layer_0/bias": (6,),
            f"{FINAL}/dense_layers/layer_1/kernel": (6, 4),
            f"{FINAL}/dense_layers/layer_1/bias": (4,),
            f"{FINAL}/layer_norm/gamma": (4,),
            f"{FINAL}/layer_norm/beta": (4,),
        },
    ),
}


@pytest.mark.parametrize("name", HEADS)
def test_official_variables_come_in_and_out_unchanged(name):
    head, table, shapes = HEADS[name]
    rng = np.random.default_rng(0)
    official = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
    abstract = jax.eval_shape(head.init, jax.random.key(0), ROWS)["params"]
    params, report = import_params(table, official, abstract)
    assert not report.missing and not report.unused
    back = export_params(table, params)
    assert set(back) == set(official)
    for variable, value in official.items():
        np.testing.assert_array_equal(back[variable], value)


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
