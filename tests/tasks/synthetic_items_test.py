"""What invented items of all data sets have in common."""

import pytest

from etc_jax.tasks.synthetic import (
    backwards,
    coreference,
    hotpotqa,
    imdb,
    multiple_choice,
    natural_questions,
    openkp,
    teachers,
    text_to_text,
    token_classification,
    triviaqa,
    wikihop,
)

EVERY = (coreference, hotpotqa, imdb, natural_questions, openkp)
EVERY += (backwards, teachers, text_to_text, triviaqa, wikihop)
EVERY += (multiple_choice, token_classification)


@pytest.mark.parametrize("module", EVERY, ids=lambda x: x.__name__.split(".")[-1])
def test_a_record_depends_on_seed_and_number_alone(module):
    whole = list(module.records(20, seed=3))
    assert list(module.records(5, seed=3, start=15)) == whole[15:]
    other = list(module.records(20, seed=4))
    assert not any(item in whole for item in other)
    assert all(whole.count(item) == 1 for item in whole)
