"""How texts are written, as a command line changes it."""

import dataclasses
import pathlib

import pytest

from etc_jax import config as config_lib
from etc_jax.conversion.formats.generation_file import GenerationFile
from etc_jax.generation.options import GenerationConfig
from etc_jax.prediction import answering
from etc_jax.training.errors import UserError


def config_of(family, objective, **data):
    values = config_lib.default_config(family, objective=objective, source="windows")
    values.model.vocab_size = 64
    values.data.update(paths=("a",), validation_paths=("b",), vocab_size=64, **data)
    return config_lib.from_config_dict(values)


def test_what_is_given_takes_the_place_of_the_run_s_own():
    config = config_of("bart", "text_to_text")
    texts = ["num_beams=4", "length_penalty=2", "early_stopping=true"]
    found = answering._with_generation(config, texts)
    want = GenerationConfig(num_beams=4, length_penalty=2.0, early_stopping="true")
    assert found.objective.generation == want
    assert config_lib.config_hash(found) == config_lib.config_hash(config)
    assert answering._with_generation(config, []) is config


def test_a_folder_decides_what_nothing_else_does():
    config = config_of("bart", "text_to_text")
    values = {"num_beams": 2, "length_penalty": 2.0, "do_sample": True, "top_k": 5}
    ends = {"eos_token_id": [2, 5], "decoder_start_token_id": 2, "max_length": 9}
    file = GenerationFile(pathlib.Path("model/generation_config.json"), values | ends)
    found = answering._with_generation(config, ["num_beams=4", "top_k=0"], file)
    assert found.objective.generation == GenerationConfig(
        num_beams=4,
        top_k=0,
        length_penalty=2.0,
        eos_ids=(2, 5),
        # The file is whole, and has none.
        forced_eos_ids=(),
        num_tokens=8,
    )
    same = {"eos_token_id": 2, "forced_eos_token_id": 2, "decoder_start_token_id": 2}
    file = dataclasses.replace(file, values=same)
    assert answering._with_generation(config, [], file) is config


@pytest.mark.parametrize(
    "text, message",
    [
        ("beams=3", "unknown key; did you mean 'num_beams'"),
        ("num_beams=0", "num_beams: is 0; expected 1 or more"),
        ("repetition_penalty=0", "repetition_penalty: is 0.0; expected 1e-30 to"),
        ("early_stopping=perhaps", "is 'perhaps'; expected true or false or never"),
        ("num_beams", "expected NAME=VALUE"),
    ],
)
def test_what_does_not_fit_is_one_error(text, message):
    with pytest.raises(ValueError, match=message):
        answering._with_generation(config_of("bart", "text_to_text"), [text])


def test_a_model_that_writes_nothing_takes_no_such_option():
    config = config_of("etc", "wikihop")
    with pytest.raises(UserError, match="an? etc model writes no texts for wikihop"):
        answering._with_generation(config, ["num_beams=4"])
