"""The leaderboard's file and the scores of all seven data sets."""

import csv
import json
import re
import zipfile

import pytest
from text_sets import lines_of, scrolls_lines

from etc_jax.scoring.scrolls import AVERAGED
from etc_jax.tasks.scrolls import submission
from etc_jax.tasks.scrolls.submission import main

ORDER = "qmsum qasper summ_screen_fd quality narrative_qa contract_nli gov_report"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Archives of all seven, and evaluations with right texts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    for name in AVERAGED:
        lines = scrolls_lines(name)
        hidden = [{**line, "output": None} for line in lines]
        with zipfile.ZipFile(f"data/{name}.zip", "w") as archive:
            archive.writestr(f"{name}/validation.jsonl", lines_of(lines))
            archive.writestr(f"{name}/test.jsonl", lines_of(hidden))
        write(
            tmp_path, name, {f"{name}_0": "lee did it", f"{name}_1": "Ann Lee did so"}
        )
    return tmp_path


def write(folder, name, predictions):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "predictions.json").write_text(json.dumps(predictions))


FLAGS = ["--data=data", *(f"--{name}={name}" for name in AVERAGED)]


def refused(capsys, *flags):
    assert main(flags) == 2
    return capsys.readouterr().err


def test_the_file_of_the_leaderboard_is_as_the_official_script_writes_it(place, capsys):
    texts = ['said "x", then\nno', "two\rlines", "", " mühle ", "a", "b", "c"]
    for name, text in zip(ORDER.split(), texts, strict=True):
        write(place, name, {f"{name}_1": "NA", f"{name}_0": text})
    assert main([*FLAGS, "--out=out.csv"]) == 0
    assert "wrote 14 predictions to out.csv" in capsys.readouterr().out
    begin = (
        "Task,ID,Prediction\n"
        "qmsum,qmsum_1,NA\n"
        'qmsum,qmsum_0,"said ""x"", then\nno"\n'
        "qasper,qasper_1,NA\n"
        'qasper,qasper_0,"two\rlines"\n'
        "summ_screen_fd,summ_screen_fd_1,NA\n"
        "summ_screen_fd,summ_screen_fd_0,\n"
        "quality,quality_1,NA\n"
        "quality,quality_0, mühle \n"
    )
    assert (place / "out.csv").read_bytes().decode().startswith(begin)
    with open("out.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))[1:]
    assert [row[0] for row in rows] == [x for x in ORDER.split() for _ in range(2)]
    assert [row[2] for row in rows if row[1].endswith("_0")] == texts


def test_scores_of_all_seven_and_their_average_are_shown(place, capsys):
    pytest.importorskip("rouge_score")
    # Not a word is right of one of two: 50 per cent.
    write(place, "quality", {"quality_0": "Ann Lee did so.", "quality_1": "no"})
    write(place, "qasper", {"qasper_0": "lee", "qasper_1": "Ann Lee did so"})
    assert main([*FLAGS, "--split=validation"]) == 0
    shown = dict(x.split() for x in capsys.readouterr().out.splitlines())
    # F1 of one of three words: 2 / 4.
    want = dict.fromkeys(AVERAGED, 100.0) | {"quality": 50.0, "qasper": 75.0}
    want["average"] = round(625 / 7, 4)
    assert {name: float(x) for name, x in shown.items()} == want


def test_hard_questions_are_shown_and_not_averaged(place, capsys):
    lines = scrolls_lines("quality")
    lines = [{**line, "is_hard": line["id"] == "quality_1"} for line in lines]
    (place / "data" / "quality").mkdir()
    (place / "data" / "quality.zip").unlink()
    (place / "data" / "quality" / "validation.jsonl").write_text(lines_of(lines))
    write(place, "quality", {"quality_0": "no", "quality_1": "ann lee did so"})
    flags = ["--data=data", "--split=validation", "--quality=quality"]
    assert main(flags) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [x.split() for x in shown] == [
        ["quality", "50.0000"],
        ["quality_hard", "100.0000"],
    ]


def test_of_test_data_there_are_no_scores(place, capsys):
    assert main(["--data=data", "--qasper=qasper/predictions.json"]) == 0
    assert "test has no outputs" in capsys.readouterr().out


@pytest.mark.parametrize(
    "predictions, message",
    [
        ({"qasper_0": "a"}, "qasper: .* have no prediction.*'qasper_1'"),
        ({"qasper_0": "a", "qasper_1": "b", "x": "c"}, "qasper: .*no gold record.*'x'"),
        ({"qasper_0": "a", "qasper_1": 3}, "prediction of 'qasper_1'.*text expected"),
        ([], "predictions.json.*: an object expected"),
    ],
)
def test_predictions_that_are_not_those_of_the_split_are_refused(
    place, capsys, predictions, message
):
    write(place, "qasper", predictions)
    said = refused(capsys, *FLAGS, "--out=out.csv")
    assert re.search(message, said), said
    assert not (place / "out.csv").exists()


def test_a_submission_has_all_seven(place, capsys):
    said = refused(capsys, *FLAGS[:-1], "--out=out.csv")
    assert "no predictions of contract_nli; a submission has all of" in said
    assert "give --qmsum=FOLDER" in refused(capsys, "--data=data")
    (place / "data" / "qmsum.zip").unlink()
    assert "data/qmsum/test.jsonl" in refused(capsys, *FLAGS)


def test_a_file_that_is_there_is_not_replaced_unless_asked(place, capsys):
    (place / "out.csv").write_text("mine")
    assert "out.csv exists" in refused(capsys, *FLAGS, "--out=out.csv")
    assert main([*FLAGS, "--out=out.csv", "--overwrite"]) == 0
    assert (place / "out.csv").read_text() != "mine"


def test_a_split_with_some_outputs_is_refused(place):
    (place / "data" / "qasper.zip").unlink()
    (place / "data" / "qasper").mkdir()
    lines = scrolls_lines("qasper")
    lines[-1]["output"] = None
    (place / "data" / "qasper" / "test.jsonl").write_text(lines_of(lines))
    with pytest.raises(ValueError, match="1 of 2 ids have no output"):
        submission.read_split(place / "data", "qasper", "test")
