"""Makes a golden checkpoint: a file that later versions must be able to read.

    PYTHONPATH=.:tests python tests/training/golden_checkpoint/make.py NAME

writes tests/training/golden_checkpoint/NAME: the checkpoint of a short toy run, with
the sha256 of each array and the versions it was made with in NAME.json. One is made
for each release (named by its version) and never changed.
"""

import hashlib
import importlib.metadata
import json
import os
import pathlib
import shutil
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
PACKAGES = ("jax", "orbax-checkpoint", "optax", "tensorstore", "numpy")


def sha256(array) -> str:
    """Of dtype, shape and every bit."""
    import numpy as np

    array = np.asarray(array)
    head = f"{array.dtype}{list(array.shape)}".encode()
    return hashlib.sha256(head + array.tobytes()).hexdigest()


def main(name: str) -> None:
    import jax
    import toy_job

    from etc_jax.sharding import path_of
    from etc_jax.training.run import train_and_evaluate

    with tempfile.TemporaryDirectory() as folder:
        config = toy_job.config(mesh__fsdp=2, mesh__tensor=2, checkpoint__keep=1)
        state = train_and_evaluate(config, folder).state
        source = pathlib.Path(folder) / "checkpoints" / "12"
        shutil.copytree(source, HERE / name / "checkpoints" / "12")
    flat, _ = jax.tree_util.tree_flatten_with_path(state)
    record = {
        "versions": {p: importlib.metadata.version(p) for p in PACKAGES},
        "arrays": {path_of(path): sha256(leaf) for path, leaf in flat},
    }
    (HERE / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
    main(*sys.argv[1:])
