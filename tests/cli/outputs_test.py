"""No output of a command is one of its inputs: each argument says which it is."""

import argparse
import importlib
import os
import pathlib
import re

import pytest
import toy_job

import etc_jax
from etc_jax import config as config_lib
from etc_jax.__main__ import COMMANDS
from etc_jax.base.local_paths import PathArgument, Use
from etc_jax.cli import command_line, embed, predict
from etc_jax.launch.backend import backends
from etc_jax.prediction.answers_page.style import PAGE
from etc_jax.training import workdir
from etc_jax.training.errors import UserError

PACKAGE = pathlib.Path(etc_jax.__file__).parent
# Every module with a parser of its own, so that a new command is among them.
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
    for path in PACKAGE.rglob("*.py")
    if "command_line.ArgumentParser(" in path.read_text()
)
# Such as have other flags for each data set, or words before the flags.
BEGINNINGS = {
    "etc_jax.cli.corpora": (["long"], ["link"]),
    "etc_jax.cli.prepare": (["--task=wikihop"], ["--task=text_to_text"]),
    "etc_jax.launch.__main__": tuple([name] for name in backends()),
    "etc_jax.tasks.synthetic.__main__": (["--task=wikihop"], ["--task=imdb"]),
}
CASES = [
    (module, begun) for module in MODULES for begun in BEGINNINGS.get(module, [[]])
]
# Arguments whose help speaks of files, and that are none.
TEXTS = {"task", "text_field", "format", "prefix", "tokens", "special", "pooling"}
TEXTS |= {"help_config"}
PATH_WORDS = re.compile(r"\b(files?|folder|path|page|cache|picture|vocabulary)\b", re.I)


class _Parsed(BaseException):
    """Holds the parser of a command."""


def parser_of(module, begun) -> command_line.ArgumentParser:
    def parse_args(parser, *_):
        raise _Parsed(parser)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_line.ArgumentParser, "parse_args", parse_args)
        with pytest.raises(_Parsed) as caught:
            importlib.import_module(module).main(list(begun))
    parser = caught.value.args[0]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return action.choices[begun[0]]
    return parser


def used(parser, *uses) -> list[argparse.Action]:
    """The arguments that are paths of some use."""
    return [
        action
        for action in parser._actions
        if isinstance(action.type, PathArgument) and action.type.use in uses
    ]


READ, WRITTEN = (Use.READ, Use.READ_MODEL), (Use.WRITE, Use.ADD)


def word(action, value) -> str:
    return f"{action.option_strings[0]}={value}" if action.option_strings else value


def words(parser, begun, values) -> list[str]:
    """A command line with some values, and others for what is needed besides."""
    left = {action.dest: action for action in parser._actions if action.required}
    for group in parser._mutually_exclusive_groups:
        if group.required and not any(x.dest in values for x in group._group_actions):
            left[group._group_actions[0].dest] = group._group_actions[0]
    given = [word(a, values[a.dest]) for a in parser._actions if a.dest in values]
    for name in left.keys() - values.keys() - {x[2:].split("=")[0] for x in begun}:
        action = left[name]
        given.append(word(action, list(action.choices or ["1"])[0]))
    return [*begun, *given]


def test_every_command_of_the_table_is_looked_at():
    assert {*COMMANDS.values()} - {"etc_jax.cli.extend", "etc_jax.cli.grow"} <= {
        *MODULES
    }
    assert {"etc_jax.cli.extend", "etc_jax.cli.grow"} <= {*MODULES}


@pytest.mark.parametrize("module, begun", CASES, ids=str)
def test_every_path_says_whether_it_is_read_or_written(module, begun):
    parser = parser_of(module, begun)
    for action in parser._actions:
        if action.nargs == 0 or action.choices is not None:
            continue
        is_path = isinstance(action.type, PathArgument)
        assert action.type is not pathlib.Path, action.dest
        if PATH_WORDS.search(f"{action.dest} {action.metavar} {action.help}"):
            assert is_path or action.dest in TEXTS or action.type is int, action.dest
        if action.dest in ("out", "html", "workdir"):
            assert action.type.use in WRITTEN


def test_an_argument_that_is_not_declared_is_a_fault_of_the_program():
    parser = command_line.ArgumentParser("etc-jax new")
    parser.add_argument("--table")
    with pytest.raises(TypeError, match="etc-jax new: table has no type"):
        parser.parse_args([])


def states(folder) -> dict:
    return {
        path: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def place(tmp_path, monkeypatch):
    """Files and folders that are read, with other names for them."""
    monkeypatch.chdir(tmp_path)
    for name in ("x.jsonl", "deep/x/x.jsonl", "deep/x/checkpoints/5/manifest.json"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}\n")
    (tmp_path / "link").symlink_to("x.jsonl")
    (tmp_path / "links").symlink_to("deep/x")
    os.link("x.jsonl", "hard.jsonl")
    return tmp_path


# (what is read, what is written, of which uses)
SAME = [
    ("x.jsonl", "x.jsonl"),
    ("x.jsonl", "./x.jsonl"),
    ("x.jsonl", "deep/../x.jsonl"),
    ("x.jsonl", "link"),
    ("link", "x.jsonl"),
    ("x.jsonl", "hard.jsonl"),
    ("*.jsonl", "hard.jsonl"),
    ("deep/x", "deep/x/"),
    ("deep/x", "links"),
    ("links", "deep/x"),
]
ABOVE = [("deep/x/x.jsonl", "deep/x"), ("deep/x/x.jsonl", "links"), ("deep/x", "deep")]
INSIDE = [("deep/x", "deep/x/new"), ("links", "deep/x/new/er"), ("deep", "links/new")]
OF_MODEL = [
    ("deep/x", "deep/x/x.jsonl"),
    ("deep/x", "links/checkpoints/5/new"),
    ("deep/x/checkpoints/5", "deep/x/checkpoints/5/new"),
]


@pytest.mark.parametrize(
    "module, begun",
    [case for case in CASES if used(parser_of(*case), *WRITTEN)],
    ids=str,
)
def test_no_output_of_any_command_is_one_of_its_inputs(module, begun, place, capsys):
    parser, before = parser_of(module, begun), states(place)
    main = importlib.import_module(module).main
    for output in used(parser, *WRITTEN):
        for source in used(parser, *READ):
            pairs = list(SAME)
            if output.type.use is Use.WRITE:
                pairs += ABOVE
            pairs += INSIDE if source.type.use is Use.READ else OF_MODEL
            if source.dest == "config":  # a name, unless it ends as a file does
                pairs = [("config.py", "./config.py")]
                (place / "config.py").write_text("")
                before = states(place)
            for read, written in pairs:
                values = {output.dest: written, source.dest: read}
                with pytest.raises(SystemExit) as caught:
                    main(words(parser, begun, values))
                told = capsys.readouterr().err
                assert caught.value.code == 2, (values, told)
                assert len(told.splitlines()) == 1, told
                assert f"{word(output, written)}" in told and read in told, told
                assert "the input" in told and "name another" in told, told
    assert states(place) == before


@pytest.mark.parametrize(
    "given",
    [
        ("--model=deep/x", "--out=deep/x/new/vectors.npy", "x.jsonl"),
        ("--model=no/such", "--out=no/such.npy", "x.jsonl"),
        ("--model=deep/x", "--out=x.npy", "-"),
        ("--model=deep/x/checkpoints/5", "--out=deep/x/eval/x.npy", "x.jsonl"),
    ],
    ids=" ".join,
)
def test_other_outputs_are_allowed(given, place):
    assert embed._parse(given).out == given[1].partition("=")[2]


def test_what_is_written_beside_an_output_is_an_output(place, capsys):
    (place / "y.ids.jsonl").write_text("{}")
    with pytest.raises(SystemExit):
        embed.main(["--model=m", "--out=y.npy", "y.ids.jsonl"])
    assert "y.ids.jsonl of --out=y.npy is the input" in capsys.readouterr().err


@pytest.mark.parametrize(
    "module, given",
    [
        ("etc_jax.cli.inspect", ["--text=One."]),
        ("etc_jax.tasks.hotpotqa.select", ["--model=m", "f"]),
        ("etc_jax.tasks.coreference.writing", ["--predictions=p", "f"]),
        ("etc_jax.cli.corpora", ["long", "--min_length=1", "f"]),
        ("etc_jax.tasks.squad.distractors", ["--order=ordered", "f"]),
        ("etc_jax.tasks.synthetic.__main__", ["--task=wikihop", "--count=1"]),
    ],
)
def test_no_file_is_replaced_unless_asked(module, given, place, capsys):
    before = states(place)
    main = importlib.import_module(module).main
    assert main([*given, "--out=hard.jsonl"]) == 2
    assert "hard.jsonl exists; give another --out" in capsys.readouterr().err
    assert states(place) == before


def test_a_run_is_not_written_into_what_it_begins_with(place):
    folder = place / "deep"
    for field, name in (("checkpoint.init_from", "."), ("data.paths", "x/..")):
        config = toy_job.config_dict()
        section, key = field.split(".")
        value = str(folder / name)
        config[section][key] = (value,) if key == "paths" else value
        if key == "paths":
            config.data.source = "cache"
            config.data.validation_paths = ("validation",)
        with pytest.raises(UserError, match=f"is the input {field}=.*/deep"):
            workdir.check(config_lib.from_config_dict(config), folder)
    with pytest.raises(UserError, match="lies in the input data.paths="):
        workdir.check(config_lib.from_config_dict(config), folder / "new")


def test_standard_input_is_an_input(place, capsys):
    with open("x.jsonl") as file:
        before = os.dup(0)
        os.dup2(file.fileno(), 0)
        try:
            with pytest.raises(SystemExit):
                predict.main(["--model=m", "--html=link"])
        finally:
            os.dup2(before, 0)
            os.close(before)
    assert "--html=link is the input -, which it would" in capsys.readouterr().err


def test_a_page_replaces_pages_of_the_command_alone(place, capsys):
    (place / "thesis.html").write_text("<!DOCTYPE html>\n<html lang=en>years of work")
    argv = ["--model=deep", "--html=thesis.html", "x.jsonl"]
    assert predict.main(argv) == 2
    assert "thesis.html exists and is no page that" in capsys.readouterr().err
    page = PAGE.substitute(title="", style="", script="", digest="", body="")
    (place / "deep" / "answers.html").write_text(page)
    argv[1] = "--html=deep/answers.html"  # of an earlier call
    assert predict.main(argv) == 2
    assert "answers.html" not in capsys.readouterr().err
