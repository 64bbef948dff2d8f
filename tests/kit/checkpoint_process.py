"""One of two processes that save and restore together; see checkpoint_processes_test.

Prints, after SEEN, a line of JSON: what this process has seen.
"""

import json
import logging
import pathlib
import sys
import time
import zlib

import jax
import numpy as np
from checkpoint_states import data_file, flip_a_bit, kept, wanted
from jax.experimental import multihost_utils

from etc_jax.sharding import MeshConfig, make_mesh, path_of
from etc_jax.training.checkpoints import manifest, orbax_io as checkpoint_orbax
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.hosts import distributed

FULL = OSError(28, "No space left on device")


def values(path, leaf, step):
    """What the array at `path` holds in the state of `step`, as numpy."""
    rng = np.random.default_rng([zlib.crc32(path_of(path).encode()), step])
    return rng.integers(1 << 20, size=leaf.shape).astype(leaf.dtype)


def state_of(step, abstract):
    def one(path, leaf):
        whole = values(path, leaf, step)
        return jax.make_array_from_callback(
            leaf.shape, leaf.sharding, lambda index: whole[index]
        )

    return jax.tree_util.tree_map_with_path(one, abstract)


def is_state_of(step, state):
    """Whether every array is, on every device, what was saved at `step`."""

    def one(path, leaf):
        whole = multihost_utils.process_allgather(leaf, tiled=True)
        return np.array_equal(whole, values(path, leaf, step))

    return all(jax.tree.leaves(jax.tree_util.tree_map_with_path(one, state)))


class BadFuture:
    """A part of a checkpoint that cannot be written."""

    def result(self, timeout=None):
        raise FULL


def break_at_once(writer):
    save = writer._orbax._handler.async_save

    async def save_and_fail(*args, **kwargs):
        await save(*args, **kwargs)
        raise FULL

    writer._orbax._handler.async_save = save_and_fail


def break_later(writer):
    save = writer._orbax._handler.async_save

    async def save_and_fail(*args, **kwargs):
        return [*await save(*args, **kwargs), BadFuture()]

    writer._orbax._handler.async_save = save_and_fail


def failed_saves(workdir, abstract):
    """Saves that fail on one process only, each followed by one that works."""
    seen = []
    write = manifest.write

    def full(folder):
        raise FULL

    with Checkpointer(workdir, keep=20) as checkpointer:
        for step, where, how in [
            (10, 0, "listed"),
            (12, 0, break_at_once),
            (14, 0, break_later),
            (16, 1, break_at_once),
            (18, 1, break_later),
        ]:
            if jax.process_index() == where:
                if how == "listed":
                    manifest.write = full
                else:
                    how(checkpointer._writer)
            began = time.monotonic()
            checkpointer.save(state_of(step, abstract), {"step": step}, step=step)
            good = checkpointer.wait()
            manifest.write = write
            checkpointer.save(
                state_of(step + 1, abstract), {"step": step + 1}, step=step + 1
            )
            again = checkpointer.wait()
            secs = round(time.monotonic() - began, 2)
            seen.append([step, good, again, checkpointer.failed_saves, secs])
    distributed.together(lambda: None)
    return {"saves": seen, "kept": kept(workdir)}


def failed_choice(workdir, abstract):
    """A folder that only process 0 cannot read."""

    def broken(self):
        raise OSError(5, "Input/output error")

    choose, CheckpointFolder.choose = CheckpointFolder.choose, broken
    try:
        with Checkpointer(workdir, keep=3) as checkpointer:
            checkpointer.restore(abstract)
    except (OSError, distributed.PeerError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        CheckpointFolder.choose = choose


def restored(workdir, abstract):
    with Checkpointer(workdir, keep=3) as checkpointer:
        got = checkpointer.restore(abstract)
    return [got.data["step"], is_state_of(got.data["step"], got.state)]


def main(workdir, from_one):
    logging.basicConfig(level=logging.WARNING)
    workdir, mesh = pathlib.Path(workdir), make_mesh(MeshConfig(2, 2, 2))
    abstract, seen = wanted(mesh), {"processes": jax.process_count()}
    with jax.set_mesh(mesh):
        with Checkpointer(workdir, keep=3) as checkpointer:
            for step in (2, 4, 6):
                checkpointer.save(state_of(step, abstract), {"step": step}, step=step)
        seen["whole"] = restored(workdir, abstract)
        if jax.process_index() == 0:
            flip_a_bit(data_file(workdir / "checkpoints" / "6"))
        seen["after damage"] = restored(workdir, abstract)
        seen["unreadable"] = failed_choice(workdir, abstract)
        seen["of one process"] = restored(pathlib.Path(from_one), abstract)
        seen.update(failed_saves(workdir, abstract))
    print(f"SEEN {json.dumps(seen)}", flush=True)
    return 0


if __name__ == "__main__":
    checkpoint_orbax.STUCK_SECS = 2
    sys.exit(distributed.run(lambda: main(*sys.argv[1:])))
