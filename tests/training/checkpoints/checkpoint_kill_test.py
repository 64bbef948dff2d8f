"""SIGKILL while saving: the newest finished step is found, whole, bit by bit."""

import random
import time

import limits
import programs
import pytest
import toy_job
from checkpoint_states import kept, restore

from etc_jax.training.checkpoints import manifest
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.run import train_and_evaluate

# A run of 16 steps saves for about a second, on a machine that does nothing else.
SECS_AFTER_FIRST_SAVE = 0.8


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return str(tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def reference(cache, tmp_path_factory):
    """Step -> digest of the state that an uninterrupted run saves."""
    digests, save = {}, Checkpointer.save

    def noted(self, state, data, *, step, **more):
        digests[step] = toy_job.digest(state)
        save(self, state, data, step=step, **more)

    config = toy_job.long_config(train__compile_cache_dir=cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Checkpointer, "save", noted)
        train_and_evaluate(config, tmp_path_factory.mktemp("whole"))
    assert sorted(digests) == list(range(1, 17))
    return digests


@pytest.fixture(scope="module")
def start_run(cache):
    """Starts `toy_job.main` in a process of its own, which need not import again."""
    return lambda workdir: programs.process(toy_job.main, str(workdir), cache)


def kill_at_random(process, workdir, rng):
    """SIGKILL some time after the first save has begun; what stood there then."""
    root, deadline = workdir / "checkpoints", time.monotonic() + limits.SECS
    before = set(kept(workdir)) if root.exists() else set()
    while process.is_alive() and time.monotonic() < deadline:
        if root.exists() and set(kept(workdir)) - before:
            time.sleep(rng.uniform(0, SECS_AFTER_FIRST_SAVE))
            break
        time.sleep(0.005)
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


def kill_many(count, start_run, reference, folder, seed, enough=None):
    """Kills within a save, of `count` or until there are `enough` such ones."""
    rng = random.Random(seed)
    kills = mid_save = runs = 0
    workdir = folder / "0"
    while kills < count and mid_save != enough:
        ended, names = kill_at_random(start_run(workdir), workdir, rng)
        whole = finished(workdir)
        got = restore(workdir)
        if got is None:
            assert not whole
        else:
            assert got.data["step"] == max(whole)
            assert toy_job.digest(got.state) == reference[max(whole)]
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
    return mid_save


def test_kill_9_while_saving(start_run, reference, tmp_path):
    assert kill_many(10, start_run, reference, tmp_path, seed=1, enough=1) > 0


@pytest.mark.full
def test_kill_9_while_saving_many_times(start_run, reference, tmp_path):
    assert kill_many(50, start_run, reference, tmp_path, seed=2) > 10
