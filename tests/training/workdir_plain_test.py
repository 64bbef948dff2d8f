"""A workdir that was received leads nowhere else, and nobody waits in it."""

import os

import pytest
import toy_job

from etc_jax.training import workdir
from etc_jax.training.errors import UserError

OUTSIDE = "not of the run"
FILES = (
    *("run.json", "owner.json", "metrics.jsonl", "last_checkpoint.json"),
    *("tokenizer.json", ".metrics.jsonl.etc_jax-0", "checkpoints/4/manifest.json"),
)
FOLDERS = ("checkpoints", "bad_checkpoints", "checkpoints/4", "checkpoints/4.deleting")
CHECKS = {
    "check": lambda folder: workdir.check(toy_job.config(), folder),
    "recorded": workdir.recorded,
}


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "run"
    made.mkdir()
    return made


def _refused(folder, message, check):
    before = sorted(folder.rglob("*"))
    with pytest.raises(UserError, match=message) as caught:
        check(folder)
    assert "\n" not in str(caught.value)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("check", CHECKS.values(), ids=CHECKS)
@pytest.mark.parametrize("name", FILES + FOLDERS)
@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_link_or_pipe_of_the_name_of_a_run_s_file_is_refused(
    folder, name, kind, check
):
    outside = folder.parent / "outside"
    outside.write_text(OUTSIDE) if name in FILES else outside.mkdir()
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(outside) if kind == "link" else os.mkfifo(path)
    _refused(folder, f"{name} is a {kind}, but a run has plain files", check)
    assert outside.is_dir() or outside.read_text() == OUTSIDE


def test_all_that_is_wrong_is_one_error(folder):
    for name in ("owner.json", "metrics.jsonl"):
        (folder / name).symlink_to("nowhere")
    (folder / "checkpoints").write_text("")
    (folder / "run.json").mkdir()
    _refused(
        folder,
        "checkpoints is a file, metrics.jsonl is a link, owner.json is a link, "
        "run.json is a folder, but",
        CHECKS["check"],
    )


def test_a_workdir_that_is_a_link_and_files_of_others_do(folder):
    (folder / "notes").symlink_to("nowhere")
    (folder / "wandb").mkdir()
    (folder / "wandb" / "latest-run").symlink_to("nowhere")
    link = folder.parent / "link"
    link.symlink_to(folder)
    assert os.path.samefile(workdir.check(toy_job.config(), link), folder)
