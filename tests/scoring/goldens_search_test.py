"""Golden cases are found, and what is not known is not passed over."""

import json
import subprocess
import sys

import limits
import pytest
from golden_data import ROOT

from scoring.goldens import Golden, find_goldens
from scoring.goldens_test import _run

ITEM = {"id": "w", "answer": "ton", "candidates": ["ton"], "prediction": "ton"}


def _write(folder, name, value):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


def test_each_case_is_found_and_a_file_with_totals_is_one_more(tmp_path):
    _write(tmp_path, "a/b/cases.json", {"source": "s", "cases": [ITEM, ITEM]})
    _write(tmp_path, "c.json", {"cases": [ITEM], "accuracy": 1.0})
    found = find_goldens(tmp_path)
    assert [(g.name, g.kinds) for g in found] == [
        ("a/b/w", ["wikihop"]),
        ("a/b/w", ["wikihop"]),
        ("c/w", ["wikihop"]),
        ("c", ["wikihop accuracy"]),
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ('{"cases": [{"case": "new", "poem": 1}]}', "one known kind.*poem"),
        ('{"cases": []}', "one known kind"),
        ("[1, 2]", "one known kind.*list"),
        ("{", "is no JSON"),
    ],
)
def test_a_case_of_an_unknown_kind_fails(tmp_path, text, message):
    _write(tmp_path, "x.json", text)
    (golden,) = find_goldens(tmp_path)
    with pytest.raises(pytest.fail.Exception, match=message):
        _run(golden)


def test_a_case_with_another_figure_has_a_difference():
    assert _run(Golden("w", ITEM | {"correct": True})) == 0
    assert _run(Golden("w", ITEM | {"correct": False})) == 1


def test_an_empty_folder_fails(tmp_path):
    test = "tests/scoring/goldens_test.py"
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", test, "--goldens", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=limits.SECS,
    )
    assert run.returncode == 1
    assert "no golden case under" in run.stdout
