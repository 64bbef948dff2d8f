"""Questions of short texts: where the answer is, and where there is none."""

import re

import pytest

from etc_jax.tasks.squad.records import read
from etc_jax.tasks.synthetic import squad_pieces
from etc_jax.tasks.synthetic.squad_pieces import MAKER, PieceSizes

COUNT = 200


@pytest.fixture(scope="module")
def items(tmp_path_factory):
    """The records, as a file of SQuAD has them."""
    path = tmp_path_factory.mktemp("pieces") / "some.json"
    MAKER.write(path, squad_pieces.records(COUNT, seed=3))
    return list(read([path]))


def test_the_answer_is_what_the_text_tells_and_nothing_otherwise(items):
    for number, item in enumerate(items):
        [answer] = item.answers
        assert item.context[answer.start :].startswith(answer.text)
        thing, name = re.fullmatch(
            r"what is the (\w+) of (\w+) \?", item.question
        ).groups()
        # A text that begins within a sentence may lack its thing, as windows do.
        told = re.findall(rf"\b{name} is (\w+)", item.context)
        if answer.text == "nothing":
            assert number % 2 and f"{thing} of {name} is " not in item.context.replace(
                f"{name} is nothing", ""
            )
        else:
            assert number % 2 == 0 and answer.text in told
            assert item.context.split().count(answer.text) == 1


def test_two_of_four_texts_are_pieces_of_a_length(items):
    lengths = [len(item.context.split()) for item in items]
    assert set(lengths[2::4]) == set(lengths[3::4]) == {18 + 1}
    assert all(x.context.startswith("the ") for i, x in enumerate(items) if i % 4 < 2)
    assert set(lengths[0::4]) == set(lengths[1::4]) == {2 * 7 + 1}


def test_lengths_can_be_chosen():
    sizes = PieceSizes(articles=5, piece_words=30, facts=3, things=4, name_words=2)
    items = list(squad_pieces.records(40, seed=0, sizes=sizes))
    [context] = {len(x["paragraphs"][0]["context"].split()) for x in items[2::4]}
    assert context == 31
