"""Which command comes next: one that there is, with arguments that it takes."""

import ast
import pathlib
import shlex
import types

import pytest

import etc_jax.tasks.synthetic.every  # noqa: F401 - registers what can be invented
from etc_jax import __main__ as program, config as config_lib
from etc_jax.base import registry
from etc_jax.base.terminal import next_command
from etc_jax.cli import command_line, evaluate, flag as config_flag, next_steps, predict
from etc_jax.cli.prepare import _next
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import Problems
from etc_jax.prediction import answering
from etc_jax.tasks.synthetic import __main__ as synthetic

EVALUATE = "etc-jax evaluate '--model=my runs/x' '--out=my runs/x/evaluated'"


@pytest.mark.parametrize(
    "name, change, wanted",
    [
        (
            "reformer_enwik8:short",
            "data.paths=('x',)",
            "next: etc-jax generate '--model=my runs/x' --num_tokens=50 "
            "'--prompt=The '",
        ),
        (
            "quickstart:tiny",
            "train.seed=0",
            'next: echo "A first text." | etc-jax embed '
            "'--model=my runs/x' '--out=my runs/x.npy' -",
        ),
        (
            "quickstart_wikihop",
            "train.seed=0",
            f"next (FILE has answers): {EVALUATE} FILE",
        ),
        (
            "quickstart_wikihop",
            "data.validation_files=('dev.json',)",
            f"next: {EVALUATE} dev.json",
        ),
        # No command reads a model of images.
        ("reformer_imagenet64", "train.seed=0", ""),
    ],
)
def test_after_a_run_its_model_is_used(name, change, wanted):
    changes = [f"--config.{change}"]
    if name in ("quickstart_wikihop", "reformer_imagenet64"):
        files = {"paths": "x.npy", "validation_paths": "y.npy"}
        changes += [f"--config.data.{k}=('{file}',)" for k, file in files.items()]
    values = config_flag.read(name, changes)
    config = config_lib.from_config_dict(values)
    assert next_steps.of_run(config, "my runs/x") == wanted
    assert not wanted or taken(wanted)


def test_a_run_in_a_store_is_read_there_and_written_about_here():
    config = config_lib.from_config_dict(config_flag.read("quickstart", []))
    line = next_steps.of_run(config, "gs://bucket/runs/x", step=4)
    assert "embed --model=gs://bucket/runs/x/checkpoints/4 --out=bucket_runs_x" in line


def taken(line: str) -> list[str]:
    """The words of a next command, which its parser has taken; nothing is run."""
    words = shlex.split(line.partition("etc-jax ")[2])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(command_line, "run", lambda *_, **__: 0)
        assert program.main(words) == 0
    return words


# Where commands print what comes next, and how often. All are tried below.
SITES = {
    *{("cli/evaluate.py", 1), ("cli/predict.py", 1), ("cli/prepare.py", 2)},
    *{("cli/next_steps.py", 4), ("tasks/synthetic/__main__.py", 2)},
}


def test_every_next_command_is_tried_here():
    package = pathlib.Path(program.__file__).parent
    found = set()
    for path in package.rglob("*.py"):
        if "next_command(" in (text := path.read_text()):
            calls = [x for x in ast.walk(ast.parse(text)) if isinstance(x, ast.Call)]
            named = [x for x in calls if getattr(x.func, "id", "") == "next_command"]
            if named:
                found.add((path.relative_to(package).as_posix(), len(named)))
    assert found == SITES


@pytest.mark.parametrize("name", list(registry.names("invented_items")))
def test_invented_items_are_prepared_next(name, tmp_path, capsys):
    out, more = tmp_path / "items", []
    if splits := registry.lookup("invented_items", name).splits:
        more = [f"--split={splits[0]}"]
    argv = [f"--task={name}", "--count=1", f"--out={out}", *more]
    assert synthetic.main(argv) == 0
    words = taken(capsys.readouterr().out.splitlines()[-1])
    task = task_lib.find(words[1].removeprefix("--task="))
    problems = Problems()
    assert list(task.read(words[-1:], problems)) and not problems.counts


def test_invented_texts_are_trained_on_next(tmp_path, capsys):
    argv = ["--task=teachers", "--count=2", f"--out={tmp_path}/texts.jsonl", "--texts"]
    assert synthetic.main(argv) == 0
    words = taken(capsys.readouterr().out.splitlines()[-1])
    assert (
        words[0] == "train"
        and f"--config.data.paths=('{tmp_path}/texts.jsonl',)" in words
    )


def test_what_is_prepared_is_trained_on_or_counted_next():
    for name in task_lib.names():
        for form in task_lib.find(name).converters:
            cache = types.SimpleNamespace(task=name, format=form)
            words = taken(_next(cache, "my caches/x"))
            assert words[0] in ("train", "stats")
            if words[0] == "train":
                assert words[2].removeprefix("--config=").split(":")[0] == name
    assert taken(_next(types.SimpleNamespace(task="imdb"), "a,b")) == ["stats", "a,b"]


def test_answers_are_shown_next():
    argv = ["--model=m", "--step=3", "--option=a=1", "--thresholds=t"]
    argv += ["--generation=num_beams=4", "--generation=max_length=9"]
    for command in (evaluate, predict):
        args = command._parse([*argv, *["--out=o"] * (command is evaluate), "f 1"])
        given = answering.given_flags(args)
        assert given == argv
        words = taken(next_command("predict", *given, "--html=o/a.html", *args.files))
        assert words[-1] == "f 1"


PATHS = ["--config.data.paths=('x',)"]


@pytest.mark.parametrize("gives", ["text", "bytes"])
def test_a_converted_model_is_used_next(gives, monkeypatch):
    config = config_lib.from_config_dict(
        config_flag.read("reformer_enwik8:short", PATHS)
    )
    source = types.SimpleNamespace(run=None, tokenizer=None, config=config.model)
    monkeypatch.setattr(next_steps.model_source, "find", lambda place: source)
    source.tokenizer = None if gives == "bytes" else "some"
    assert taken(next_steps.of_folder("my models/x"))[0] == "generate"
    source.run = config
    assert taken(next_steps.of_folder("my models/x"))[0] == "predict"
