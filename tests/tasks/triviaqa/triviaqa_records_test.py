"""TriviaQA's official files: both tracks, and everything that can be wrong."""

import gzip
import json

import pytest
import triviaqa_samples
from golden_data import require_shared

from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.prediction.raw_records import read_inputs
from etc_jax.scoring import triviaqa as scoring
from etc_jax.tasks import triviaqa as tq

TQ_TASK = tq.DATA_SET.in_format()

ANSWER = {"Aliases": ["Ann Lee"], "NormalizedAliases": ["ann lee", "lee"]}
MILL, LEE = "Old_Mill.txt", "Ann_Lee.txt"
TEXTS = {
    f"wikipedia/{MILL}": "The Old Mill was built by Ann Lee.",
    f"wikipedia/{LEE}": "Ann Lee was a baker.",
    "web/1/1_2.txt": "Mills of the world.",
}


def question(**changes):
    value = {
        "Question": "Who built the mill?",
        "QuestionId": "tc_1",
        "QuestionSource": "http://example.org",
        "EntityPages": [{"Filename": MILL, "Title": "Old Mill"}, {"Filename": LEE}],
        "Answer": ANSWER,
    }
    return {k: v for k, v in {**value, **changes}.items() if v is not None}


def release(folder, questions, domain="Wikipedia", texts=TEXTS, **more):
    return triviaqa_samples.release(folder, questions, domain, texts, **more)


def read_all(path, **options):
    problems = Problems()
    return list(tq.records.read([path], problems, **options)), problems


def test_a_question_of_the_wikipedia_track_has_all_of_its_documents(tmp_path):
    answer = {**ANSWER, "HumanAnswers": ["Mrs. Lee"]}
    [got], problems = read_all(release(tmp_path, [question(Answer=answer)]))
    assert (got.id, got.question) == ("tc_1", "Who built the mill?")
    assert got.aliases == ("ann lee", "lee", "Mrs. Lee")
    assert got.documents == (
        (MILL, "The Old Mill was built by Ann Lee."),
        (LEE, "Ann Lee was a baker."),
    )
    assert not problems.counts and problems.read == 1


def test_predict_takes_official_files_and_questions_with_their_texts(tmp_path):
    bad = question(QuestionId="tc_2", EntityPages=[{"Filename": 1}])
    path = release(tmp_path, [question(), bad])
    first, second = read_inputs([str(path)], TQ_TASK.release)
    assert "record 2" in second.where and "Filename' is int '1'" in second.fault
    [wanted], _ = read_all(path)
    own = tmp_path / "own.json"
    for value in (first.value, [first.value]):
        own.write_text(json.dumps(value))
        [raw] = read_inputs([str(own)], TQ_TASK.release)
        for got in (first, raw):
            assert tq.records.parse(got.value, lambda kind, message: None) == wanted
    [gone] = read_inputs([str(tmp_path / "gone.json")], TQ_TASK.release)
    assert "No such file" in gone.fault


def test_the_web_track_has_a_record_for_each_document(tmp_path):
    found = [{"Filename": "1/1_2.txt", "Title": "Mills", "Rank": 0}]
    path = release(tmp_path, [question(SearchResults=found)], domain="Web")
    got, problems = read_all(path)
    assert [r.id for r in got] == [
        f"tc_1--{MILL}",
        f"tc_1--{LEE}",
        "tc_1--1/1_2.txt",
    ]
    # The keys of the official metric, in its order.
    assert [r.id for r in got] == list(scoring.truths_of(json.loads(path.read_text())))
    assert [len(r.documents) for r in got] == [1, 1, 1]
    assert got[2].documents[0].text == "Mills of the world."
    assert not problems.counts


def verified_release(folder, domain, verified=True):
    """Two questions, of which the first is verified, as one of its documents is."""
    flags = ("QuestionPartOfVerifiedEval", "DocPartOfVerifiedEval")
    pages = [
        {"Filename": MILL, flags[1]: False},
        {"Filename": LEE, flags[1]: True},
    ]
    questions = [
        question(EntityPages=pages, QuestionId=name, **{flags[0]: name == "tc_1"})
        for name in ("tc_1", "tc_2")
    ]
    return release(folder, questions, domain, VerifiedEval=verified)


@pytest.mark.parametrize(
    "domain, want, count",
    [("Wikipedia", {"tc_1": [MILL, LEE]}, 2), ("Web", {f"tc_1--{LEE}": [LEE]}, 4)],
)
def test_of_a_verified_set_the_rest_is_passed_over(tmp_path, domain, want, count):
    path = verified_release(tmp_path, domain)
    got, problems = read_all(path)
    assert {r.id: [d.name for d in r.documents] for r in got} == want
    assert set(scoring.truths_of(json.loads(path.read_text()))) == set(want)
    assert set(problems.counts) == {"not verified"} and not problems.lost
    # Elsewhere the flags mean nothing.
    path = verified_release(tmp_path, domain, verified=False)
    assert len(read_all(path)[0]) == count


def test_a_verified_set_has_to_say_what_is_verified(tmp_path):
    path = release(tmp_path, [question()], VerifiedEval=True)
    _, problems = read_all(path)
    [message] = problems.messages["missing field"]
    assert "no 'QuestionPartOfVerifiedEval'" in message
    with pytest.raises(ValueError, match="no field 'QuestionPartOfVerifiedEval'"):
        scoring.truths_of(json.loads(path.read_text()))


def test_evidence_may_lie_elsewhere(tmp_path):
    path = release(tmp_path / "there", [question()])
    moved = tmp_path / "moved"
    (path.parent.parent / "evidence").rename(moved)
    with pytest.raises(NotADirectoryError, match="no folder .*evidence; unpack"):
        read_all(path)
    [got], _ = read_all(path, evidence=moved)
    assert len(got.documents) == 2


@pytest.mark.parametrize("domain", ["Wikipedia", "Web"])
def test_a_missing_document_is_named_and_the_others_are_read(tmp_path, domain):
    pages = [{"Filename": "Gone.txt"}, {"Filename": MILL}]
    got, problems = read_all(release(tmp_path, [question(EntityPages=pages)], domain))
    assert [[d.name for d in r.documents] for r in got] == [[MILL]]
    assert problems.counts == {"missing evidence": 1}
    # In the web track the pair is a record, which is lost.
    assert problems.lost == (domain == "Web")
    [message] = problems.messages["missing evidence"]
    place = str(tmp_path / "evidence" / "wikipedia" / "Gone.txt")
    assert "dev.json, record 1: 'tc_1" in message and place in message


@pytest.mark.parametrize("domain", ["Wikipedia", "Web"])
def test_a_document_that_is_listed_twice_is_read_once(tmp_path, domain):
    pages = [{"Filename": MILL}, {"Filename": MILL}]
    got, problems = read_all(release(tmp_path, [question(EntityPages=pages)], domain))
    assert [[d.name for d in r.documents] for r in got] == [[MILL]]
    assert problems.counts == {"document twice": 1} and not problems.lost


@pytest.mark.parametrize(
    "changes, kind, message",
    [
        ({"Question": " "}, "empty field", "'Question' is blank"),
        ({"QuestionId": None}, "missing field", "no 'QuestionId'"),
        ({"EntityPages": []}, "no document", "'tc_2' has none"),
        ({"EntityPages": None}, "no document", "'tc_2' has none"),
        ({"EntityPages": {}}, "wrong type", "'EntityPages' is dict '{}'"),
        ({"EntityPages": ["x"]}, "wrong type", "str 'x', expected an object"),
        ({"EntityPages": [{}]}, "missing field", "no 'EntityPages[0].Filename'"),
        ({"EntityPages": [{"Filename": "x"}]}, "missing evidence", "wikipedia/x;"),
        ({"EntityPages": [{"Filename": "../x"}]}, "wrong file name", "'../x' is not"),
        ({"EntityPages": [{"Filename": "/x"}]}, "wrong file name", "'/x' is not"),
        ({"EntityPages": [{"Filename": "a\0"}]}, "wrong file name", "'a\\x00' is not"),
        (
            {"EntityPages": [{"Filename": "."}]},
            "missing evidence",
            "evidence/wikipedia;",
        ),
        ({"EntityPages": [{"Filename": "blank"}]}, "empty document", "is blank"),
        ({"EntityPages": [{"Filename": "bytes"}]}, "broken evidence", "not UTF-8"),
        ({"Answer": []}, "wrong type", "'Answer' is list"),
        ({"Answer": {}}, "bad answer", "'tc_2': no field 'NormalizedAliases'"),
        ({"Answer": {"NormalizedAliases": []}}, "bad answer", "at least one alias"),
        ({"Answer": {"NormalizedAliases": [3]}}, "bad answer", "text expected"),
    ],
)
def test_a_bad_question_is_named(tmp_path, changes, kind, message):
    bad = question(**{"QuestionId": "tc_2", **changes})
    texts = {**TEXTS, "wikipedia/blank": " \n", "wikipedia/bytes": b"a\xff"}
    path = release(tmp_path, [question(), bad], texts=texts)
    got, problems = read_all(path)
    assert [r.id for r in got] == ["tc_1"] and problems.counts == {kind: 1}
    assert problems.lost == 1
    [text] = problems.messages[kind]
    assert text.startswith(f"{path}, record 2: ") and message in text
    with pytest.raises(BadRecordError, match="record 2"):
        list(tq.records.read([path]))


def test_a_question_that_is_no_object_is_named(tmp_path):
    got, problems = read_all(release(tmp_path, ["?", question()]))
    assert len(got) == 1 and problems.counts == {"wrong type": 1}


def test_files_of_something_else_are_named(tmp_path):
    _, problems = read_all(release(tmp_path, [question()], domain="News"))
    [text] = problems.messages["unknown domain"]
    assert "'Domain' is 'News', expected 'Wikipedia' or 'Web'" in text
    _, problems = read_all(release(tmp_path, []))
    assert "dev.json: no 'Data' with questions" in problems.report()
    path = tmp_path / "qa" / "dev.json"
    path.write_text("[1]")
    _, problems = read_all(path)
    assert problems.counts == {"broken JSON": 1} and "expected '{'" in str(problems)


@pytest.mark.parametrize(
    "change, kind",
    [
        (lambda text: text[:-5], "file cut short"),
        (lambda text: text[: len(text) // 2], "file cut short"),
        (lambda text: text.replace('"Data":', '"Data"', 1), "broken JSON"),
        (lambda text: f"{text} x", "text after the end"),
    ],
)
def test_a_file_that_is_not_whole_is_named(tmp_path, change, kind):
    path = release(tmp_path, [question()])
    path.write_text(change(path.read_text()))
    got, problems = read_all(path)
    assert not got and problems.counts == {kind: 1}
    assert str(path) in problems.messages[kind][0]


def test_a_domain_before_the_questions_and_gzip_are_read_too(tmp_path):
    path = release(tmp_path, [question()])
    value = json.loads(path.read_text())
    packed = path.with_name("dev.json.gz")
    turned = {"Domain": value["Domain"], "Data": value["Data"]}
    packed.write_bytes(gzip.compress(json.dumps(turned).encode()))
    [got], problems = read_all(packed)
    assert got.id == "tc_1" and not problems.counts


def test_a_question_with_its_texts_is_a_record():
    value = question(Documents=[{"Filename": "a", "Text": "Ann Lee."}])
    got = tq.records.parse(value, lambda kind, message: pytest.fail(message))
    assert got.documents == (("a", "Ann Lee."),)
    with pytest.raises(BadRecordError, match="no 'Documents'"):
        tq.records.parse(question(), lambda kind, message: None)


REAL = ["web-dev", "web-train", "wikipedia-dev", "wikipedia-train"]


@pytest.mark.parametrize("name", REAL)
def test_real_files_are_read_whole(name):
    folder = require_shared("data/triviaqa")
    path = folder / "qa" / f"{name}.json"
    release = json.loads(path.read_text(encoding="utf-8"))
    got, problems = read_all(path)
    assert not problems.counts
    files = {
        q["QuestionId"]: [
            (folder / "evidence" / kind / page["Filename"], page["Filename"])
            for field, kind in (("EntityPages", "wikipedia"), ("SearchResults", "web"))
            for page in q.get(field, [])
        ]
        for q in release["Data"]
    }
    by_id = {r.id: r for r in got}
    assert {k: set(r.aliases) for k, r in by_id.items()} == {
        k: set(x) for k, x in scoring.truths_of(release).items()
    }
    if release["Domain"] == "Wikipedia":
        want = {k: [p.read_text("utf-8") for p, _ in x] for k, x in files.items()}
    else:
        want = {
            f"{k}--{n}": [p.read_text("utf-8")] for k, x in files.items() for p, n in x
        }
    assert {k: [d.text for d in r.documents] for k, r in by_id.items()} == want
