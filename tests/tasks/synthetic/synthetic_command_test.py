"""The command that writes invented items."""

import gzip
import json
import re

import pytest

from etc_jax.base import registry
from etc_jax.data.text.sources import read_documents
from etc_jax.tasks.synthetic import (
    hotpotqa,
    natural_questions,
    openkp,
    wikihop,
)
from etc_jax.tasks.synthetic.__main__ import main
from etc_jax.tasks.synthetic.maker import write_records

# Made of two letters each, so that none is in another.
WORDS = tuple(2 * (a + b) for a in "bdfgk" for b in "aeiou")


def run(task, out, *more) -> int:
    return main([f"--task={task}", "--count=7", "--seed=3", f"--out={out}", *more])


def test_the_file_holds_the_records(tmp_path):
    assert run("hotpotqa", tmp_path / "h.json", "--hops=2-3", "--words=500") == 0
    sizes = hotpotqa.HotpotQaSizes(hops=(2, 3), words=500)
    want = list(hotpotqa.records(7, seed=3, sizes=sizes))
    assert json.loads((tmp_path / "h.json").read_text(encoding="utf-8")) == want


def test_all_sizes_of_wikihop_can_be_given(tmp_path):
    words = tmp_path / "names.txt"
    words.write_text("\n".join(WORDS) + "\n", "utf-8")
    more = (
        *("--contexts=7", "--facts=2", "--hops=1", "--pronouns=0", "--wordings=1"),
        *("--kinds=person,town", "--candidates=6", "--masked", "--through_candidates"),
        *("--start=4", "--words=200", f"--names={words}"),
    )
    assert run("wikihop", tmp_path / "w.json", *more) == 0
    sizes = wikihop.WikiHopSizes(
        contexts=7,
        facts=2,
        hops=(1, 1),
        pronouns=0,
        wordings=1,
        kinds=("person", "town"),
        candidates=6,
        masked=True,
        through_candidates=True,
        words=200,
        names=WORDS,
    )
    want = list(wikihop.records(7, seed=3, sizes=sizes, start=4))
    assert json.loads((tmp_path / "w.json").read_text(encoding="utf-8")) == want


def lines_of(content: bytes) -> list:
    return [json.loads(line) for line in content.decode("utf-8").splitlines()]


def test_articles_are_lines_of_a_gzipped_file(tmp_path):
    more = ("--nulls=0.5", "--yes_no=0.2", "--long_only=0.1", "--annotators=5")
    more += ("--contexts=6", "--words=300", "--hops=1")
    sizes = natural_questions.NaturalQuestionsSizes(
        nulls=0.5,
        yes_no=0.2,
        long_only=0.1,
        annotators=5,
        contexts=6,
        words=300,
        hops=(1, 1),
    )
    want = list(natural_questions.records(7, seed=3, sizes=sizes))
    assert run("natural_questions", tmp_path / "n.jsonl.gz", *more) == 0
    packed = (tmp_path / "n.jsonl.gz").read_bytes()
    assert lines_of(gzip.decompress(packed)) == want
    assert run("natural_questions", tmp_path / "other.gz", *more) == 0
    assert (tmp_path / "other.gz").read_bytes() == packed


def test_pages_are_lines(tmp_path):
    more = ("--keyphrases=2-3", "--others=4", "--mentions=1", "--words=120")
    assert run("openkp", tmp_path / "k.jsonl", *more) == 0
    sizes = openkp.OpenkpSizes(keyphrases=(2, 3), others=4, mentions=1, words=120)
    want = list(openkp.records(7, seed=3, sizes=sizes))
    assert lines_of((tmp_path / "k.jsonl").read_bytes()) == want


def texts_of(record) -> list[str]:
    """What stands between question and answer, read off the fields of the release."""
    if "supports" in record:
        return record["supports"]
    if "context" in record:
        return ["".join(sentences) for _, sentences in record["context"]]
    if "document_html" in record:
        parts = re.findall(
            r"<(P|Table|Ul)> (.*?) </\1>", record["document_html"], flags=re.DOTALL
        )
        return [" ".join(re.sub(r"<.*?>", "", text).split()) for _, text in parts]
    return [record["text"]]


@pytest.mark.parametrize(
    "task", ["wikihop", "teachers", "hotpotqa", "natural_questions", "openkp"]
)
def test_documents_alone_are_texts_to_train_on(tmp_path, task):
    out = tmp_path / "texts.jsonl"
    assert run(task, out, "--texts") == 0
    maker = registry.lookup("invented_items", task)
    want = [texts_of(record) for record in maker.records(7, seed=3)]
    # A document a record, and its texts are paragraphs.
    source = list(read_documents([str(out)], format="jsonl"))
    assert [list(document.paragraphs) for document in source] == want


def test_a_file_that_exists_is_kept_unless_said(tmp_path, capsys):
    out = tmp_path / "h.json"
    out.write_text("mine")
    assert run("hotpotqa", out) == 2
    assert "h.json exists" in capsys.readouterr().err and out.read_text() == "mine"
    assert run("hotpotqa", out, "--overwrite") == 0
    assert len(json.loads(out.read_text(encoding="utf-8"))) == 7


@pytest.mark.parametrize(
    "task, more, message",
    [
        ("hotpotqa", "--count=0", "--count is 0; expected 1 or more"),
        ("hotpotqa", "--start=-1", "--start is -1; expected 0 or more"),
        ("hotpotqa", "--facts=5", "facts must be one of"),
        ("natural_questions", "--nulls=2", "1 at most in all"),
        ("openkp", "--keyphrases=1-4", "a range within 1 to 3"),
        ("wikihop", "--candidates=2", "candidates must be 4 to 100"),
        ("hotpotqa", "--out=/none/there/x.json", "a file in a folder that exists"),
        (
            "hotpotqa",
            "--task=chess",
            "no invented items named 'chess'; there are:",
        ),
    ],
)
def test_bad_arguments_are_named(tmp_path, capsys, task, more, message):
    assert run(task, tmp_path / "x.json", more) == 2
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "more, message",
    [
        ("--hops=2-x", "must be like 2 or 2-3, got '2-x'"),
        ("--count=many", "invalid int value"),
        ("--annotators", "there is no flag --annotators; see etc-jax synthetic --help"),
        ("--contxts=4", "there is no flag --contxts; did you mean '--contexts'?"),
        ("--split=train", "there is no flag --split"),
        ("--task=multiple_choice --texts", "there is no flag --texts"),
    ],
)
def test_arguments_of_a_wrong_form_are_named(tmp_path, capsys, more, message):
    with pytest.raises(SystemExit) as stop:
        run("hotpotqa", tmp_path / "x.json", *more.split())
    assert stop.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize(
    "path, message",
    [("/none/there", "--names: cannot be read"), ("/dev/null", "null holds no word")],
)
def test_names_that_cannot_be_read_are_an_error(tmp_path, capsys, path, message):
    assert run("hotpotqa", tmp_path / "x.json", f"--names={path}") == 2
    assert message in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_nothing_is_left_of_a_file_that_was_not_finished(tmp_path):
    def some():
        yield {"a": 1}
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        write_records(tmp_path / "x.json", some())
    assert list(tmp_path.iterdir()) == []


def test_no_records_are_an_empty_array(tmp_path):
    write_records(tmp_path / "x.json", iter(()))
    assert json.loads((tmp_path / "x.json").read_text()) == []
    write_records(tmp_path / "x.jsonl", iter(()), lines=True)
    assert (tmp_path / "x.jsonl").read_bytes() == b""


def test_pairs_of_texts_are_questions_with_documents_and_their_answers(tmp_path):
    assert run("text_to_text", tmp_path / "t.jsonl", "--contexts=3") == 0
    items = list(hotpotqa.records(7, seed=3, sizes=hotpotqa.HotpotQaSizes(contexts=3)))
    pairs = lines_of((tmp_path / "t.jsonl").read_bytes())
    for item, pair in zip(items, pairs, strict=True):
        question, *documents = pair["input"].split("\n")
        assert (question, pair["target"]) == (item["question"], item["answer"])
        titles = [title for title, _ in item["context"]]
        assert [d.partition(": ")[0] for d in documents] == titles
