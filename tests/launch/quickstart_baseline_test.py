"""The best constant guess on records made by hand."""

import itertools

import pytest

from etc_jax.scoring import hotpotqa
from launch.quickstart_baseline import best_places, majority, without_names


def record(number, answer, places, *, documents=2, sentences=3):
    """A record whose gold sentences are at (document, sentence) `places`."""
    titles = [f"T{number}.{i}" for i in range(documents)]
    return {
        "_id": f"r{number}",
        "question": "Why?",
        "answer": answer,
        "supporting_facts": [[titles[d], s] for d, s in places],
        "context": [[title, ["A sentence."] * sentences] for title in titles],
    }


def every_place():
    return list(itertools.product(range(2), range(3)))


def by_hand(records, places):
    """Mean F1 of supporting sentences, from the definition."""
    total = 0.0
    for r in records:
        titles = [title for title, _ in r["context"]]
        gold = {(titles.index(title), s) for title, s in r["supporting_facts"]}
        both = len(gold & set(places))
        total += 2 * both / (len(gold) + len(places))
    return total / len(records)


def test_the_places_are_the_best_of_all_subsets_where_one_place_is_frequent():
    gold = [[(0, 1), (1, 2)], [(0, 1), (1, 1)], [(0, 1), (1, 2)], [(0, 1), (0, 2)]]
    records = [record(i, "x", places) for i, places in enumerate(gold)]
    places = every_place()
    subsets = itertools.chain.from_iterable(
        itertools.combinations(places, n) for n in range(1, len(places) + 1)
    )
    best = max(by_hand(records, subset) for subset in subsets)
    found = best_places(records)
    assert set(found) == {(0, 1), (1, 2)}
    assert by_hand(records, found) == pytest.approx(best)


def test_without_a_frequent_place_all_of_them_are_taken():
    records = [record(i, "x", [place]) for i, place in enumerate(every_place())]
    assert sorted(best_places(records)) == every_place()


def test_the_answer_is_the_most_frequent_and_the_gold_of_dev_is_not_looked_at():
    train = [record(i, a, [(0, 1)]) for i, a in enumerate(["no", "Rome", "no"])]
    dev = [record(7, "Rome", [(1, 2)]), record(8, "no", [(0, 1)])]
    blind = [{**r, "answer": "", "supporting_facts": []} for r in dev]
    guess = majority(train, blind)
    assert guess == {
        "answer": {"r7": "no", "r8": "no"},
        "sp": {"r7": [["T7.0", 1]], "r8": [["T8.0", 1]]},
    }
    scores = hotpotqa.score(dev, guess).metrics
    assert (scores["em"], scores["sp_f1"], scores["joint_f1"]) == (0.5, 0.5, 0.5)


def test_places_that_a_record_does_not_have_are_left_out():
    train = [record(0, "x", [(1, 2), (0, 0)])]
    dev = [
        record(1, "x", [], documents=1),
        record(2, "x", [], sentences=2),
    ]
    assert majority(train, dev)["sp"] == {"r1": [["T1.0", 0]], "r2": [["T2.0", 0]]}


def test_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        majority([], [])


def told(number, answer, support, *sentences):
    """A record of one document T, with the sentences of the places `support`."""
    facts = [["T", i] for i in support]
    context = [["T", list(sentences)]]
    record = {"_id": f"r{number}", "answer": answer, "supporting_facts": facts}
    return {**record, "question": "Why?", "context": context}


def test_without_names_sentences_are_chosen_by_their_other_words():
    texts = ("Ann is old.", " Ann likes Bob Roe.", " Ann lives in Rome.")
    train = [told(0, "Rome", [1, 2], *texts)]
    new = (
        "Kim lives in Oslo.",
        " Kim likes Joe.",
        " Kim is old.",
        " Al lives in Ulm.",
    )
    assert without_names(train, [told(1, "", [], *new), told(2, "", [], "No.")]) == {
        "answer": {"r1": "Oslo", "r2": ""},
        "sp": {"r1": [["T", 0], ["T", 1], ["T", 3]], "r2": []},
    }
