"""The damage that the fuzzers do: repeatable, of a copy, and of every kind."""

import copy
import gzip
import json
import random
import zlib

import mutations
import pytest

VALUE = {"id": "a", "list": [1, [True, None]], "inner": {"x": 0.5, "y": ["b", "c"]}}


def repeated(seed: int) -> list:
    rng = random.Random(seed)
    return [
        repr(mutations.mutated(VALUE, rng)),
        mutations.spelled(VALUE, rng),
        mutations.damaged(b"some bytes", rng),
        mutations.damaged_gzip(b"some bytes", rng),
    ]


def test_a_seed_gives_the_same_damage_again_and_leaves_the_value_alone():
    before = copy.deepcopy(VALUE)
    first = [repeated(seed) for seed in range(50)]
    assert first == [repeated(seed) for seed in range(50)]
    assert VALUE == before
    assert len(set(map(str, first))) > 45


def test_damage_comes_to_every_place_and_of_every_type():
    rng = random.Random(0)
    seen, types = set(), set()
    for _ in range(2000):
        value = mutations.mutated(VALUE, rng)
        if isinstance(value, dict):
            seen |= {key for key in VALUE if value.get(key) != VALUE[key]}
            types |= {type(x).__name__ for x in value.values()}
    assert seen == VALUE.keys()
    assert types == {"str", "int", "float", "bool", "NoneType", "list", "dict"}


@pytest.mark.parametrize("value", [None, 3, "x", [], {}, float("nan")])
def test_a_value_without_places_is_damaged_too(value):
    rng = random.Random(0)
    assert any(repr(mutations.mutated(value, rng)) != repr(value) for _ in range(20))


def test_spelling_is_sometimes_json_and_sometimes_not():
    rng, whole = random.Random(0), 0
    for _ in range(200):
        try:
            whole += json.loads(mutations.spelled(VALUE, rng)) == VALUE
        except (ValueError, RecursionError):
            pass
    assert 100 < whole < 180


def test_gzip_is_sometimes_whole_and_sometimes_not():
    rng, whole = random.Random(0), 0
    for _ in range(200):
        try:
            whole += b"text" in gzip.decompress(mutations.damaged_gzip(b"text", rng))
        except (OSError, EOFError, zlib.error):
            pass
    assert 20 < whole < 180
