"""Invented WikiHop items: of the official form, answerable, and only by following."""

import json
import random
import re

import pytest
import synthetic_baselines as baselines
from golden_data import require_shared
from hypothesis import given, settings, strategies as st
from synthetic_solver import answer_wikihop

from etc_jax.tasks.synthetic.paths import path_of_name
from etc_jax.tasks.synthetic.schema import KINDS
from etc_jax.tasks.synthetic.wikihop import WikiHopSizes, records

COUNT = 400
WAYS = {"any way": {}, "through candidates": {"through_candidates": True}}
both_ways = pytest.mark.parametrize("way", WAYS)


@pytest.fixture(scope="module")
def items():
    return {
        way: list(records(COUNT, seed=1, sizes=WikiHopSizes(**sizes)))
        for way, sizes in WAYS.items()
    }


def test_fields_are_those_of_the_release(items):
    path = "data/wikihop/train.slice.json"
    real = json.loads(require_shared(path).read_text(encoding="utf-8"))
    for item in items["any way"]:
        assert set(item) == set(real[0])
        for field, value in real[0].items():
            assert type(item[field]) is type(value)
    for item in [*real, *items["any way"]]:
        assert item["candidates"].count(item["answer"]) == 1
        relation, _, subject = item["query"].partition(" ")
        assert re.fullmatch("[a-z_]+", relation) and subject == subject.lower()


@both_ways
def test_candidates_are_lower_case_and_stand_in_the_documents(items, way):
    assert len({item["id"] for item in items[way]}) == COUNT
    for item in items[way]:
        assert len(item["candidates"]) == 8 and len(item["supports"]) == 10
        assert item["candidates"] == sorted(set(item["candidates"]))
        text = "\n".join(item["supports"]).lower()
        assert all(c in text for c in item["candidates"])
        assert item["query"].partition(" ")[2] not in item["candidates"]


@both_ways
def test_following_the_relations_answers_everything(items, way):
    assert all(answer_wikihop(item) == item["answer"] for item in items[way])


@both_ways
@pytest.mark.parametrize("baseline", baselines.WIKIHOP, ids=lambda b: b.__name__)
def test_nothing_but_following_helps(items, way, baseline):
    rng = random.Random(0)
    right = sum(baseline(item, rng) == item["answer"] for item in items[way])
    print(f"{way}, {baseline.__name__}: {right / COUNT}")
    # Chance is 1/8; two steps without looking at relations leave about four.
    limit = 0.35 if baseline is baselines.two_steps_away else 0.25
    assert right < limit * COUNT


def test_a_way_through_candidates_meets_candidates_alone(items):
    for item in items["through candidates"]:
        path = path_of_name(item["query"].partition(" ")[0])
        kinds = {kind for r in path for kind in (r.source, r.target)}
        assert len(kinds) == 1


def test_names_of_answers_stand_in_several_documents(items):
    counts = [
        sum(item["answer"] in support.lower() for support in item["supports"])
        for item in items["any way"]
    ]
    assert sum(count > 1 for count in counts) > 0.6 * COUNT


def test_masked_items_are_the_same_items_with_masks():
    plain = list(records(30, seed=5))
    masked = list(records(30, seed=5, sizes=WikiHopSizes(masked=True)))
    numbers = set()
    for one, other in zip(plain, masked, strict=True):
        assert one["query"] == other["query"] and one["id"] == other["id"]
        assert len(set(other["candidates"])) == 8
        assert other["answer"] in other["candidates"]
        text = "\n".join(other["supports"])
        assert not any(c in text.lower() for c in one["candidates"])
        assert set(re.findall(r"___MASK\d+___", text)) == set(other["candidates"])
        # The masks stand where the names were.
        back = dict.fromkeys(other["candidates"], "*")
        for mask in back:
            text = text.replace(mask, "*")
        want = "\n".join(one["supports"])
        for name in one["candidates"]:
            want = re.sub(re.escape(name), "*", want, flags=re.IGNORECASE)
        assert text == want
        place = want.count("*")
        assert place > 8
        numbers |= set(other["candidates"])
    assert len(numbers) > 50


@pytest.mark.parametrize("words", [300, 4000])
def test_items_are_filled_up_to_a_length(words):
    sizes = WikiHopSizes(words=words, contexts=6, facts=2)
    for item in records(10, seed=0, sizes=sizes):
        count = len(" ".join(item["supports"]).split())
        assert words <= count < words + 20
        assert answer_wikihop(item) == item["answer"]


@settings(deadline=None, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    hops=st.integers(1, 6),
    extra=st.integers(0, 12),
    more=st.integers(0, 12),
    facts=st.sampled_from([2, 4, 6, 8]),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, unique=True),
    through_candidates=st.booleans(),
)
def test_items_of_any_sizes_are_answerable(
    seed, hops, extra, more, facts, kinds, through_candidates
):
    contexts = max(3, 2 * hops - 1) + extra
    least = hops + 2 if len(kinds) > 1 else max(hops + 2, contexts - 1)
    sizes = WikiHopSizes(
        contexts=contexts,
        hops=(hops, hops),
        facts=facts,
        kinds=tuple(kinds),
        candidates=least + more,
        through_candidates=through_candidates,
    )
    (item,) = records(1, seed=seed, sizes=sizes)
    assert len(item["supports"]) == contexts
    assert len(item["candidates"]) == sizes.candidates
    assert answer_wikihop(item) == item["answer"]
