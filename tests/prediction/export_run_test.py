"""A run exported for prediction is the run."""

import json
import shutil

import finetuned_run
import jax
import numpy as np
import pytest

from etc_jax.cli import convert, evaluate
from etc_jax.conversion.formats import native
from etc_jax.prediction.model_files import open_model
from etc_jax.training.errors import UserError

NAME = "wikihop"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    made = finetuned_run.config(NAME)
    return finetuned_run.save_run(tmp_path_factory.mktemp("run"), made, (12, 14))


@pytest.fixture(scope="module")
def exported(run, tmp_path_factory):
    out = tmp_path_factory.mktemp("exported") / "model"
    assert convert.main([f"--export={run}", f"--out={out}"]) == 0
    return out


def test_the_model_is_the_same_bit_by_bit(run, exported):
    of_run, of_export = open_model(run), open_model(exported)
    assert of_run.step == of_export.step == 14
    assert of_run.config == of_export.config
    assert of_run.tokenizer.saved() == of_export.tokenizer.saved()
    assert of_run.digest == of_export.digest != open_model(run, 12).digest
    pairs = zip(*map(jax.tree.leaves, (of_run.params, of_export.params)), strict=True)
    assert all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)
    assert of_export.tokenizer.fingerprint() == finetuned_run.tokenizer().fingerprint()


def test_predictions_are_the_same_bytes(run, exported, tmp_path):
    records = finetuned_run.records(NAME, 8)
    file = finetuned_run.write(tmp_path / "dev.json", records)
    for model, out in ((run, "a"), (exported, "b")):
        argv = [f"--model={model}", f"--out={tmp_path / out}", file]
        assert evaluate.main(argv) == 0
    one, other = (tmp_path / out / "predictions.json" for out in "ab")
    assert one.read_bytes() == other.read_bytes()
    # They are one model: either goes on with what the other has begun.
    assert evaluate.main([f"--model={exported}", f"--out={tmp_path / 'a'}", file]) == 0


def test_the_report_says_where_it_is_from(run, exported):
    report = json.loads((exported / native.REPORT).read_text())
    assert report["made_from"]["step"] == 14
    assert report["made_from"]["run"] == str(run)
    assert report["sha256"] == open_model(run).digest
    names = sorted(path.name for path in exported.iterdir())
    assert names == [
        "README.md",
        "config.json",
        "model.json",
        "params.safetensors",
        "report.json",
        "tokenizer.json",
    ]


def test_a_step_can_be_chosen_and_a_model_replaced(run, tmp_path, capsys):
    argv = [f"--export={run}", f"--out={tmp_path / 'model'}"]
    assert convert.main(argv) == 0
    assert convert.main([*argv, "--step=12"]) == 2
    assert "holds a saved model already" in capsys.readouterr().err
    assert convert.main([*argv, "--step=12", "--overwrite"]) == 0
    assert "of step 12" in capsys.readouterr().out
    assert open_model(tmp_path / "model").step == 12


@pytest.mark.parametrize("name", ["config.json", "tokenizer.json"])
def test_a_changed_file_is_refused(exported, tmp_path, name):
    folder = tmp_path / "model"
    shutil.copytree(exported, folder)
    path = folder / name
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(ValueError, match=f"{name} is not the file"):
        open_model(folder)
    path.unlink()
    with pytest.raises(UserError, match=f"without {name}"):
        open_model(folder)


def test_what_cannot_be_exported_is_refused(exported, tmp_path, capsys):
    def refused(*argv):
        assert convert.main([*argv, f"--out={tmp_path / 'out'}"]) == 2
        return capsys.readouterr().err

    assert "a saved model already" in refused(f"--export={exported}")
    assert "nor a finished checkpoint, manifest.json" in refused(f"--export={tmp_path}")
    with pytest.raises(UserError, match="model and no run: leave step=12 out"):
        open_model(exported, 12)
    with pytest.raises(SystemExit):
        convert.main(["--export=x", "--out=y", "--seed=0"])
    assert "--seed cannot go with --export" in capsys.readouterr().err
