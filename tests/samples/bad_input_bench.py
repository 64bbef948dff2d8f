"""What mistakes are made with: good text, configs, and runs that must be refused."""

import dataclasses
import json
import shutil

import numpy as np
import pytest
import tiny_text
import toy_job
from config_changes import changed

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.objectives.jobs import pretraining as pretraining_job
from etc_jax.objectives.sections import MlmCpcConfig
from etc_jax.training.errors import CorruptCheckpointError, UserError
from etc_jax.training.run import train_and_evaluate

SPOILT = "spoilt_mlm_cpc"


def mistakes():
    """(an empty list, a decorator that adds to it, a function that does).

    What is added is (number, title, what the message must hold, the function): it takes
    a `Bench`, makes the mistake there, and returns the message. The second way is
    `plain(how)(number, title, *parts, **changes)`, where `how` is the method of `Bench`
    that is called with the changes.
    """
    found = []

    def mistake(number, title, *parts):
        def add(fn):
            found.append((number, title, parts, fn))
            return fn

        return add

    def plain(how):
        def add(number, title, *parts, **changes):
            mistake(number, title, *parts)(lambda bench: how(bench, **changes))

        return add

    return found, mistake, plain


@dataclasses.dataclass
class Bench:
    """What a mistake is made with; each has an empty folder of its own."""

    folder: object
    rows: object  # a good JSONL file
    cache: object  # token caches of it
    finished: object  # a run of the toy, 4 steps
    monkeypatch: object

    def text_config(self, **changes):
        """A config of real pre-training, changes as `data__vocab_size=3`."""
        usual = {"train__batch_size": 8}
        if changes.get("data__source") != "cache":
            usual["data__paths"] = (str(self.rows),)
            usual["data__cache_dir"] = str(self.cache)
        return tiny_text.config(**{**usual, **changes})

    def refused(self, config, workdir=None):
        """What a run says that is refused."""
        with pytest.raises((UserError, CorruptCheckpointError)) as caught:
            train_and_evaluate(config, workdir or self.folder / "run")
        return str(caught.value)

    def text(self, **changes):
        return self.refused(self.text_config(**changes))

    def toy(self, **changes):
        return self.refused(toy_job.config(**{"train__num_steps": 4, **changes}))

    def config(self, values=None, **changes):
        """What is said about a config that is refused."""
        values = toy_job.config_dict().to_dict() if values is None else values
        with pytest.raises(config_lib.ConfigError) as caught:
            changed(values, changes)
        assert len(caught.value.problems) == 1
        return str(caught.value)

    def spoilt(self, spoil_fn):
        """The real job with batches that `spoil_fn` has changed."""
        self.monkeypatch.setattr(Spoilt, "fn", staticmethod(spoil_fn))
        return self.text(objective__name=SPOILT)

    def put(self, **changes):
        """The real job with batches of which one value is another."""

        def spoil(batch):
            array = {name: np.array(batch[name]) for name in changes}
            for name, value in changes.items():
                array[name].flat[0] = value
            return {**batch, **array}

        return self.spoilt(spoil)

    def again(self, **changes):
        """The finished run, continued."""
        shutil.copytree(self.finished, self.folder / "run", dirs_exist_ok=True)
        return self.toy(**changes)

    def unrecorded(self, **changes):
        """A run on the changed workdir, without the record that refuses earlier."""
        shutil.copytree(self.finished, self.folder / "run", dirs_exist_ok=True)
        (self.folder / "run" / "run.json").unlink()
        return self.toy(**changes)

    def tampered_cache(self, change_fn):
        """What is said of a copy of the training cache that `change_fn` has changed.

        The copy is of a version without checksums: those would be said first.
        """
        (found,) = (p.parent for p in self.cache.glob("*/train/header.json"))
        copy = self.folder / "copy"
        shutil.copytree(found, copy)
        change_fn(copy)
        header = json.loads((copy / "header.json").read_text())
        older = {"format_version": header["format_version"] - 1}
        kept = {k: v for k, v in header.items() if k not in ("files", "checksum")}
        for facts in kept["arrays"].values():
            facts.pop("checksum", None)
            facts.pop("head", None)
        (copy / "header.json").write_text(json.dumps(kept | older))
        paths = (str(copy),)
        return self.text(
            data__source="cache",
            data__paths=paths,
            data__validation_paths=(str(found.parent / "held_back"),),
        )


class Spoilt:
    """What happens to the batches of the spoilt job."""

    @staticmethod
    def fn(batch):
        return batch


@registry.register("objective_config", SPOILT)
@dataclasses.dataclass(frozen=True)
class SpoiltConfig(MlmCpcConfig):
    """That of what is spoilt."""


@registry.register("objective", SPOILT)
def spoilt_job(config, folder):
    job = pretraining_job.make_job(config, folder)
    return dataclasses.replace(
        job, train_batch=lambda step, rows: Spoilt.fn(job.train_batch(step, rows))
    )
