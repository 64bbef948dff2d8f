"""Notebooks: stored without outputs, and what their cells say is so."""

import json
import os
import re
import subprocess
import sys

import limits
import pytest
from repository import ROOT
from xla_flags import xla_flags

FOLDER = ROOT / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
QUICK = "1_structure"
# Cells leave their figures open: there are pictures, and all can be drawn.
DRAW = """
import matplotlib.pyplot
assert matplotlib.pyplot.get_fignums()
for number in matplotlib.pyplot.get_fignums():
    matplotlib.pyplot.figure(number).canvas.draw()
"""

every = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path, kind):
    notebook = json.loads(path.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def test_there_are_five():
    assert [path.stem[0] for path in NOTEBOOKS] == list("12345")


@every
def test_outputs_and_counts_are_stripped(path):
    notebook = json.loads(path.read_text())
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in cells(path, "code"):
        assert (cell["outputs"], cell["execution_count"]) == ([], None)
        assert cell["metadata"] == {}


@every
def test_its_page_exists_and_links_back(path):
    text = "".join("".join(cell["source"]) for cell in cells(path, "markdown"))
    linked = re.findall(r"\]\(\.\./(docs/\w+\.md)\)", text)
    pages = [(FOLDER.parent / name).read_text() for name in linked]
    assert pages and all(f"(../notebooks/{path.name})" in page for page in pages)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(p, marks=() if p.stem == QUICK else pytest.mark.full, id=p.stem)
        for p in NOTEBOOKS
    ],
)
def test_cells_run_in_plain_python_in_any_folder(path, tmp_path):
    pytest.importorskip("matplotlib")
    sources = ["".join(cell["source"]) for cell in cells(path, "code")]
    script = tmp_path / f"{path.stem}_cells.py"
    script.write_text("\n\n".join([*sources, DRAW]))
    found = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={
            **os.environ,
            "JAX_PLATFORMS": "cpu",
            "MPLBACKEND": "Agg",
            "TMPDIR": str(tmp_path),
            "PYTHONPATH": str(FOLDER.parent),
            "XLA_FLAGS": xla_flags(devices=1),
        },
        capture_output=True,
        text=True,
        timeout=limits.SECS,
    )
    assert found.returncode == 0, found.stdout + found.stderr
