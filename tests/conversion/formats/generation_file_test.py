"""generation_config.json as options of this project, and back."""

import json
import logging

import pytest

from etc_jax.conversion.formats import generation_file
from etc_jax.conversion.formats.generation_file import FILE
from etc_jax.generation.options import GenerationConfig


def file_of(folder, values, name=FILE):
    (folder / name).write_text(json.dumps(values))
    return folder


# As facebook/bart-large-cnn has it, and tokens of every kind.
VALUES = {
    "_from_model_config": True,
    "bos_token_id": 0,
    "decoder_start_token_id": 2,
    "early_stopping": True,
    "eos_token_id": [2, 7],
    "forced_bos_token_id": 0,
    "forced_eos_token_id": 2,
    "length_penalty": 2,
    "max_length": 142,
    "min_length": 56,
    "no_repeat_ngram_size": 3,
    "num_beams": 4,
    "pad_token_id": 1,
    "suppress_tokens": [5],
    "bad_words_ids": [[5, 6], [7]],
    "transformers_version": "4.27.0",
}
FIELDS = {
    "start_id": 2,
    "early_stopping": "true",
    "eos_ids": (2, 7),
    "forced_bos_ids": (0,),
    "forced_eos_ids": (2,),
    "length_penalty": 2.0,
    "num_tokens": 141,
    "min_tokens": 55,
    "no_repeat_ngram": 3,
    "num_beams": 4,
    "suppress_tokens": (5,),
    "bad_words": ((5, 6), (7,)),
}


def test_options_are_fields_and_back(tmp_path):
    file = generation_file.read(file_of(tmp_path, VALUES))
    assert file.fields() == FIELDS
    assert not list(GenerationConfig(**FIELDS).problems())
    assert file.left_out() == []
    back = generation_file.values_of(FIELDS)
    assert back["max_new_tokens"] == 141 and back["min_new_tokens"] == 55
    again = generation_file.read(file_of(tmp_path, back))
    assert again.fields() == FIELDS
    assert generation_file.files_of(VALUES)[FILE].decode().startswith("{\n")


@pytest.mark.parametrize(
    "values, fields",
    [
        # Lengths count the prompt, new tokens do not, and come first.
        ({"max_length": 9, "max_new_tokens": 5}, {"num_tokens": 5}),
        ({"min_length": 9, "min_new_tokens": 5}, {"min_tokens": 5}),
        ({"do_sample": True}, {"temperature": 1.0, "top_k": 50}),
        # A text is one draw.
        (
            {"do_sample": True, "temperature": 0.5, "top_k": 0}
            | {"num_return_sequences": 2},
            {"temperature": 0.5, "top_k": 0},
        ),
        ({"temperature": 0.5, "top_k": 3, "top_p": 1}, {"top_k": 3, "top_p": 1.0}),
        ({"bos_token_id": 3}, {"start_id": 3}),
        ({"early_stopping": "never", "num_beams": None}, {"early_stopping": "never"}),
    ],
)
def test_what_transformers_makes_of_options(values, fields, tmp_path):
    none = {"eos_ids": (), "forced_bos_ids": (), "forced_eos_ids": ()}
    assert generation_file.read(file_of(tmp_path, values)).fields() == none | fields


def test_lengths_count_the_tokens_of_a_prompt(tmp_path):
    values = {"max_length": 20, "min_length": 9}
    found = generation_file.read(file_of(tmp_path, values)).fields(prompt_length=12)
    assert (found["num_tokens"], found["min_tokens"]) == (8, 0)


def test_config_json_alone_has_options_too(tmp_path):
    values = {
        "model_type": "bart",
        "d_model": 8,
        "num_beams": 4,
        "min_length": None,
        "bos_token_id": 0,
        "force_bos_token_to_be_generated": True,
        "task_specific_params": {"summarization": {"num_beams": 6}},
    }
    file = generation_file.of_config(file_of(tmp_path, values, "config.json"))
    # What ends a text is what the model has, where nothing is said.
    assert file.fields() == {"num_beams": 4, "forced_bos_ids": (0,)}
    assert file.left_out() == ["task_specific_params"]
    assert generation_file.read(tmp_path) is None


def test_what_is_left_out_is_told_once(tmp_path, caplog):
    values = {
        "num_beam": 4,
        "stop_strings": ["a"],
        "encoder_repetition_penalty": 1.0,
        "renormalize_logits": True,
        "min_p": 0.1,
        "do_sample": True,
        "num_return_sequences": 3,
        "use_cache": False,
        "guidance_scale": None,
    }
    file = generation_file.read(file_of(tmp_path, values))
    with caplog.at_level(logging.WARNING):
        generation_file.log_left_out(file)
    [record] = caplog.records
    why, names = record.getMessage().removeprefix(str(tmp_path)).split(" by it: ")
    assert why == f"/{FILE}: left out, as no text is written"
    assert names == "stop_strings=['a'], min_p=0.1, num_return_sequences=3, num_beam=4"
    with_beams = generation_file.read(file_of(tmp_path, {**values, "num_beams": 2}))
    assert "do_sample=True" in with_beams.left_out()
    assert "renormalize_logits=True" in with_beams.left_out()
    assert "temperature" not in with_beams.fields()


@pytest.mark.parametrize(
    "values, message",
    [
        ({"num_beams": "4"}, "num_beams is '4'; expected a whole number from 1"),
        ({"eos_token_id": []}, "eos_token_id is ..; expected"),
        ({"eos_token_id": [1.5]}, "eos_token_id is .1.5.; expected"),
        ({"early_stopping": "always"}, "early_stopping is 'always'; expected true or"),
        ({"bad_words_ids": [[]]}, "bad_words_ids is ....; expected a list"),
        ({"top_p": 2, "top_k": -1}, "top_k is -1; .*; top_p is 2; expected a number"),
        ({"temperature": float("nan")}, "temperature is nan; expected a number"),
    ],
)
def test_a_value_that_is_none_is_told_with_its_file(values, message, tmp_path):
    with pytest.raises(ValueError, match=f"{FILE}: {message}"):
        generation_file.read(file_of(tmp_path, values))


def test_a_file_that_is_none_is_told(tmp_path):
    (tmp_path / FILE).write_text("[1]")
    with pytest.raises(ValueError, match=f"{FILE} holds a list, expected an object"):
        generation_file.read(tmp_path)
