"""A few records on the command line."""

import io
import json
import os
import re
import threading
import types

import finetuned_run
import pytest

from etc_jax.cli import evaluate, predict

COUNT = 8  # one batch on the devices of the tests
# What is said of records that the models have no room for.
CUT = {
    name: f"etc-jax predict: {cut} of 8 records have more than the 256 tokens that the "
    f"model reads, up to {longest}; they were cut\n"
    for name, cut, longest in (("hotpotqa", 5, 426), ("wikihop", 3, 370))
}


@pytest.fixture(scope="module", params=["hotpotqa", "wikihop", "openkp"])
def name(request):
    return request.param


@pytest.fixture(scope="module")
def run(name, tmp_path_factory):
    made = finetuned_run.config(name)
    return finetuned_run.save_run(tmp_path_factory.mktemp("run"), made)


@pytest.fixture(scope="module")
def records(name):
    """Without what is to be found out."""
    hidden = ("answer", "supporting_facts", "KeyPhrases")
    return [
        {k: v for k, v in record.items() if k not in hidden}
        for record in finetuned_run.records(name, COUNT)
    ]


@pytest.fixture
def ask(run, capsys, monkeypatch):
    """Runs the command; gives (exit code, standard output, standard error)."""

    def ask(*argv, stdin=None):
        if stdin is not None:
            stream = types.SimpleNamespace(
                buffer=io.BytesIO(stdin.encode()), isatty=lambda: False
            )
            monkeypatch.setattr("sys.stdin", stream)
        code = predict.main([f"--model={run}", *map(str, argv)])
        return code, *capsys.readouterr()

    return ask


def told(out):
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.full(but=["openkp"])
def test_answers_are_those_of_the_evaluation(name, run, records, ask, tmp_path, capsys):
    file = finetuned_run.write_records(tmp_path, name, records)
    argv = [f"--model={run}", f"--out={tmp_path / 'out'}", file]
    assert evaluate.main(argv) == 0
    [written] = (tmp_path / "out").glob("predictions.*")
    want = [json.loads(line) for line in written.read_text().splitlines()]
    capsys.readouterr()
    code, out, err = ask("--json", file)
    assert (code, err) == (0, CUT.get(name, ""))
    if name == "openkp":  # its file has an object a line
        phrases = {line["url"]: line["KeyPhrases"] for line in want}
    else:
        [want] = want
    for got, record in zip(told(out), records, strict=True):
        if name == "openkp":
            given = [" ".join(phrase) for phrase in phrases[record["url"]]]
            assert len(given) == 5 and got["answer"] == ", ".join(given)
            assert sorted(c["text"] for c in got["candidates"]) == sorted(given)
            assert 0 < sum(c["probability"] for c in got["candidates"]) <= 1
            continue
        assert got["question"] == record.get("question", record.get("query"))
        if name == "wikihop":
            assert got["answer"] == want[got["id"]]
            assert sorted(c["text"] for c in got["candidates"]) == sorted(
                record["candidates"]
            )
            odds = [c["probability"] for c in got["candidates"]]
            assert odds == sorted(odds, reverse=True)
            assert sum(odds) == pytest.approx(1.0, abs=1e-9)
        else:
            assert got["answer"] == want["answer"][got["id"]]
            facts = [[s["title"], s["sentence"]] for s in got["support"]]
            assert sorted(facts) == sorted(want["sp"][got["id"]])
            assert all(s["probability"] >= 0.4 for s in got["support"])
            texts = dict(record["context"])
            for s in got["support"]:
                assert texts[s["title"]][s["sentence"]] == s["text"]


@pytest.mark.full(but=["hotpotqa"])
def test_the_form_of_the_input_does_not_matter(records, ask, tmp_path):
    file = finetuned_run.write(tmp_path / "array.json", records)
    want = ask("--json", file)[1]
    lines = "\n".join(map(json.dumps, records))
    assert ask("--json", stdin=lines)[1] == want
    assert ask("--json", "-", stdin=json.dumps(records))[1] == want
    one = finetuned_run.write(tmp_path / "one.json", records[0])
    rest = "\n\n".join(json.dumps(r, indent=2) for r in records[1:])
    assert ask("--json", one, "-", stdin=rest)[1] == want


def test_a_person_reads_question_answer_and_grounds(name, records, ask, tmp_path):
    file = finetuned_run.write(tmp_path / "r.json", records)
    got = told(ask("--json", file)[1])
    code, out, _ = ask(file)
    flat = " ".join(out.split())
    assert code == 0
    for one in got:
        assert f"question {one['question']} answer {one['answer']}" in flat
    for s in got[0].get("support", ()):
        line = f"{s['probability']:.0%} {s['title']}: {s['text'].strip()}"
        assert line in flat
    if name != "hotpotqa":
        best = got[0]["candidates"][0]
        assert f"{best['probability']:.0%} {best['text']}" in flat


def test_a_bad_record_does_not_stop_the_others(name, records, ask, tmp_path):
    bad = dict(records[1])
    del bad[{"hotpotqa": "question", "wikihop": "query", "openkp": "text"}[name]]
    file = finetuned_run.write(tmp_path / "r.json", [records[0], bad, *records[2:]])
    code, out, err = ask("--json", file)
    keys = ("id", "_id", "url")
    ids = [next(v for k, v in r.items() if k in keys) for r in records]
    assert code == 0 and [x["id"] for x in told(out)] == [ids[0], *ids[2:]]
    assert f"{file}, record 2: missing field" in err
    assert err.count("\n") == 1 + (name in CUT)


def test_nothing_to_answer_is_an_error(name, ask, tmp_path):
    code, out, err = ask(tmp_path / "none.json", "-", stdin='{"_id": "x"')
    assert (code, out) == (2, "")
    assert "none.json cannot be read" in err
    assert "standard input, line 1 is not JSON" in err
    assert "no record that could be answered" in err


def test_a_page_is_written(name, records, ask, tmp_path):
    file = finetuned_run.write(tmp_path / "r.json", records)
    page = tmp_path / "page.html"
    code, out, err = ask(f"--html={page}", file)
    assert (code, err) == (0, CUT.get(name, ""))
    assert out == f"{COUNT} records answered\nwrote {page}, for a browser\n"
    text = page.read_text()
    assert text.count("<article") == COUNT and text.count("<script") == 1
    assert "Wrong" not in text and f"step {finetuned_run.STEP}" in text
    code, _, err = ask(f"--html={tmp_path / 'no' / 'page.html'}", file)
    assert code == 2 and "there is no folder" in err


def test_a_page_judges_what_has_gold_answers(name, run, ask, tmp_path, capsys):
    values = finetuned_run.records(name, COUNT)
    file = finetuned_run.write_records(tmp_path, name, values)
    out, page = tmp_path / "out", tmp_path / "page.html"
    threshold = ["--threshold=0.4"] if name == "hotpotqa" else []
    assert evaluate.main([f"--model={run}", f"--out={out}", *threshold, file]) == 0
    metrics = json.loads((out / "scores.json").read_text())["metrics"]
    report = capsys.readouterr().out
    code, told, err = ask(f"--html={page}", file)
    assert (code, err) == (0, CUT.get(name, ""))
    # The same report, line by line.
    assert all(line in report for line in told.splitlines()[1:-1]) and len(told) > 80
    text = page.read_text()
    head = text.partition("</header>")[0]
    shown = dict(re.findall(r"<dt>([^<]*)</dt><dd>([\d.]+)%</dd>", head))
    assert shown == {k: f"{100 * x:.1f}" for k, x in metrics.items()}
    states = re.findall(r'data-state="(\w+)"', text)
    order = ["wrong", "partly", "right"]
    assert len(states) == COUNT and states == sorted(states, key=order.index)
    if name == "wikihop":
        assert states.count("right") == round(metrics["accuracy"] * COUNT)
    if name == "openkp":
        assert "partly" in states


def test_a_page_goes_through_a_pipe_that_stays_one(records, ask, tmp_path):
    file = finetuned_run.write(tmp_path / "r.json", records[:1])
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_text()))
    reader.start()
    code, _, _ = ask(f"--html={pipe}", file)
    reader.join()
    assert code == 0 and pipe.is_fifo() and got[0].count("<article") == 1


def test_the_threshold_decides_what_supports(name, records, ask, tmp_path):
    file = finetuned_run.write(tmp_path / "r.json", records)
    code, out, err = ask("--json", "--threshold=0.9", file)
    if name != "hotpotqa":
        assert code == 2 and f"{name} has none" in err
        return
    strict, usual = told(out), told(ask("--json", file)[1])
    numbers = [[sum(len(x["support"]) for x in some)] for some in (strict, usual)]
    assert 0 < numbers[0][0] < numbers[1][0]
