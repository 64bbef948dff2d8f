"""What a wheel holds, and its command."""

import ast
import importlib.metadata
import json
import re
import subprocess
import sys

import limits
import pytest
from golden_data import ROOT

from etc_jax import __main__ as command

PACKAGE = ROOT / "etc_jax"
# What building would copy; it writes nothing.
LIST = """
import json, setuptools
from distutils.core import run_setup
found = run_setup("setup.py", stop_after="init")
build = found.get_command_obj("build_py")
build.ensure_finalized()
files = build.get_source_files() + [
    f"{folder}/{name}" for _, folder, _, names in build.data_files for name in names
]
print(json.dumps({"files": files, "commands": found.entry_points["console_scripts"]}))
"""


@pytest.fixture(scope="module")
def metadata():
    argv = [sys.executable, "-W", "ignore", "-c", LIST]
    got = subprocess.run(
        argv, cwd=ROOT, capture_output=True, text=True, timeout=limits.SECS
    )
    assert got.returncode == 0, got.stderr
    return json.loads(got.stdout.splitlines()[-1])


def test_the_wheel_has_every_file_of_the_package(metadata):
    there = {
        path.relative_to(ROOT).as_posix()
        for path in PACKAGE.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert {f"etc_jax/{x}/__init__.py" for x in ("configs", "tasks")} <= there
    assert set(metadata["files"]) == there


def test_the_console_command_is_this_one(metadata):
    assert metadata["commands"] == ["etc-jax = etc_jax.__main__:main"]


@pytest.mark.parametrize("module", command.COMMANDS.values())
def test_every_subcommand_is_a_module_with_a_main_that_python_runs_too(module):
    tree = ast.parse(
        PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py").read_text()
    )
    functions = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    assert "main" in functions
    assert ast.unparse(tree.body[-1]) == (
        "if __name__ == '__main__':\n    sys.exit(main())"
    )


def test_help_lists_the_subcommands_and_imports_none(monkeypatch, capsys):
    monkeypatch.setattr(command.importlib, "import_module", None)
    assert command.main(["--help"]) == 0
    printed = capsys.readouterr().out
    for name in command.COMMANDS:
        assert f"\n  {name} " in printed
    assert "Writes invented items in the raw format of a real data set." in printed
    assert max(map(len, printed.splitlines())) <= 110
    assert command.main([]) == 2 and capsys.readouterr().out == printed


@pytest.mark.parametrize(
    "argv, message",
    [
        (["tran"], "there is no command tran; did you mean 'train'?"),
        (["upper-bond"], "did you mean 'upper_bound'?"),
        (["xyz"], "there are: convert, corpora, embed"),
    ],
)
def test_an_unknown_subcommand_is_named(capsys, argv, message):
    assert command.main(argv) == 2
    assert message in capsys.readouterr().err


def test_a_subcommand_is_given_the_rest_and_gives_the_exit_code(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "path", list(sys.path))
    out = tmp_path / "words.jsonl"
    with pytest.raises(SystemExit) as stop:
        command.main(["synthetic", "--task=backwards", f"--out={out}"])
    assert stop.value.code == 2
    assert "etc-jax synthetic: " in capsys.readouterr().err
    argv = ["synthetic", "--task=backwards", "--count=2", f"--out={out}"]
    assert command.main(argv) == 0
    assert len(out.read_text().splitlines()) == 2


def test_modules_of_the_current_folder_are_found_and_hide_none(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tqdm.py").write_text("1 / 0")
    (tmp_path / "counting_items.py").write_text(
        "import dataclasses\n"
        "from etc_jax.base import registry\n"
        "from etc_jax.tasks.synthetic.maker import Maker\n"
        "@dataclasses.dataclass(frozen=True)\n"
        "class Sizes:\n"
        "    step: int = 1\n"
        "def records(count, *, seed, sizes, start=0):\n"
        "    yield from ({'n': n * sizes.step} for n in range(start, start + count))\n"
        "registry.register('invented_items', 'own.counting')(Maker(records, Sizes))\n"
    )
    (tmp_path / "own").mkdir()
    (tmp_path / "own/counting.py").write_text("import counting_items\n")
    argv = ["synthetic", "--task=own.counting", "--count=3", "--step=5", "--out=n.json"]
    assert command.main(argv) == 0
    assert json.loads((tmp_path / "n.json").read_text()) == [
        {"n": n} for n in (0, 5, 10)
    ]


def test_the_version_is_that_of_the_package(capsys):
    assert command.main(["--version"]) == 0
    assert capsys.readouterr().out.strip() == importlib.metadata.version("etc_jax")


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no clone of the repository")
def test_git_ignores_what_the_commands_of_the_documentation_write():
    text = "".join(p.read_text() for p in (ROOT / "README.md", *ROOT.glob("docs/*.md")))
    names = set(re.findall(r"--(?:out|html|workdir)=(?!gs://)([a-z][\w./$]+)", text))
    assert len(names) > 30 and {"runs/mine", "answers.html", "long"} <= names
    done = subprocess.run(
        ["git", "check-ignore", "--no-index", "--stdin"],
        input="\n".join(sorted(names)),
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert names - set(done.stdout.split()) == set()
