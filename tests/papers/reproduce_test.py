"""`etc-jax reproduce`: tables are listed, planned, filled by runs of one's own."""

import json
import signal
import subprocess
import sys

import limits
import pytest
from processes import clean_environment

from etc_jax.papers import __main__ as reproduce

ROW = "ETC: flat structure"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs the command; gives (exit code, what it printed, errors)."""
    monkeypatch.chdir(tmp_path)

    def call(*argv):
        code = reproduce.main([*argv])
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def test_all_tables_are_listed_with_what_is_done(run):
    code, printed, _ = run()
    lines = printed.splitlines()
    assert code == 0 and lines[0].split()[:3] == ["table", "rows", "run"]
    (line,) = (x for x in lines if x.startswith("etc.table2 "))
    assert line.split()[3:6] == ["15", "13", "0"]


def test_what_one_evaluated_is_a_row(run, tmp_path):
    dev = tmp_path / "dev"
    dev.mkdir()
    scores = {"task": "wikihop", "metrics": {"accuracy": 0.717}}
    (dev / "scores.json").write_text(json.dumps(scores))
    code, printed, _ = run("etc.table3", f"--row={ROW}", f"--from={dev}")
    assert code == 0
    (line,) = (x for x in printed.splitlines() if x.startswith(f"| {ROW} |"))
    cells = [x.strip() for x in line.split("|")]
    assert cells[-7:-2] == ["70.7", "71.7", "+1", "1", ""] and str(dev) in cells[-2]
    # Columns that no run has are the paper's alone.
    assert "ETC: - | 4096 | 166M | 0.751 | 0.869 | 73.2 |  |  |  |" in printed
    assert "not run" in printed
    kept = json.loads((tmp_path / "reproduced/etc.table3.paper.json").read_text())
    assert [x["figures"] for x in kept["runs"]] == [{"wikihop_acc": 71.7}]
    assert (tmp_path / "reproduced/etc.table3.paper.md").read_text().strip() in printed
    assert (tmp_path / "reproduced/etc.table3.paper.png").stat().st_size > 5000
    # The same command again puts the figure in the place of the one before.
    run("etc.table3", f"--row={ROW}", f"--from={dev}")
    again = json.loads((tmp_path / "reproduced/etc.table3.paper.json").read_text())
    assert again == kept


def test_a_table_without_figures_is_that_of_the_paper(run, tmp_path):
    code, printed, _ = run("sled.figure1")
    assert code == 0 and "not here" in printed
    assert (tmp_path / "reproduced/sled.figure1.paper.md").read_text() in printed


def test_counts_are_shown_whole(run, tmp_path):
    code, printed, _ = run("etc.table1")
    assert code == 0 and "| OpenKP | 133724 |  |  |  | 6610 |" in printed
    figures = {"training": 250000.0, "p95": 4546.5}
    values = {"runs": [{"row": "OpenKP", "seed": 0, "figures": figures}]}
    (tmp_path / "reproduced/etc.table1.paper.json").write_text(json.dumps(values))
    code, printed, _ = run("etc.table1")
    assert "| OpenKP | 133724 | 250000 | +116276 | 1 | 6610 |" in printed
    assert "| 4546 | 4546 | +0.5 | 1 |" in printed


@pytest.mark.parametrize(
    "argv, message",
    [
        (["etc.tables"], "there is no table 'etc.tables'"),
        (["etc.table3", "--row=ETC"], "has no row 'ETC'"),
        (["etc.table3", "--from=x"], "--from is of one row: give --row=NAME"),
        (["etc.table4", "--row=RoBERTa-JointKPE", "--run"], "not run at the paper"),
    ],
)
def test_what_is_wrong_is_told(run, argv, message):
    code, _, errors = run(*argv)
    assert code == 2 and message in errors


def test_scores_of_another_data_set_are_refused(run, tmp_path):
    dev = tmp_path / "dev"
    dev.mkdir()
    (dev / "scores.json").write_text('{"task": "imdb", "metrics": {}}')
    code, _, errors = run("etc.table3", f"--row={ROW}", f"--from={dev}")
    assert code == 2 and "expected an evaluation of hotpotqa, wikihop" in errors


@pytest.mark.full  # eight commands in processes of their own
def test_a_table_that_was_killed_goes_on_and_repeats_nothing(tmp_path):
    argv = ["etc.table1", "--scale=tiny", "--run", "--row=HotpotQA;WikiHop"]
    command = [sys.executable, "-m", "etc_jax", "reproduce", *argv]
    options = {"cwd": tmp_path, "env": clean_environment(), "text": True}
    marks = tmp_path / "reproduced/tiny/done"

    def finished():
        return {str(x.relative_to(marks))[:-5] for x in marks.rglob("*.json")}

    for least in (1, 4):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, **options) as run:
            limits.until(lambda least=least: len(finished()) >= least)
            run.send_signal(signal.SIGKILL)
    before = finished()
    assert 4 <= len(before) < 8
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, **options)
    said = [x for x in done.stdout.splitlines() if not x.startswith("next")]
    begun = {x.partition(": etc-jax ")[0] for x in said if ": etc-jax " in x}
    assert not begun & before and len(finished()) == len(begun | before) == 8
    kept = json.loads((tmp_path / "reproduced/etc.table1.tiny.json").read_text())
    assert [(x["row"], x["figures"]["training"]) for x in kept["runs"]] == [
        ("HotpotQA", 200),
        ("WikiHop", 200),
    ]
