"""The config of a run names its data set, with how inputs are made."""

import finetuned_run
import pytest

from etc_jax.datasets.of_config import task_of, with_options
from etc_jax.tasks import natural_questions

NAME = "natural_questions"


def test_options_are_those_of_the_run_unless_others_are_asked_for():
    config = finetuned_run.config(NAME, data__input_options=("stride=9", "flat=true"))
    assert task_of(config).options == natural_questions.inputs.NaturalQuestionsOptions(
        stride=9, flat=True
    )
    asked = task_of(config, ["stride=null"])
    assert asked.options == natural_questions.inputs.NaturalQuestionsOptions(flat=True)
    assert with_options(config, ["stride=7"]).options.stride == 7
    assert not with_options(config, ["stride=7"]).options.flat


def test_inputs_that_the_model_does_not_take_are_refused():
    blocks = {"data__input_options": ("tokens_per_block=16",)}
    config = finetuned_run.config("openkp", **blocks)
    with pytest.raises(ValueError, match="inputs of openkp: tokens_per_block=16 leav"):
        task_of(config)
    blind = finetuned_run.config("openkp", objective__visual_features=False, **blocks)
    assert task_of(blind).options.tokens_per_block == 16
