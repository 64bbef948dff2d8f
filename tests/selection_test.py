"""Which tests run: tiers, quarters, and those that a change needs."""

import subprocess
import sys

import changed
import cpu_profile
import pytest
import tiers
from repository import ROOT

pytest_plugins = ["pytester"]
THREE_ROWS = """
import pytest

@pytest.mark.full(but={but})
@pytest.mark.parametrize("x", [1, 22, pytest.param(23, marks=pytest.mark.full)])
def test_rows(x):
    pass
"""
CONFTEST = """
import pytest
import tiers

def pytest_configure(config):
    config.addinivalue_line("markers", "full: of the second tier")

@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem():
    made = yield
    if isinstance(made, list):
        tiers.sort(made)
    return made
"""


@pytest.fixture
def rows(pytester):
    """What is collected of three rows, one of them of the second tier by itself."""
    pytester.makeconftest(CONFTEST)

    def rows(but, *options):
        pytester.makepyfile(THREE_ROWS.format(but=but))
        return pytester.runpytest_inprocess("--collect-only", "-q", *options)

    return rows


@pytest.mark.parametrize(
    "but, quick", [(["1"], ["1"]), (["2*"], ["22"]), (["1", "22"], ["1", "22"])]
)
def test_rows_that_are_named_stay(rows, but, quick):
    listed = rows(but, "-m", "not full").outlines
    assert [x.partition("[")[2][:-1] for x in listed if "::" in x] == quick


@pytest.mark.parametrize(
    "but, message",
    [
        (["1", "3"], "has no row '3'; there are ['1', '22', '23']"),
        (["*"], "['*'] are all rows; unmark it"),
    ],
)
def test_a_name_of_no_row_or_of_all_is_an_error(rows, but, message):
    result = rows(but)
    assert result.ret == pytest.ExitCode.INTERRUPTED
    assert message in result.stdout.str()


def test_quarters_are_of_alike_size_and_fixed():
    files = [str(x.relative_to(ROOT)) for x in (ROOT / "tests").rglob("*_test.py")]
    sizes = [sum(tiers.quarter(x) == n for x in files) for n in range(4)]
    assert sum(sizes) == len(files) and min(sizes) > len(files) / 6
    assert [tiers.quarter(f"tests/{x}_test.py") for x in "abcd"] == [2, 3, 0, 1]


FILES = {
    "etc_jax/__init__.py": "",
    "etc_jax/ops/__init__.py": "",
    "etc_jax/ops/low.py": "",
    "etc_jax/layers.py": "from etc_jax.ops import low",
    "etc_jax/models.py": "def f():\n    from etc_jax.layers import g",
    "etc_jax/tasks/pairs/__init__.py": "import etc_jax.tasks.pairs.reading",
    "etc_jax/tasks/pairs/reading.py": "",
    "tests/kit/helper.py": "import etc_jax.models",
    "tests/low_test.py": "import etc_jax.ops.low",
    "tests/helped_test.py": "from helper import x",
    "tests/pairs_test.py": 'TASK = "--task=pairs"',
    "tests/page_test.py": 'PAGE = "docs/page.md"',
}


@pytest.mark.parametrize(
    "path, needed",
    [
        ("etc_jax/ops/low.py", "low helped"),
        ("etc_jax/ops/__init__.py", "low helped"),
        ("etc_jax/models.py", "helped"),
        ("etc_jax/tasks/pairs/reading.py", "pairs"),
        ("tests/kit/helper.py", "helped"),
        ("tests/page_test.py", "page"),
        ("docs/page.md", "page"),
        ("docs/gone.md", ""),
        ("tests/conftest.py", "low helped pairs page"),
    ],
)
def test_a_change_needs_the_tests_that_import_it(path, needed):
    expected = {f"tests/{name}_test.py" for name in needed.split()}
    assert changed.needed({path}, FILES) == expected


def test_what_differs_from_a_commit_is_read_from_git(tmp_path, monkeypatch):
    def git(*command):
        author = ("-c", "user.name=x", "-c", "user.email=x")
        subprocess.run(["git", *author, *command], cwd=tmp_path, check=True)

    monkeypatch.setattr(changed, "ROOT", tmp_path)
    git("init", "-q", "-b", "main")
    for name in ("old", "edited", "removed"):
        (tmp_path / name).write_text(name)
    git("add", ".")
    git("commit", "-qm", "first")
    git("checkout", "-qb", "branch")
    (tmp_path / "removed").unlink()
    (tmp_path / "edited").write_text("otherwise")
    git("commit", "-qam", "second")
    (tmp_path / "new").write_text("new")
    assert changed.since("main") == {"edited", "removed", "new"}


SPENDS = (
    "import time\nwhile time.process_time() < 0.2: pass\nprint(flush=True)\ninput()"
)


def test_a_profile_counts_processes_that_are_still_there():
    before = cpu_profile._used()
    command = [sys.executable, "-S", "-c", SPENDS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as child:
        child.stdout.readline()
        assert cpu_profile._used() - before > 0.15
        child.communicate(b"\n")


def test_a_profile_is_a_table_of_files_the_dearest_first():
    lines = [
        {"test": "a_test.py::x", "cpu": 1.0, "wall": 2.0, "full": False},
        {"test": "b_test.py::x[1]", "cpu": 3.0, "wall": 3.5, "full": False},
        {"test": "b_test.py::x[2]", "cpu": 4.0, "wall": 4.0, "full": True},
    ]
    assert cpu_profile.table(lines).splitlines()[2:] == [
        "| all | 2 | 4.0 | 5.5 | 1 | 4.0 |",
        "| b_test.py | 1 | 3.0 | 3.5 | 1 | 4.0 |",
        "| a_test.py | 1 | 1.0 | 2.0 | 0 | 0.0 |",
    ]
