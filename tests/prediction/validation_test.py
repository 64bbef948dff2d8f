"""Official figures during training, beside those of `etc-jax evaluate` afterwards."""

import dataclasses
import json
import shutil

import finetuned_run
import jax
import pytest
from written_windows import write_windows

from etc_jax.cli import evaluate
from etc_jax.data.windows.writing import WindowSource
from etc_jax.datasets import task as task_lib
from etc_jax.formats.structured import StructuredSizes
from etc_jax.prediction.validation import OfficialScore
from etc_jax.sharding import MeshConfig, make_mesh, tree_shardings
from etc_jax.training.errors import UserError
from etc_jax.training.preflight.plan import on_mesh
from etc_jax.training.run import train_and_evaluate

COUNT = 21  # no whole number of batches


def official(folder, run, file, step=None):
    """The metrics that the command line finds."""
    chosen = [] if step is None else [f"--step={step}"]
    given = [f"--model={run}", f"--out={folder}", "--workers=0", "--batch_size=8"]
    assert evaluate.main([*given, *chosen, file]) == 0
    metrics = json.loads((folder / "scores.json").read_text())["metrics"]
    return {f"official_{name}": value for name, value in metrics.items()}


@pytest.mark.parametrize(
    "name, metric",
    [
        ("openkp", "official_F1@3"),
        ("natural_questions", "official_average-f1"),
    ],
)
@pytest.mark.full(but=["natural_questions*"])
def test_figures_on_a_mesh_are_those_of_the_command_line(name, metric, tmp_path):
    records = finetuned_run.records(name, COUNT)
    file = finetuned_run.write_records(tmp_path, name, records)
    size = finetuned_run.tokenizer(name).vocab_size
    config = finetuned_run.config(
        name, data__validation_files=(file,), model__vocab_size=size + size % 2
    )
    run = finetuned_run.save_run(tmp_path / "run", config)
    mesh = make_mesh(MeshConfig(data=4, tensor=2))
    params = finetuned_run.random_params(config, seed=finetuned_run.STEP)
    params = jax.device_put(params, tree_shardings(params, mesh))
    score = OfficialScore(config, finetuned_run.tokenizer(name))
    with on_mesh(mesh):
        got = score(params)
        assert score(params, should_stop=lambda: True) is None
    assert tuple(got) == score.metric_names
    assert metric in got
    assert got == pytest.approx(official(tmp_path / "out", run, file), abs=1e-6)


@pytest.fixture(scope="module")
def hotpot(tmp_path_factory):
    """(config of a run with its files, the file of raw records)."""
    folder, name = tmp_path_factory.mktemp("hotpot"), "hotpotqa"
    values = finetuned_run.records(name, COUNT)
    file = finetuned_run.write_records(folder, name, values)
    task, sizes = (
        task_lib.find_task(name),
        StructuredSizes(*finetuned_run.LENGTHS[name]),
    )
    tokenizer = finetuned_run.tokenizer(name)
    records = [task.parse(value, lambda *note: None) for value in values]
    windows = [w for r in records for w in task.features(r, tokenizer, sizes)]
    write_windows(
        windows,
        tokenizer,
        folder / "cache",
        WindowSource(name, "structured", dataclasses.asdict(sizes)),
    )
    cache = (str(folder / "cache"),)
    config = finetuned_run.config(
        name,
        data__paths=cache,
        data__validation_paths=cache,
        data__validation_files=(file,),
        optimizer__learning_rate=0.05,
        train__num_steps=4,
        train__batch_size=8,
        train__eval_every_steps=2,
        checkpoint__every_steps=2,
        checkpoint__keep=1,
        checkpoint__keep_best=1,
        checkpoint__best_metric="official_joint_f1",
        checkpoint__best_is="highest",
    )
    return config, file


@pytest.mark.full
def test_the_best_checkpoint_is_that_of_the_official_figure(hotpot, tmp_path):
    config, given = hotpot
    # Named as a user does, who may edit it between a stop and the same command.
    file = shutil.copy(given, tmp_path / "dev.json")
    data = dataclasses.replace(config.data, validation_files=(str(file),))
    config, run = dataclasses.replace(config, data=data), tmp_path / "run"
    train_and_evaluate(config, run)
    lines = [json.loads(x) for x in (run / "metrics.jsonl").read_text().splitlines()]
    found = {x["step"]: x["official_joint_f1"] for x in lines if x["kind"] == "eval"}
    assert sorted(found) == [2, 4]
    best = min(found, key=lambda step: (-found[step], step))
    kept = {int(p.name) for p in (run / "checkpoints").iterdir() if p.name.isdecimal()}
    assert kept == {best, 4}
    metric_names = official(tmp_path / "out", run, str(file), best)
    assert found[best] == pytest.approx(metric_names["official_joint_f1"], abs=1e-6)
    file.write_text(json.dumps(json.loads(file.read_text())[1:]))
    with pytest.raises(
        UserError, match=r"not what they were .*\s+held-back file .*dev"
    ):
        train_and_evaluate(config, run)


def without_files(config):
    data = dataclasses.replace(config.data, validation_files=())
    return dataclasses.replace(config, data=data)


def test_an_official_figure_without_files_is_refused_before_compiling(hotpot, tmp_path):
    config, _ = hotpot
    with pytest.raises(UserError, match="or name the official files of development"):
        train_and_evaluate(without_files(config), tmp_path / "run")


def test_files_without_gold_answers_are_refused(hotpot, tmp_path):
    config, _ = hotpot
    values = finetuned_run.records("hotpotqa", 2)
    for value in values:
        del value["answer"], value["supporting_facts"]
    file = finetuned_run.write_records(tmp_path, "hotpotqa", values)
    data = dataclasses.replace(config.data, validation_files=(file,))
    with pytest.raises(UserError, match="have no gold answers, so there is nothing"):
        train_and_evaluate(dataclasses.replace(config, data=data), tmp_path / "run")
