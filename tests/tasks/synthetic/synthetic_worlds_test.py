"""Invented worlds: what can be said is unambiguous, and names give nothing away."""

import collections
import random
import re

import pytest
from synthetic_solver import stated

from etc_jax.tasks.synthetic import names, paths, schema, telling, worlds
from etc_jax.tasks.synthetic.schema import RELATIONS, YEAR
from etc_jax.tasks.synthetic.worlds import WorldSizes

SUBJECTS = {
    "person": ("Bara Kolt", "She"),
    "company": ("Gronel Works", "The company"),
    "town": ("Tarlow", "The town"),
    "region": ("Venem", "The region"),
}


def test_twins_say_different_things_about_the_same_kinds():
    for relation in RELATIONS:
        other = schema.twin(relation)
        assert other != relation and schema.twin(other) == relation
        assert (other.source, other.target) == (relation.source, relation.target)
        assert not set(other.statements) & set(relation.statements)


def test_names_of_relations_can_be_joined():
    assert len(schema.BY_NAME) == len(RELATIONS) == 32
    for relation in RELATIONS:
        assert re.fullmatch("[a-z_]+", relation.name) and "_of_" not in relation.name
    path = tuple(schema.BY_NAME[name] for name in ("home", "region", "regent"))
    assert paths.path_name(path) == "regent_of_region_of_home"
    assert paths.path_of_name("regent_of_region_of_home") == path
    with pytest.raises(ValueError, match=r"unknown relations \['cousin'\]"):
        paths.path_of_name("cousin_of_home")


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda r: r.name)
def test_a_statement_says_one_thing(relation):
    value = "1734" if relation.target == YEAR else SUBJECTS[relation.target][0]
    for template in relation.statements:
        for subject in SUBJECTS[relation.source]:
            text = template.format(s=subject, o=value)
            assert stated(text) == [(relation.name, subject, value)]


@pytest.mark.parametrize("mention", ["", "Bara Kolt", "Tarlow"])
def test_fillers_and_introductions_state_nothing(mention):
    rng = random.Random(0)
    texts = {names.filler(rng, mention) for _ in range(500)}
    assert len(texts) > 200
    assert all(mention in text and not stated(text) for text in texts)
    for kind, (name, _) in SUBJECTS.items():
        entity = worlds.Entity(kind, name, "it")
        text = telling.introduction(rng, entity)
        assert text.startswith(f"{name} is a") and not stated(text)


def test_no_name_contains_another_or_a_word_of_the_templates():
    for seed in range(20):
        drawn = names.NameGenerator(random.Random(seed))
        words = [
            word.lower()
            for kind in schema.KINDS
            for _ in range(20)
            for word in drawn.draw(kind).split()
            if word not in names._COMPANY_WORDS
        ]
        assert len(words) == 100
        joined = " ".join(sorted(words))
        assert all(joined.count(word) == 1 for word in words)
        assert not set(words) & names._template_words()


def test_names_are_made_of_the_given_words():
    given = ("oak", "Elm", "bridge", "soak", "ash")  # a template says "bridge"
    for seed in range(20):
        drawn = names.NameGenerator(random.Random(seed), given)
        names_ = [drawn.draw("town"), drawn.draw("region"), drawn.draw("town")]
        assert {"Elm", "Ash"} < set(names_) and len({"Oak", "Soak"} & {*names_}) == 1
        with pytest.raises(ValueError, match="3 of them fit together"):
            drawn.draw("region")


def _world(seed=0, contexts=12, path=("home", "region"), **sizes):
    rng = random.Random(seed)
    path = [schema.BY_NAME[name] for name in path]
    sizes = WorldSizes(contexts=contexts, **sizes)
    world, chain = worlds.world_with_chain(rng, sizes, path, answers=6)
    return world, chain, telling.write_documents(rng, sizes, world)


@pytest.mark.parametrize("seed", range(10))
def test_every_value_is_told_as_often_as_any_other_of_its_kind(seed):
    world, _, _ = _world(seed)
    for relation, values in world.facts.items():
        both = [*values.values(), *world.facts[schema.twin(relation)].values()]
        pool = world.entities.get(relation.target, set(both))
        counts = collections.Counter(both)
        times = [counts[value] for value in pool]
        assert max(times) - min(times) <= 1
        for subject, value in values.items():
            other = world.facts[schema.twin(relation)][subject]
            assert len({subject, value, other}) == 3


def test_a_chain_follows_its_path_and_its_twins_lead_elsewhere():
    world, (person, town, region), documents = _world()
    home, lies_in = schema.BY_NAME["home"], schema.BY_NAME["region"]
    assert world.facts[home][person] is town
    assert world.facts[lies_in][town] is region
    decoy = world.facts[schema.twin(home)][person]
    assert decoy is not town
    assert {person, town, decoy} <= {document.entity for document in documents}


def test_documents_tell_pairs_of_twins_once_and_name_their_entity_first():
    _, _, documents = _world(facts=4)
    assert len(documents) == 12
    for document in documents:
        assert document.sentences[0].text.startswith(document.entity.name)
        facts = [s.fact for s in document.sentences if s.fact]
        told = {fact.relation for fact in facts}
        assert len(told) == len(facts) == 4
        assert {schema.twin(relation) for relation in told} == told
        for relation in told:
            at = document.index_of(relation)
            assert document.sentences[at].fact.relation == relation


@pytest.mark.parametrize("pronouns, share", [(0.0, 1.0), (1.0, 0.0)])
def test_pronouns_stand_for_names(pronouns, share):
    _, _, documents = _world(pronouns=pronouns)
    stating = [
        document.entity.name in sentence.text
        for document in documents
        for sentence in document.sentences
        if sentence.fact
    ]
    assert sum(stating) == share * len(stating)


def test_one_wording_is_the_first():
    _, _, documents = _world(wordings=1, pronouns=0.0)
    for document in documents:
        for sentence in document.sentences:
            if fact := sentence.fact:
                template = fact.relation.statements[0]
                want = template.format(s=document.entity.name, o=fact.value_name)
                assert sentence.text == want


@pytest.mark.parametrize(
    "sizes, message",
    [
        ({"contexts": 2}, "contexts must be 3 to 300, got 2"),
        ({"hops": (2, 4), "contexts": 6}, "contexts must be 7 to 300, got 6"),
        ({"hops": (3, 2)}, r"hops must be 1 to 6, got \(3, 2\)"),
        ({"hops": (0, 2)}, "hops must be"),
        ({"facts": 3}, r"facts must be one of \[2, 4, 6, 8\], got 3"),
        ({"words": -1}, "words must be at least 0"),
        ({"pronouns": 1.5}, "pronouns must be 0 to 1"),
        ({"wordings": 0}, "wordings must be at least 1"),
        ({"kinds": ()}, "kinds must be some of person, company, town, region"),
        ({"names": ("oak", "elm 2")}, r"names must be single words of letters, got"),
        ({"kinds": ("dog",), "facts": 0}, "facts must be .*; kinds must be"),
    ],
)
def test_sizes_that_cannot_be_are_named(sizes, message):
    with pytest.raises(ValueError, match=message):
        WorldSizes(**sizes)
