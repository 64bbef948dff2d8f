"""Items about teachers: one relation, masks of one word, an answer that can be read."""

import itertools
import re

from etc_jax.tasks.synthetic import teachers


def test_the_asked_person_alone_has_a_name():
    for item in teachers.records(30, seed=1):
        relation, _, subject = item["query"].partition(" ")
        assert relation == "teacher" and re.fullmatch(r"[a-z]+ [a-z]+", subject)
        assert len(item["supports"]) == len(item["candidates"]) == 4
        names = {*item["candidates"], item["answer"]}
        assert all(re.fullmatch(r"Mask\d\d?", name) for name in names)
        text = " ".join(item["supports"])
        assert (
            re.findall(r"[A-Z]\w+ [A-Z]\w+", re.sub(subject, "", text, flags=re.I))
            == []
        )


def test_each_answer_is_as_frequent_as_the_others():
    """There is nothing to gain from a candidate's place: chance is a quarter."""
    items = list(itertools.islice(teachers.records(400, seed=2), 400))
    assert len({item["id"] for item in items}) == 400
    places = [item["candidates"].index(item["answer"]) for item in items]
    for place in range(4):
        assert 70 < places.count(place) < 130  # 100 +- 3.5 standard deviations
