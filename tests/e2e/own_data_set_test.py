"""A data set in a package outside the library, from its files to answers."""

import json
import os

import programs
import pytest
from repository import ROOT
from xla_flags import xla_flags


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Runs a module as a user does, in a folder of its own."""
    folder = tmp_path_factory.mktemp("own")
    path = os.pathsep.join([str(ROOT), str(ROOT / "examples")])
    environ = {
        **os.environ,
        "PYTHONPATH": path,
        "ETC_JAX_CACHE_DIR": str(folder / "x"),
        "XLA_FLAGS": xla_flags(devices=1),
    }

    def run(*argv, text="", fails=False):
        done = programs.run(*argv, cwd=folder, environ=environ, text=text)
        assert (done.returncode != 0) == fails, done.stderr
        return done.stderr if fails else done.stdout

    run.folder = folder
    return run


@pytest.mark.parametrize(
    "family, form, global_length",
    [
        ("longformer", "sequence", 1),
        ("etc", "structured", 8),
    ],
)
@pytest.mark.full
def test_it_goes_through_all_commands(run, family, form, global_length):
    text_field = {"structured": "long_length", "sequence": "input_length"}[form]
    run("tickets.invent", "--out=made")
    for part in ("train", "dev"):
        printed = run(
            "etc_jax.cli.prepare",
            *("--task=tickets.urgency", f"--format={form}"),
            # Another process has to import it too.
            *("--tokenizer=made/tokenizer.json", f"--workers={int(part == 'dev')}"),
            *(f"--{text_field}=64", f"--global_length={global_length}"),
            *(f"--out=made/{part}_{family}", f"made/{part}.jsonl"),
        )
        assert "nothing left out" in printed
    variant = "" if family == "longformer" else ":etc"
    config = f"--config=tickets.config{variant}"
    model, out = f"--model=run_{family}", f"dev_{family}"
    run(
        "etc_jax.cli.train",
        *(config, f"--workdir=run_{family}", "--config.train.num_steps=100"),
        "--config.optimizer.learning_rate=2e-3",
        *("--config.train.eval_every_steps=100", "--config.checkpoint.every_steps=100"),
    )
    told = run("etc_jax.cli.evaluate", model, "--out=no", "made/dev.jsonl", fails=True)
    assert "give --plugin=tickets.urgency, " in told and "Traceback" not in told
    plugin = "--plugin=tickets.urgency"
    run("etc_jax.cli.evaluate", plugin, model, f"--out={out}", "made/dev.jsonl")
    scores = json.loads((run.folder / out / "scores.json").read_text())
    assert scores["task"] == "tickets.urgency"
    assert scores["metrics"]["f1"] > 0.8
    lines = (run.folder / "made/dev.jsonl").read_text().splitlines()[:3]
    told = run("etc_jax.cli.predict", plugin, model, "--json", text="\n".join(lines))
    answers = [json.loads(line) for line in told.splitlines()]
    said = json.loads((run.folder / out / "predictions.json").read_text())
    assert [(a["id"], a["answer"]) for a in answers] == list(said.items())[:3]


def test_a_module_that_registers_no_data_set_is_named(run):
    command = ("etc_jax.cli.prepare", "--tokenizer=none", "--out=none", "none.jsonl")
    for name in ("tickets.config", "tickets.nothing", "nothing"):
        printed = run(*command, f"--task={name}", fails=True)
        assert f"no data set named {name!r}; there are:" in printed
        assert "Traceback" not in printed
