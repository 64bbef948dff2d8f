"""SIGKILL while saving: the newest finished step is found, whole, bit by bit."""

import random
import time

import limits
import programs
import pytest
import toy_job
from checkpoint_states import kept, restore
from training_runs import losses

from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.run import train_and_evaluate

# A run of 16 steps saves for about a second, on a machine that does nothing else.
SECS_AFTER_FIRST_SAVE = 0.8


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """({step: digest of what an uninterrupted run saves}, its losses)."""
    digests, save = {}, Checkpointer.save
    folder = tmp_path_factory.mktemp("whole")

    def noted(self, state, data, *, step, **more):
        digests[step] = toy_job.digest(state)
        save(self, state, data, step=step, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpointer, "save", noted)
        train_and_evaluate(toy_job.long_config(), folder)
    assert sorted(digests) == list(range(1, 17))
    return digests, losses(folder)


def kill_at_random(process, workdir, rng):
    """SIGKILL some time after the first save has begun; what stood there then."""
    root = workdir / "checkpoints"
    before = set(kept(workdir)) if root.exists() else set()
    limits.until(
        lambda: (
            not process.is_alive() or (root.exists() and set(kept(workdir)) - before)
        )
    )
    if process.is_alive():
        time.sleep(rng.uniform(0, SECS_AFTER_FIRST_SAVE))
    ended = not process.is_alive()
    process.kill()
    process.join()
    assert not ended or process.exitcode == 0
    process.close()
    return ended, kept(workdir)


def finished(workdir):
    """Steps whose list of files stands."""
    names = [name for name in kept(workdir) if name.isdigit()]
    root = workdir / "checkpoints"
    return [int(n) for n in names if (root / n / manifest.NAME).exists()]


def kill_many(count, reference, folder, seed, enough=None):
    """Kills within a save, of `count` or until there are `enough` such ones."""
    rng, (digests, whole_losses) = random.Random(seed), reference
    kills = mid_save = runs = 0
    workdir = folder / "0"
    while kills < count and mid_save != enough:
        # In a process of its own, which need not import again.
        process = programs.process(toy_job.long_run, str(workdir))
        ended, names = kill_at_random(process, workdir, rng)
        whole = finished(workdir)
        got = restore(workdir)
        if got is None:
            assert not whole
        else:
            assert got.data["step"] == max(whole)
            assert toy_job.digest(got.state) == digests[max(whole)]
        # Killed between Orbax's commit and the list, it was not finished.
        aside = (workdir / "bad_checkpoints").glob("*")
        assert not [path for path in aside if (path / manifest.NAME).exists()]
        assert all(name.isdigit() for name in kept(workdir))
        if ended:
            assert max(whole) == 16
        kills += not ended
        mid_save += set(names) != set(map(str, whole))
        if ended or (whole and max(whole) == 16):
            runs += 1
            workdir = folder / str(runs)
    print(f"{kills} kills, {mid_save} while a save was under way; nothing was lost")
    # The last one goes on to the same end, and each step is in the metrics once.
    result = train_and_evaluate(toy_job.long_config(), workdir)
    assert toy_job.digest(result.state) == digests[16]
    assert losses(workdir) == whole_losses
    return mid_save


def test_kill_9_while_saving(reference, tmp_path):
    assert kill_many(10, reference, tmp_path, seed=1, enough=1) > 0


@pytest.mark.full
def test_kill_9_while_saving_many_times(reference, tmp_path):
    assert kill_many(50, reference, tmp_path, seed=2) > 10
