"""Addresses are refused before anything is written; a run may be in a store."""

import importlib
import pathlib

import pytest
import toy_job
from repository import ROOT

from etc_jax import config as config_lib
from etc_jax.base import local_paths, stores
from etc_jax.cli import command_line
from etc_jax.objectives.jobs import run_tokenizer
from etc_jax.prediction.model_files import open_model
from etc_jax.training.checkpoints import parameter_source
from etc_jax.training.errors import UserError
from etc_jax.training.preflight import dry_run
from etc_jax.training.run import train_and_evaluate

ADDRESSES = {"gs": "gs://bucket/run", "s3": "s3://bucket/run"}
TOKENS = ("--task=wikihop", "--tokenizer=x")
# What may not be in an object store either, of those below.
NEVER_STORED = (("etc_jax.tasks.hyperpartisan.split", "--splits=s", "--out=@", "a"),)
# One command a row; "@" is the address.
COMMANDS = [
    ("etc_jax.cli.evaluate", "--model=@", "--out=o", "f"),
    ("etc_jax.cli.evaluate", "--model=m", "--out=@", "f"),
    ("etc_jax.cli.evaluate", "--model=m", "--out=o", "@"),
    ("etc_jax.cli.predict", "--model=@"),
    ("etc_jax.cli.predict", "--model=m", "--html=@"),
    ("etc_jax.cli.predict", "--model=m", "@"),
    ("etc_jax.cli.generate", "--model=@", "--prompt=x"),
    ("etc_jax.cli.generate", "--model=m", "--prompt_file=@"),
    ("etc_jax.cli.embed", "--model=@", "--out=o.npy", "f"),
    ("etc_jax.cli.embed", "--model=m", "--out=@", "f"),
    ("etc_jax.cli.embed", "--model=m", "--out=o.npy", "@"),
    ("etc_jax.cli.convert", "--hf=@", "--out=o"),
    ("etc_jax.cli.convert", "--hf=m", "--out=@"),
    ("etc_jax.cli.convert", "--export=@", "--out=o"),
    ("etc_jax.cli.extend", "--from=@", "--to=longformer", "--out=o"),
    ("etc_jax.cli.extend", "--from=m", "--to=longformer", "--out=@"),
    ("etc_jax.cli.grow", "--from=m", "--tokens=x", "--out=@"),
    ("etc_jax.cli.inspect", "--cache=@"),
    ("etc_jax.cli.inspect", "--text=x", "--out=@"),
    ("etc_jax.cli.inspect", "--corpus=@"),
    ("etc_jax.cli.prepare", *TOKENS, "--out=@", "f"),
    ("etc_jax.cli.prepare", *TOKENS, "--out=o", "@"),
    ("etc_jax.cli.prepare", "--task=wikihop", "--tokenizer=@", "--out=o", "f"),
    ("etc_jax.tasks.stats", "@"),
    ("etc_jax.tasks.upper_bound", *TOKENS, "@"),
    ("etc_jax.tasks.coreference.writing", "--predictions=p", "--out=@", "f"),
    *NEVER_STORED,
    ("etc_jax.tasks.synthetic.__main__", "--task=wikihop", "--count=1", "--out=@"),
]


@pytest.mark.parametrize(
    "scheme, command",
    [
        (scheme, command)
        for command in COMMANDS
        for scheme in ADDRESSES
        if scheme != "gs" or command in NEVER_STORED
    ],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_every_command_refuses_an_address(
    scheme, command, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    module, *arguments = command
    with pytest.raises(SystemExit) as caught:
        importlib.import_module(module).main(
            [argument.replace("@", ADDRESSES[scheme]) for argument in arguments]
        )
    assert caught.value.code == 2
    *_, line = capsys.readouterr().err.splitlines()
    assert "expected a path of a file system here" in line and f"{scheme}:/" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "field, scheme",
    [
        ("checkpoint.init_from", "s3"),
        ("data.cache_dir", "s3"),
        ("data.paths", "s3"),
        ("train.compile_cache_dir", "gs"),
    ],
)
def test_every_path_of_a_config_is_looked_at(field, scheme):
    section, name = field.split(".")
    address = ADDRESSES[scheme]
    config = toy_job.config_dict(data__source="text", data__paths=("a.txt",))
    config[section].update({name: ("a.txt", address) if name == "paths" else address})
    config.data.source = "text"
    with pytest.raises(config_lib.ConfigError) as caught:
        config_lib.from_config_dict(config)
    assert f"is {address!r}; expected a path" in dict(caught.value.problems)[field]


CALLS = {
    "train": lambda address: train_and_evaluate(toy_job.config(), address),
    "dry_run": lambda address: dry_run.dry_run(
        toy_job.config(), address, compiles=False
    ),
    "init_from": lambda address: parameter_source.find(address, named="the start"),
    "model": open_model,
    "tokenizer": lambda address: run_tokenizer.check_same(address, None, "run"),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_library_refuses_it_too(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((UserError, ValueError), match="is 's3://bucket/run'; expected"):
        CALLS[name](ADDRESSES["s3"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", CALLS)
def test_a_store_whose_package_is_missing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(stores, "_is_there", lambda package: False)
    match = r"gcsfs is not installed.*etc_jax\[gcs\]"
    with pytest.raises((UserError, ValueError), match=match):
        CALLS[name](ADDRESSES["gs"])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "path, is_address",
    [
        ("gs://b/x", True),
        (pathlib.Path("gs://b/x"), True),
        ("s3://b", True),
        ("https://x.org/a", True),
        ("file:///tmp/x", True),
        ("/tmp/gs://x", False),
        ("./gs:/x", False),
        ("a:b", False),
        ("C:/x", False),
        ("C:\\x", False),
        ("~/x", False),
        ("", False),
    ],
)
def test_what_is_an_address(path, is_address):
    assert (local_paths.problem(path) is not None) == is_address


def test_no_command_has_a_parser_of_its_own():
    for path in (ROOT / "etc_jax").rglob("*.py"):
        own = "= argparse.ArgumentParser(" in path.read_text()
        assert not own or path.name == "command_line.py", path


def test_text_may_be_an_address():
    parser = command_line.ArgumentParser()
    parser.add_argument("--prompt", type=str)
    parser.add_argument("--out", type=local_paths.OUTPUT)
    assert parser.parse_args(["--prompt=http://x.org"]).prompt == "http://x.org"
    with pytest.raises(SystemExit):
        parser.parse_args(["--out=http://x.org"])
