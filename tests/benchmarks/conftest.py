"""What tests of several benchmarks use: runs that are stood in for, a tiny BERT."""

import json

import bert_reference as reference
import finetuned_run
import numpy as np
import pytest
from stand_ins import TINY_BERT, Trained

from benchmarks.kit import finetuning_runs, rows
from etc_jax.cli import convert
from etc_jax.training.errors import RunError


@pytest.fixture
def trained(monkeypatch):
    """Training and evaluation are stood in for."""
    found = Trained()
    monkeypatch.setattr(finetuning_runs, "train_and_evaluate", found.train)
    monkeypatch.setattr(rows.evaluate, "main", found.evaluate)
    return found


@pytest.fixture
def run(tmp_path):
    """A function that runs a benchmark, and gives its exit code and what it wrote."""

    def command(main, *argv):
        out = tmp_path / "new" / "out.json"
        code = main([*argv, f"--out={out}"])
        return code, json.loads(out.read_text()) if out.exists() else None

    return command


@pytest.fixture
def converted(monkeypatch):
    """Arguments of `etc-jax convert`, which runs in this process."""
    seen = []

    def main(*argv):
        seen.append(argv)
        if code := convert.main(argv):
            raise RunError(f"ended with {code}")

    monkeypatch.setattr(finetuning_runs, "convert", main)
    return seen


@pytest.fixture(scope="session")
def tiny_bert(tmp_path_factory):
    """Folder of a BERT of random numbers with a vocabulary."""
    arrays = reference.random_arrays(TINY_BERT)
    width = TINY_BERT["hidden_size"]
    arrays["bert.pooler.dense.weight"] = np.eye(width, dtype=np.float32)
    arrays["bert.pooler.dense.bias"] = np.zeros(width, np.float32)
    folder = tmp_path_factory.mktemp("bert")
    reference.write_folder(folder, TINY_BERT, arrays)
    (folder / "vocab.txt").write_text("\n".join(finetuned_run.PIECES))
    return folder
