"""Invented long documents: what they tell, where, and what is asked of them."""

import random
import re

import pytest

from etc_jax.base import registry
from etc_jax.datasets import pairs
from etc_jax.datasets.task import find_task
from etc_jax.tasks.synthetic import names
from etc_jax.tasks.synthetic.long_documents import (
    AskedSizes,
    DocumentSizes,
    document,
    records,
)


def drawn(count=200, **sizes):
    return [
        document(random.Random(i), f"d{i}", DocumentSizes(**sizes))
        for i in range(count)
    ]


def words_before(made) -> list[int]:
    """Words before each fact."""
    return [
        len(" ".join(made.sentences[: made.sentences.index(fact.statement)]).split())
        for fact in made.facts
    ]


def test_a_document_tells_each_fact_once_and_nothing_else_of_it():
    for made in drawn(words=400, facts=6):
        words = made.text.split()
        assert 400 <= len(words) < 430
        for fact in made.facts:
            assert made.sentences.count(fact.statement) == 1
            plain = [word.strip(".,") for word in words]
            assert plain.count(fact.trade) == plain.count(fact.goods) == 1
        assert words_before(made) == sorted(words_before(made))
        assert made.summary == [
            f"The {fact.trade} sells {fact.goods}." for fact in made.facts
        ]


def test_facts_stand_anywhere_or_after_a_word():
    anywhere = [x for made in drawn(words=1000) for x in words_before(made)]
    # Of 800 places, uniform: four standard deviations of a share of a quarter.
    for quarter in range(4):
        share = sum(250 * quarter <= x < 250 * (quarter + 1) for x in anywhere) / 800
        assert abs(share - 0.25) < 0.062, quarter
    late = [x for made in drawn(words=1000, after=600) for x in words_before(made)]
    assert min(late) >= 600 and sum(x >= 800 for x in late) > 300


def test_sections_are_the_paragraphs_in_order():
    [made] = drawn(1, words=900)
    for count in (1, 3, 4, 100):
        sections = made.sections(count)
        assert len(sections) == count
        assert [x for section in sections for x in section] == made.paragraphs
    assert " ".join(made.paragraphs) == " ".join(made.sentences)


def test_a_question_is_answered_by_the_document_alone():
    asked = list(records(300, seed=0, sizes=AskedSizes(ask="question", words=200)))
    for item in asked:
        trade = item["prefix"].removeprefix("What does the ").removesuffix(" sell?")
        [sentence] = [s for s in item["input"].split(".") if trade in s.split()]
        assert item["target"] in sentence.split()
    # As often one as another: the question does not say it.
    shares = [sum(x["target"] == goods for x in asked) / 300 for goods in names.GOODS]
    assert max(shares) < 0.2


def test_a_summary_has_all_facts_in_one_wording():
    for item in records(20, seed=0, sizes=AskedSizes(words=300, facts=3)):
        record = pairs.parse(item, None)
        assert record.prefix is None and record.target.count("sells") == 3
        told = [s.split()[1] for s in record.target.split(". ")]
        assert sorted(told, key=record.input.index) == told


def test_summaries_by_trade_have_one_order_whatever_the_document_has():
    made = drawn(60, words=300, facts=3, trades=3, summary_by="trade")
    for one in made:
        assert [text.split()[1] for text in one.summary] == list(names.TRADES[:3])
        assert {fact.summary for fact in one.facts} == {*one.summary}
    # In a document the trades come in any of their six orders.
    assert len({tuple(fact.trade for fact in one.facts) for one in made}) == 6


def test_trades_may_have_goods_of_their_own():
    made = drawn(200, words=100, facts=2, trades=3, own_goods=True)
    sold = {trade: set() for trade in names.TRADES[:3]}
    for fact in (fact for one in made for fact in one.facts):
        sold[fact.trade].add(fact.goods)
    # A third of all goods each.
    assert [len(goods) for goods in sold.values()] == [5, 5, 5]
    assert set.union(*sold.values()) == {*names.GOODS}


@pytest.mark.parametrize(
    "sizes, said",
    [
        ({"facts": 4, "trades": 3}, "facts is 4; expected at most trades, 3"),
        ({"trades": 19}, "trades is 19; expected a whole number from 1 to 18"),
        ({"trades": 16, "own_goods": True}, "trades is 16; expected at most 15"),
        ({"summary_by": "name"}, "summary_by is 'name'; expected"),
    ],
)
def test_sizes_that_do_not_fit_are_named(sizes, said):
    with pytest.raises(ValueError, match=said):
        AskedSizes(**sizes)


@pytest.mark.parametrize("wordings", [1, 3])
def test_wordings_are_those_asked_for(wordings):
    beginnings = {
        fact.statement.split()[0]
        for made in drawn(30, wordings=wordings)
        for fact in made.facts
    }
    assert len(beginnings) == wordings


# --- files of data sets ---------------------------------------------------------------


def release(name, folder, count=20, **sizes):
    """(what a file of so many documents holds, records that its data set reads)."""
    maker = registry.lookup("invented_items", name)
    items = list(maker.records(count, seed=3, sizes=maker.sizes(**sizes)))
    path = folder / f"dev{'.jsonl.gz' if maker.lines else '.json.gz'}"
    maker.write(path, items)
    return items, list(find_task(name).read([path], None))


def test_papers_have_a_question_for_each_fact(tmp_path):
    papers, records = release("qasper", tmp_path, words=300, facts=3)
    assert len(records) == 60 and len({record.id for record in records}) == 60
    questions = [question for paper in papers for question in paper["qas"]]
    for record, question in zip(records, questions, strict=True):
        [answer] = (x["answer"] for x in question["answers"])
        [evidence], [statement] = answer["evidence"], answer["highlighted_evidence"]
        trade = record.prefix.removeprefix("What does the ").removesuffix(" sell?")
        assert f" {trade} " in statement and record.target in statement
        assert statement in evidence and evidence in record.input.split("\n")
        assert record.types == ("extractive",)
    # Each paper has four sections with their names.
    assert records[0].input.count("Market ::: Trades\n") == 1


def test_a_story_sums_up_in_the_order_of_its_summary(tmp_path):
    sizes = {"words": 200, "facts": 3, "trades": 3, "summary_by": "trade"}
    [story], _ = release("squality", tmp_path, 1, **sizes)
    [plot] = (x for x in story["questions"] if "plot" in x["question_text"])
    for response in plot["responses"]:
        words = response["response_text"].replace(".", " ").split()
        told = [word for word in words if word in names.TRADES[:3]]
        assert told == list(names.TRADES[:3])


def test_meetings_have_a_query_for_each_fact_and_one_for_all(tmp_path):
    meetings, records = release("qmsum", tmp_path, words=200, facts=3)
    assert len(records) == 80
    for i, meeting in enumerate(meetings):
        general, *specific = records[4 * i : 4 * i + 4]
        assert general.target.count("sells") == 3
        assert sorted(re.findall(r"[^.]+\.", general.target.replace(". ", "."))) == (
            sorted(record.target for record in specific)
        )
        turns = general.input.split("\n")
        for record, query in zip(specific, meeting["specific_query_list"], strict=True):
            [[first, last]] = query["relevant_text_span"]
            assert first == last and isinstance(first, str)
            goods = record.target.split()[-1].removesuffix(".")
            assert goods in turns[int(first)]
