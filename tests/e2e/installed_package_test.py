"""The wheel in an environment of its own, used from a folder without the clone."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import jax
import limits
import numpy as np
import pytest
from readme_scripts import (
    LABELS,
    block,
    scores_of,
    script,
    write_bert,
    write_files,
    write_led,
)
from repository import ROOT
from xla_flags import xla_flags

pytestmark = pytest.mark.full
# A vocabulary for the invented questions.
TOKENIZER = """
from etc_jax.data.tokenizers.wordpiece_training import train
from etc_jax.tasks.synthetic import teachers
texts = [x for r in teachers.records(40, seed=5) for x in (r["query"], *r["supports"])]
train(texts, vocab_size=480, min_char_count=1).save("tokenizer.json")
"""


def run(*argv, cwd):
    """Runs a program that sees nothing of the clone; returns what it printed."""
    environ = {k: x for k, x in os.environ.items() if k != "PYTHONPATH"}
    environ |= {
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": xla_flags(devices=1),
        "ETC_JAX_CACHE_DIR": str(cwd / "cache"),
        # What is compiled is kept beside what all tests do.
        "JAX_COMPILATION_CACHE_DIR": jax.config.jax_compilation_cache_dir,
    }
    argv = [*map(str, argv)]
    got = subprocess.run(
        argv, cwd=cwd, env=environ, capture_output=True, text=True, timeout=limits.SECS
    )
    assert got.returncode == 0, f"{argv}\n{got.stdout}\n{got.stderr}"
    return got.stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="module")
def programs(tmp_path_factory):
    """The folder of programs of an environment in which the wheel is installed."""
    folder = tmp_path_factory.mktemp("built")
    source = folder / "source"
    source.mkdir()
    for name in ("setup.py", "pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(
        ROOT / "etc_jax",
        source / "etc_jax",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    alone = ("--no-deps", "--no-index")
    build = ("wheel", *alone, "--no-build-isolation", f"--wheel-dir={folder}", source)
    run(*pip, *build, cwd=folder)
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    [wheel] = folder.glob("*.whl")
    python = folder / "venv/bin/python"
    run(*pip, f"--python={python}", "install", *alone, wheel, cwd=folder)
    # What the package requires is that of this environment; it comes after its own.
    [own] = (folder / "venv/lib").glob("python*/site-packages")
    (own / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "venv/bin"


@pytest.fixture(scope="module")
def etc_jax(programs, folder):
    def etc_jax(*argv):
        return run(programs / "etc-jax", *argv, cwd=folder)

    return etc_jax


def test_from_invented_questions_to_a_score_and_vectors(etc_jax, programs, folder):
    where = "import etc_jax; print(etc_jax.__file__)"
    found = run(programs / "python", "-c", where, cwd=folder)
    assert pathlib.Path(found).is_relative_to(programs.parent)
    run(programs / "python", "-c", TOKENIZER, cwd=folder)
    for name, count in (("train", 40), ("dev", 8)):
        etc_jax(
            *("synthetic", "--task=teachers", f"--count={count}", "--seed=1"),
            f"--out={name}.json",
        )
        printed = etc_jax(
            *("prepare", "--task=wikihop", "--tokenizer=tokenizer.json", "--workers=0"),
            *("--long_length=256", "--global_length=40"),
            *(f"--out={name}_cache", f"{name}.json"),
        )
        assert "nothing left out" in printed
    etc_jax(
        *("train", "--config=quickstart_wikihop:tiny", "--workdir=run"),
        "--config.data.paths=('train_cache',)",
        "--config.data.validation_paths=('dev_cache',)",
        *("--config.data.vocab_size=480", "--config.model.vocab_size=480"),
        *("--config.train.num_steps=4", "--config.schedule.warmup_steps=0.25"),
        *("--config.train.batch_size=4", "--config.train.eval_steps=1"),
    )
    etc_jax("evaluate", "--model=run", "--out=run/dev", "--workers=0", "dev.json")
    scores = json.loads((folder / "run/dev/scores.json").read_text())
    assert scores["records"] == 8 and 0 <= scores["metrics"]["accuracy"] <= 1
    (folder / "texts.txt").write_text("Somebody taught somebody.\nAnother text.\n")
    etc_jax("embed", "--model=run", "--out=texts.npy", "texts.txt")
    assert np.load(folder / "texts.npy").shape == (2, 64)


def test_its_configs_and_its_help_are_there(etc_jax):
    printed = json.loads(etc_jax("train", "--config=quickstart:tiny", "--print_config"))
    assert printed["train"]["num_steps"] == 20
    assert "hotpotqa, imdb" in " ".join(etc_jax("synthetic", "--help").split())


@pytest.fixture(scope="module")
def own_files(folder):
    write_bert(folder / "bert")
    write_led(folder / "led")
    write_files(folder)
    return folder


def test_the_scripts_of_the_readme_run(etc_jax, programs, own_files):
    told = {
        name: [etc_jax(*arguments) for arguments in script(name)]
        for name in ("extend", "labels", "squad", "summaries")
    }
    topics, answers = told["labels"][-1], told["squad"][-1]
    assert topics.count("Text") == 0 and all(x in topics for x in LABELS)
    assert scores_of(own_files / "runs/topics/test")["records"] == 9
    assert answers.startswith("3 records answered\n")
    assert (own_files / "answers.html").read_text().count("<article") == 3
    scores = scores_of(own_files / "runs/squad/dev")
    assert scores["records"] == 6
    assert scores["metrics"].keys() == {"exact_match", "f1"}
    scores = scores_of(own_files / "runs/summaries/test")
    assert scores["records"] == 3 and "rouge1" in scores["metrics"]
    assert (own_files / "summaries.html").read_text().count("<article") == 3
    encode = block("encode").replace('"longformer"', '"long"')
    found = run(
        *(programs / "python", "-c"),
        f"texts = ['the mill was built']\n{encode}\nprint(vectors.shape)",
        cwd=own_files,
    )
    assert found.split() == ["(1,", "16)"]
    assert np.load(own_files / "vectors.npy").shape == (2, 16)
    needs = "from flax import linen as nn, nnx\nimport jax\nimport jax.numpy as jnp"
    needs += "\nfrom etc_jax.ops.attention import sliding_window\n"
    made = {
        "linen": "LocalAttention().init_with_output(jax.random.key(0), x)[0]",
        "nnx": "LocalAttention(16, nnx.Rngs(0))(x)",
    }
    lines = [needs, "x = jnp.ones((2, 600, 16))"]
    for name, call in made.items():
        lines += [block(name), f"print({call}.shape)"]
    found = run(programs / "python", "-c", "\n".join(lines), cwd=own_files)
    assert found.split() == ["(2,", "600,", "16)"] * 2
