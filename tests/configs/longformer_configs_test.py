"""The configs of Longformer's tasks: every variant is whole."""

import inspect

import jax
import pytest
from every_config_test import load, module, parameters_of

from etc_jax.tasks.hotpotqa import sequence_inputs as hotpotqa_sequence
from etc_jax.tasks.wikihop import sequence_inputs as wikihop_sequence


@pytest.mark.parametrize(
    "name, arg, task, added",
    [
        ("longformer_triviaqa", "", "triviaqa", 0),
        ("longformer_triviaqa", "from_scratch", "triviaqa", 0),
        ("longformer_classification", "", "imdb", 0),
        ("longformer_classification", "hyperpartisan", "hyperpartisan", 0),
        ("longformer_coreference", "", "coreference", 0),
        ("longformer_coreference", "litbank", "coreference", 0),
        ("longformer_hotpotqa", "", "hotpotqa", 5),
        ("longformer_hotpotqa", "from_scratch", "hotpotqa", 5),
        ("longformer_wikihop", "", "wikihop", 4),
        ("longformer_wikihop", "from_scratch", "wikihop", 4),
    ],
)
def test_whole_ones_have_the_sizes_of_the_released_model(name, arg, task, added):
    config = load(name, arg)
    assert config.objective.name == task
    assert config.data.input_length == config.model.max_length == 4096
    shapes = parameters_of(config)
    # 148,659,456 in transformers, of which 590,592 are the pooler; in BERT's head there
    # is one layer of that size again. Tokens that were added have rows of 768.
    encoder = sum(x.size for x in jax.tree.leaves(shapes["encoder"]))
    assert encoder == 148_659_456 - 590_592 + 768 * added
    assert config.data.vocab_size == config.model.vocab_size == 50_265 + added


@pytest.mark.parametrize(
    "name, arg",
    [
        ("longformer_triviaqa", "short"),
        ("longformer_classification", "short"),
        ("longformer_classification", "hyperpartisan,short"),
        ("longformer_coreference", "short"),
        ("longformer_coreference", "litbank,short"),
        ("longformer_hotpotqa", "short"),
        ("longformer_wikihop", "short"),
    ],
)
def test_short_ones_are_small_and_start_from_nothing(name, arg):
    config = load(name, arg)
    assert config.checkpoint.init_from is None
    assert config.data.input_length == config.model.max_length == 512
    # The vocabularies that are made on the way are BERT's kind.
    assert config.model.num_types == 2
    shapes = parameters_of(config)
    assert sum(x.size for x in jax.tree.leaves(shapes)) < 2.5e6


def test_the_vocabulary_has_room_for_the_tokens_of_the_task():
    for name, tokens in (
        ("longformer_hotpotqa", hotpotqa_sequence.TOKENS),
        ("longformer_wikihop", wikihop_sequence.TOKENS),
    ):
        text = inspect.getsource(module(name))
        assert f"--tokens='{','.join(tokens)}'" in text
        assert load(name).model.vocab_size == 50_265 + len(tokens)
        # The model that the vocabulary is of can be started from.
        other = module("longformer_mlm").get_config("short").model
        other.update(vocab_size=other.vocab_size + len(tokens), logits_chunk_length=0)
        assert module(name).get_config("short").model.to_dict() == other.to_dict()


def test_the_number_of_inputs_decides_the_steps():
    assert load("longformer_wikihop").train.num_steps == 20_502
    config = load("longformer_wikihop", "windows=64000")
    assert config.train.num_steps == 30_000
