"""Damaged files of a run, or of an exported model, are read or refused in one line."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import shutil

import finetuned_run
import pytest
from clean_errors import Count, run_trials, trial
from etils import epath
from mutations import STRINGS, damaged, mutated, spelled

from etc_jax.loading import model_source
from etc_jax.prediction.export import export_run
from etc_jax.prediction.model_files import open_model
from etc_jax.training import workdir
from etc_jax.training.checkpoints import parameter_source, saved_params
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.reporting.metrics import MetricsWriter

CONFIG = finetuned_run.config("hotpotqa")
# Names that a file system may take, where a checkpoint would stand.
NAMES = ("\u00b2", "007", "-1", "1e3", "9" * 200, " 12", ".DS_Store", "12.tmp", "x\ny")


def _resumed(folder: pathlib.Path) -> None:
    """What a run reads of its folder before anything is compiled."""
    path = workdir.check(CONFIG, folder)
    checkpoints = CheckpointFolder(path)
    step = checkpoints.choose()
    MetricsWriter(path, resume_step=step or 0)
    if step is not None:
        saved_params.read_data(checkpoints.path(step))


def _converted(folder: pathlib.Path) -> None:
    """What `etc-jax convert` and `etc_jax.load` read."""
    source = model_source.find(folder)
    _ = source.params, source.config, source.tokenizer, source.run, source.labels()


# Readers of a run's folder.
READERS = {
    "resume": _resumed,
    "predict": lambda folder: open_model(folder).digest,
    "init_from": lambda folder: dict(
        parameter_source.find(epath.Path(folder), named="init_from").model()
    ),
    "convert": _converted,
}
# Of an exported model's.
EXPORTED_READERS = {name: READERS[name] for name in ("predict", "init_from", "convert")}


@dataclasses.dataclass(frozen=True)
class Folders:
    """What is damaged copies of."""

    run: pathlib.Path
    exported: pathlib.Path


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Folders:
    place = tmp_path_factory.mktemp("fuzz")
    run = finetuned_run.save_run(place / "run", CONFIG, steps=(6, 12))
    lines = [{"step": s, "kind": "train", "loss": 1.0} for s in (2, 4, 6, 12)]
    (run / "metrics.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    export_run(run, place / "exported")
    return Folders(run, place / "exported")


def _damage(folder: pathlib.Path, rng: random.Random) -> str:
    """Damages one file of a folder, and says which."""
    if rng.random() < 0.05:
        name = rng.choice(NAMES)
        place = folder / rng.choice(("", "checkpoints")) / name
        place.parent.mkdir(exist_ok=True)
        place.mkdir() if rng.random() < 0.5 else place.write_bytes(b"x")
        return f"a new {name!r}"
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    # Those of Orbax are many and alike.
    top = [p for p in files if p.suffix in (".json", ".jsonl") or p.name == "metadata"]
    path = rng.choice(top if rng.random() < 0.7 else files)
    content = path.read_bytes()
    if rng.random() < 0.05:
        path.unlink()
    elif rng.random() < 0.05:
        path.unlink()
        path.mkdir()
    elif path.suffix == ".json" and rng.random() < 0.8:
        text = spelled(mutated(json.loads(content), rng), rng)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
    elif path.suffix == ".jsonl" and rng.random() < 0.3:
        path.write_bytes(content + rng.choice(STRINGS).encode(errors="surrogatepass"))
    else:
        path.write_bytes(damaged(content, rng))
    return str(path.relative_to(folder))


def check(rng: random.Random, folders: Folders, place: pathlib.Path, count: Count):
    source, readers = folders.run, READERS
    if rng.random() < 0.4:
        source, readers = folders.exported, EXPORTED_READERS
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(source, place)
    what = _damage(place, rng)
    name = rng.choice(sorted(readers))
    trial(lambda: readers[name](place), count, f"{name} of {source.name}: {what}")


@pytest.mark.full
def test_damaged_folders_are_read_or_refused(folders, tmp_path):
    place = tmp_path / "copy"
    count = run_trials(lambda rng, count: check(rng, folders, place, count), 500)
    # The damage is neither always noticed nor never.
    assert count.fine > 50 and count.refused > 50
