"""A small pre-training run along the main path: its config, and what is seen of it."""

import contextlib
import hashlib

import ml_collections
import pytest
from small_text import SMALL, make_cache

from etc_jax import config as config_lib
from etc_jax.cli import flag as config_flag
from etc_jax.data.pretraining.readers import PretrainingReader

DROPOUT = {"model.dropout_rate": 0.1, "model.attention_dropout_rate": 0.1}
MESH = {"mesh.data": 2, "mesh.fsdp": 2, "mesh.tensor": 2}


@pytest.fixture(name="cache_dir", scope="module")
def cache_dir_fixture(tmp_path_factory):
    """Token caches of the small text, where those of the built-in text would be."""
    return make_cache(tmp_path_factory.mktemp("token_cache"))


def quickstart_values() -> ml_collections.ConfigDict:
    """What `--config=quickstart` says, read as the command line reads it."""
    return config_flag.read("quickstart")


def small_config(*changes, **more) -> config_lib.Config:
    values = quickstart_values()
    for change in (SMALL, *changes, more):
        values.update_from_flattened_dict(change)
    return config_lib.from_config_dict(values)


@contextlib.contextmanager
def noted_batches():
    """Notes {step: digest of the tokens} of the training batches that are read.

    One that is read again is the same.
    """
    seen: dict[int, str] = {}
    read = PretrainingReader.batch_at

    def batch_at(self, step, rows=None):
        batch = read(self, step, rows)
        # Whole batches are looked at before; evaluation numbers its own.
        if rows is not None and not self._evaluation:
            digest = hashlib.sha256(batch["long_tokens"].tobytes()).hexdigest()
            assert seen.setdefault(step, digest) == digest, step
        return batch

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PretrainingReader, "batch_at", batch_at)
        yield seen
