"""Coreference in JSON lines: the same documents as in columns, and what is refused."""

import json

from coreference_samples import MILL, VALUE, conll_2012, record_of, write_text

from etc_jax.datasets.records import Problems
from etc_jax.tasks import coreference
from etc_jax.tasks.coreference.writing import main, write


def parse(**changes):
    notes = []
    value = {k: x for k, x in {**VALUE, **changes}.items() if x is not None}
    record = coreference.parse(value, lambda *note: notes.append(note))
    return record, notes


def test_a_document_is_that_of_the_columns(tmp_path):
    record, notes = parse()
    columns = record_of(tmp_path, conll_2012(MILL))
    assert not notes and record.id == VALUE["doc_key"]
    assert (record.document, record.part) == (columns.document, "0")
    assert record.sentences == columns.sentences
    assert record.speakers == columns.speakers
    # The columns have what is mentioned once, too.
    assert record.clusters == tuple(c for c in columns.clusters if len(c) > 1)


def test_both_forms_are_read_from_files(tmp_path):
    lines = tmp_path / "dev.jsonlines"
    lines.write_text(json.dumps(VALUE) + "\n")
    columns = write_text(tmp_path, conll_2012(MILL))
    problems = Problems()
    found = list(coreference.read([lines, columns], problems))
    assert not problems.counts
    assert [r.id for r in found] == [VALUE["doc_key"], "(bn/a/00/a_0001); part 000"]


def test_a_response_is_headed_as_the_scorer_wants_it(tmp_path):
    record, _ = parse()
    write({record.id: record.clusters}, [record], tmp_path / "response")
    [got] = coreference.read([tmp_path / "response"])
    assert got.id == "(bn/a/00/a_0001); part 0" and got.clusters == record.clusters


def test_what_is_left_out():
    record, notes = parse(clusters=None, speakers=None)
    assert record.clusters is None and record.speakers == (None,) * 3 and not notes
    record, _ = parse(doc_key="whole", clusters=[])
    assert (record.document, record.part, record.clusters) == ("whole", "0", ())


def test_a_second_speaker_is_noted():
    speakers = [["Ann", "Bo", *"xyz"], *VALUE["speakers"][1:]]
    record, notes = parse(speakers=speakers)
    assert record.speakers[0] == "Ann"
    assert [kind for kind, _ in notes] == ["two speakers in a sentence"]


def test_the_command_writes_a_response_of_predictions(tmp_path, capsys):
    files = tmp_path / "dev.jsonl"
    files.write_text(json.dumps(VALUE) + "\n")
    given, out = tmp_path / "predictions.json", tmp_path / "response"
    given.write_text(json.dumps({VALUE["doc_key"]: VALUE["clusters"][:1]}))
    argv = [f"--predictions={given}", f"--out={out}", str(files)]
    assert main(argv) == 0 and capsys.readouterr().out == f"wrote {out}\n"
    [got] = coreference.read([out])
    assert got.clusters == (((0, 1), (5, 5), (9, 9)),)
    argv.append("--overwrite")
    given.write_text(json.dumps({"another": []}))
    assert main(argv) == 2
    assert "predictions for 1 ids without a record" in capsys.readouterr().err
    given.write_text("[]")
    assert main(argv) == 2
    assert "holds a list, expected clusters by document" in capsys.readouterr().err
