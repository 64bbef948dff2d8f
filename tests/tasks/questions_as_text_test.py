"""Questions as text: what QMSum, Qasper, HotpotQA and SQuAD have of their own."""

import collections
import json

import pytest
from golden_data import require_shared
from multihop_samples import HOTPOT, write_json
from natural_questions_samples import write_lines
from text_sets import TEXT_SETS
from written_samples import write_release

from etc_jax.datasets import task as task_lib
from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.pairs import joined
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.scoring import qasper as qasper_scoring
from etc_jax.tasks.hotpotqa import records as hotpotqa
from etc_jax.tasks.hotpotqa_text import paragraphs_of
from etc_jax.tasks.multiple_choice.text_converter import pair_of
from etc_jax.tasks.squad import distractors
from etc_jax.tasks.squad.records import read as read_squad


def read(name, path, **options):
    """The records of a file in which nothing is wrong."""
    task = task_lib.find_task(name).with_options(options)
    return list(task.read([path], None))


def counted(name, path, **options):
    """(records, problems by kind, records that are lost)."""
    problems = Problems()
    task = task_lib.find_task(name).with_options(options)
    return list(task.read([path], problems)), dict(problems.counts), problems.lost


# --- QMSum ----------------------------------------------------------------------------


def test_marks_of_transcribers_stay_if_asked_for(tmp_path):
    path = TEXT_SETS["qmsum"].write(tmp_path)
    first, _ = read("qmsum", path, keep_marks=True)
    assert first.input.splitlines() == [
        "PhD A: The mill {disfmarker} burned . {gap}",
        "Ann: {vocalsound}",
        "Ann: I owned it .",
    ]


def test_a_query_that_is_wrong_costs_no_other(tmp_path):
    turns = [{"speaker": "A", "content": "The mill."}]
    queries = [{"query": "  ", "answer": "x"}, 3, {"query": "What?", "answer": "y"}]
    lists = {"general_query_list": [], "specific_query_list": queries}
    value = {"meeting_transcripts": turns, **lists}
    path = write_lines(tmp_path / "dev.jsonl", [value])
    records, counts, lost = counted("qmsum", path)
    assert [record.id for record in records] == ["dev:1:specific-3"]
    assert counts == {"empty field": 1, "wrong type": 1} and lost == 2


def _one_space(text):
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def test_real_meetings_are_those_of_scrolls_but_for_their_marks():
    path = require_shared("data/qmsum/val.slice.jsonl.gz")
    records = read("qmsum", path)
    assert len(records) == 166
    assert not any("{" in record.input for record in records)
    everything = {joined(x) for x in read("qmsum", path, keep_marks=True)}
    scrolls = require_shared("data/scrolls/qmsum/validation.derived.jsonl.gz")
    theirs = {_one_space(value["input"]) for _, value in read_lines(scrolls)}
    assert theirs and theirs <= everything


# --- Qasper ---------------------------------------------------------------------------


def test_answers_are_scored_as_the_official_script_does(tmp_path):
    path = TEXT_SETS["qasper"].write(tmp_path)
    task = task_lib.find_task("qasper")
    gold = [task.gold(record) for record in task.read([path], None)]
    texts = {"q1": "mills in Ton", "q2": "unanswerable", "q3": "it does"}
    lines = task.official(texts)
    predictions = {
        x["question_id"]: {
            "answer": x["predicted_answer"],
            "evidence": x["predicted_evidence"],
        }
        for x in lines
    }
    official = dict(
        qasper_scoring.score(json.loads(path.read_text()), predictions).metrics
    )
    del official["evidence_f1"]
    assert task.score(gold, lines).metrics == official
    assert task.prediction_file == "predictions.jsonl"
    # What could not be read counts as not answered: in no type.
    more = [*gold, task.unread_gold("lost")]
    metrics = task.score(more, task.official({**texts, "lost": ""})).metrics
    assert metrics == {
        **official,
        "answer_f1": pytest.approx(official["answer_f1"] * 3 / 4),
    }


def test_without_types_there_is_the_f1_of_all_alone():
    task = task_lib.find_task("qasper")
    value = {"id": "a", "input": "the mill", "target": "mill"}
    record = task.parse(value, lambda *note: None)
    assert record.types == ()
    scores = task.score([task.gold(record)], task.official({"a": "mill"}))
    assert scores.metrics == {"answer_f1": 1}


@pytest.mark.parametrize(
    "types, message",
    [(["none", "none"], "2 of 1 targets"), (["long"], "'long'; expected extractive")],
)
def test_types_are_those_of_the_targets(types, message):
    value = {"id": "a", "input": "the mill", "target": "mill", "types": types}
    with pytest.raises(BadRecordError, match=message):
        task_lib.find_task("qasper").parse(value, lambda *note: None)


def test_real_papers_are_read():
    path = require_shared("data/qasper/qasper-train-v0.1.slice.json")
    records = read("qasper", path)
    assert len(records) == 9 and len({record.input for record in records}) == 1
    assert records[0].input.startswith("Introduction\nAffective events")
    assert [len(record.references) for record in records[:4]] == [2, 1, 2, 2]
    assert records[4].target == "negative, positive"
    assert records[4].types == ("extractive",)
    # Questions of one id, as an early sample has them.
    sample = require_shared("data/qasper/qasper_sample_small.json")
    records, counts, lost = counted("qasper", sample)
    assert len(records) == 1 and counts == {"id twice": 3} and lost == 3


# --- HotpotQA -------------------------------------------------------------------------


def question(**changes):
    value = {k: x for k, x in {**HOTPOT, **changes}.items() if x is not None}
    return hotpotqa.parse(value, lambda *note: None)


def titles(record, which):
    return [x.title for x in paragraphs_of(record, which)]


def test_the_second_paragraph_is_the_one_with_the_answer():
    assert titles(question(), "all") == ["Old Mill", "Ton", "Ann Lee"]
    assert titles(question(), "gold") == ["Old Mill", "Ann Lee"]
    assert titles(question(), "second") == ["Ann Lee"]
    assert titles(question(answer="First owner"), "second") == ["Old Mill"]


@pytest.mark.parametrize("answer", ["no", "old mill"])
def test_where_neither_or_both_have_the_answer_one_is_drawn_by_the_id(answer):
    assert "no" not in str(HOTPOT["context"][::2]).lower()
    drawn = [
        titles(question(_id=str(i), answer=answer), "second")[0] for i in range(40)
    ]
    assert min(collections.Counter(drawn).values()) > 5 and len({*drawn}) == 2
    again = titles(question(_id="7", answer=answer, question="What?"), "second")
    assert again == [drawn[7]]


def test_of_two_paragraphs_with_one_title_the_first_is_read():
    context = [*HOTPOT["context"], ["Old Mill", ["Another one."]]]
    record = question(context=context)
    assert [x.sentences[0] for x in paragraphs_of(record, "gold")] == [
        "The Old Mill was built by its first owner.",
        "Ann Lee was a baker.",
    ]


@pytest.mark.parametrize(
    "which, changes, message",
    [
        ("gold", {"supporting_facts": None}, "paragraphs=all"),
        ("second", {"answer": None}, "give paragraphs=gold or all"),
        ("gold", {"supporting_facts": [["Nile", 0]]}, "one of 'Nile'"),
    ],
)
def test_paragraphs_that_cannot_be_told_are_refused(which, changes, message):
    with pytest.raises(BadRecordError, match=message):
        paragraphs_of(question(**changes), which)


def test_test_files_are_read_with_all_paragraphs(tmp_path):
    hidden = ("answer", "supporting_facts")
    value = {k: x for k, x in HOTPOT.items() if k not in hidden}
    path = write_json(tmp_path, [value], "test.json")
    [record] = read("hotpotqa_text", path, paragraphs="all")
    assert record.references is None and len(record.input.splitlines()) == 3
    counts = counted("hotpotqa_text", path)
    assert counts == ([], {"no supporting facts": 1}, 1)


def test_real_questions_have_two_gold_paragraphs():
    path = require_shared("data/hotpotqa/hotpot_dev_distractor_v1.slice.json")
    lines = {
        which: [
            len(x.input.splitlines())
            for x in read("hotpotqa_text", path, paragraphs=which)
        ]
        for which in ("all", "gold", "second")
    }
    assert {*lines["gold"]} == {2} and {*lines["second"]} == {1}
    assert len(lines["all"]) == 53 and max(lines["all"]) == 10


# --- SQuAD ----------------------------------------------------------------------------


def test_paragraphs_are_those_that_the_maker_of_files_draws(tmp_path):
    path = require_shared("data/squad/dev-v1.1.multiref.json.gz")
    how = {"distractors": 3, "draw_seed": 3}
    for order in ("ordered", "shuffled", "alone"):
        out = tmp_path / f"{order}.json"
        argv = [f"--order={order}", f"--out={out}", "--count=3", "--seed=3", str(path)]
        assert distractors.main(argv) == 0
        written = list(read_squad([out]))
        records = read("squad_distractors", path, **{**how, "order": order})
        assert [(x.id, x.prefix, x.input) for x in records] == [
            (x.id, x.question, x.context) for x in written
        ]
        assert [x.references for x in records] == [
            list(dict.fromkeys(answer.text for answer in x.answers)) for x in written
        ]


def test_questions_without_answers_are_counted(tmp_path):
    asked = {"title": "Mill", "question": "who?", "context": "The mill."}
    answers = [{"text": "mill", "answer_start": 2}]
    path = write_release(
        tmp_path,
        [
            {**asked, "id": "a", "answers": [], "is_impossible": True},
            {**asked, "id": "b", "title": "Pond", "context": "A frog."},
            {**asked, "id": "c", "answers": answers, "context": "A mill."},
        ],
    )
    [record], counts, lost = counted("squad_distractors", path, distractors=1)
    assert record.id == "c" and {*record.input.splitlines()} == {"A mill.", "A frog."}
    assert counts == {"no answer": 2} and lost == 2


def test_an_answer_of_a_letter_may_stand_within_words_of_others(tmp_path):
    asked = {"question": "which?", "context": "Class L is small."}
    answers = [{"text": "L", "answer_start": 6}]
    others = ["The mill.", "Class l again.", "A lake.", "No such one."]
    path = write_release(
        tmp_path,
        [
            {**asked, "id": "a", "title": "Classes", "answers": answers},
            *(
                {**asked, "id": x, "title": x, "context": x, "answers": answers}
                for x in others
            ),
        ],
    )
    for count in (1, 3, 4):
        records, counts, _ = counted(
            "squad_distractors", path, distractors=count, order="ordered"
        )
        drawn = {*records[0].input.splitlines()[1:]} if records else None
        # Without the letter, the one paragraph; then the two that have it in words.
        expected = {1: {"No such one."}, 3: {"The mill.", "A lake.", "No such one."}}
        assert drawn == expected.get(count), counts


def test_too_few_paragraphs_are_counted(tmp_path):
    path = TEXT_SETS["squad_distractors"].write(tmp_path)
    assert counted("squad_distractors", path) == ([], {"too few paragraphs": 2}, 2)


# --- QuALITY --------------------------------------------------------------------------


def test_a_question_with_options_has_the_words_that_scrolls_has():
    """White space before the article alone differs: caches know no other form."""
    path = require_shared("data/quality/quality.converted.htmlstripped.jsonl.gz")
    task = task_lib.find_task("multiple_choice", "text_to_text")
    records = {record.id: record for record in task.read([path], None)}
    scrolls = require_shared("data/scrolls/quality/validation.derived.jsonl.gz")
    rows = [value for _, value in read_lines(scrolls)]
    for row in rows:
        pair = pair_of(records[row["id"]])
        assert f"{pair.prefix}\n{pair.input}" == row["input"]
        assert joined(pair) == f"{pair.prefix} {pair.input}"
        assert pair.target == row["output"]
    assert len(rows) == 40
