"""Files of SQuAD for the benchmark: no article is on both sides."""

import gzip
import json

from benchmarks.rows import own_files


def articles(*titles):
    def question(i):
        return {"id": f"q{i}", "question": "x", "answers": []}

    return [
        {
            "title": t,
            "paragraphs": [{"context": "c", "qas": list(map(question, "123"))}],
        }
        for t in titles
    ]


def test_validation_articles_are_not_learnt_from(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"data": articles("a", "b", "c")}))
    packed = gzip.compress(json.dumps({"data": articles("b", "d")}).encode())
    (tmp_path / "b.json.gz").write_bytes(packed)
    args = own_files.COMMAND.options().parse_args(
        [
            *("--task=retrieval", "--bert=x", "--every=2", "--out=x.json"),
            *("--train", str(tmp_path / "a.json")),
            *("--validation", str(tmp_path / "b.json.gz")),
        ]
    )
    files = own_files.OwnFiles(args, (), tmp_path / "runs")
    [train], [validation] = files.files("train"), files.files("validation")
    with open(train) as file:
        assert [x["title"] for x in json.load(file)["data"]] == ["a", "c"]
    with open(validation) as file:
        kept = [x["paragraphs"][0]["qas"] for x in json.load(file)["data"]]
    # Every second of six.
    assert [[q["id"] for q in qas] for qas in kept] == [["q1", "q3"], ["q2"]]
