import argparse

import pytest

from etc_jax.datasets import options as input_options
from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes


def given(*argv, name="natural_questions"):
    parser, options = argparse.ArgumentParser(), find_task(name).options
    input_options.add_flags(parser, options)
    return input_options.from_flags(parser.parse_args(argv), options)


def test_flags_are_the_options_of_the_data_set():
    assert given() == {}
    assert given("--flat", "--null_share=0.5") == {"flat": True, "null_share": 0.5}
    every = ("--stride=1", "--question_tokens=2", "--tokens_per_block=3", "--flat")
    every += ("--null_share=0.1", "--unanswerable_share=0.2", "--seed=4")
    assert given(*every).keys() == find_task("natural_questions").option_values.keys()


def test_texts_become_values_of_the_types_of_the_options():
    task = find_task("natural_questions")
    texts = ["stride=256", "flat=true", "null_share=1", "tokens_per_block=null"]
    got = input_options.parsed(task.options, texts)
    want = {"stride": 256, "flat": True, "null_share": 1.0, "tokens_per_block": None}
    assert got == want and [type(v) for v in got.values()] == [
        type(v) for v in want.values()
    ]
    assert task.with_options(got).options.stride == 256


@pytest.mark.parametrize(
    "text, message",
    [
        ("stride", "option 'stride'; expected NAME=VALUE"),
        ("stride=far", "option stride is 'far'; expected int or null"),
        ("stride=true", "option stride is 'true'; expected int or null"),
        ("stride=1.5", "option stride is '1.5'"),
        ("flat=1", "option flat is '1'; expected bool"),
        ("seed=null", "option seed is 'null'; expected int"),
        ("color=red", "natural_questions has no option color; there are: quest"),
        ("null_share=2", "null_share is 2.0; expected a number from 0"),
    ],
)
def test_what_does_not_fit_is_named(text, message):
    task = find_task("natural_questions")
    with pytest.raises(ValueError, match=message):
        task.with_options(input_options.parsed(task.options, [text]))


def test_a_data_set_without_options_takes_none():
    task = find_task("wikihop")
    assert task.with_options({}) is task and task.option_values == {}
    with pytest.raises(ValueError, match="no option stride; there are: none at all"):
        task.with_options(input_options.parsed(task.options, ["stride=3"]))


def test_changed_options_are_those_that_are_not_the_usual_ones():
    task = find_task("natural_questions")
    assert task.changed_options == {} == find_task("wikihop").changed_options
    changed = {"stride": 3, "seed": 5}
    assert task.with_options({**changed, "flat": False}).changed_options == changed
    assert set(task.drawn_by) <= task.option_values.keys()


def test_changed_options_can_be_changed_again():
    task = find_task("natural_questions").with_options({"stride": 3})
    again = task.with_options({"seed": 5})
    assert (again.options.stride, again.options.seed) == (3, 5)
    assert again.features.keywords == {"options": again.options}


def test_what_shapes_windows_is_told_with_its_defaults():
    found, sizes = find_task("natural_questions"), StructuredSizes(512, 128)
    usual = found.shaping(sizes)
    assert usual == {
        "question_tokens": 32,
        "stride": 128,
        "tokens_per_block": None,
        "flat": False,
        "long_length": 512,
        "global_length": 128,
    }
    assert found.with_options({"stride": 128, "seed": 9}).shaping(sizes) == usual
    assert found.with_options({"stride": 64}).shaping(sizes) != usual
    # Lengths that only cut off what is after shape nothing.
    for name in ("hotpotqa", "wikihop"):
        assert find_task(name).shaping(sizes) == {}
    blocks = find_task("openkp").with_options({"tokens_per_block": 97})
    assert blocks.shaping(sizes) == {"tokens_per_block": 97}


@pytest.mark.parametrize(
    "text, names",
    [
        ("b c,a", ("b c", "a")),
        ('["a, b", "日本"]', ("a, b", "日本")),
    ],
)
def test_names_are_joined_by_commas_or_a_json_list(text, names):
    task = find_task("classification")
    assert given(f"--labels={text}", name="classification") == {"labels": names}
    assert input_options.parsed(task.options, [f"labels={text}"]) == {"labels": names}
    assert task.with_texts([f"labels={text}"]).classes == names


@pytest.mark.parametrize("text", ['["a"', "[1, 2]", "[" * 100_000])
def test_a_list_that_is_none_of_names_is_refused(text):
    with pytest.raises(ValueError, match="option labels is .*; expected names joined"):
        input_options.parsed(find_task("classification").options, [f"labels={text}"])


@pytest.mark.parametrize("text", ["iob1", '"iob1"'])
def test_one_of_some_values_is_taken_as_caches_write_it(text):
    options = find_task("token_classification").options
    assert input_options.parsed(options, [f"scheme={text}"]) == {"scheme": "iob1"}
    with pytest.raises(ValueError, match="option scheme is 'bio'; expected auto or"):
        input_options.parsed(options, ["scheme=bio"])
