"""Damaged models of Hugging Face are read, or refused in one clear error."""

from __future__ import annotations

import argparse
import functools
import json
import random
import shutil

import pytest
from clean_errors import Count, run_trials, trial
from foreign_folders import FAMILIES, files_of, header_of, with_header
from mutations import damaged, mutated, spelled

from etc_jax.cli import convert_sources
from etc_jax.models.encoder import weights as encoder
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.reformer import weights as reformer

WEIGHTS = "model.safetensors"


def _damaged_json(content: bytes, rng: random.Random) -> bytes:
    if rng.random() < 0.2:
        return damaged(content, rng)
    text = spelled(mutated(json.loads(content), rng), rng)
    return text.encode("utf-8", "surrogatepass")


def _damaged_weights(content: bytes, rng: random.Random) -> bytes:
    kind = rng.randrange(3)
    header, arrays = header_of(content)
    if kind == 0:
        return damaged(content, rng)
    if kind == 1:
        return with_header(spelled(mutated(header, rng), rng), arrays)
    # Not a number, infinite, or large, somewhere in an array.
    at = rng.randrange(len(arrays) // 4) * 4
    odd = rng.choice(("0000c07f", "0000807f", "000080ff", "ffff7f7f"))
    return with_header(
        json.dumps(header), arrays[:at] + bytes.fromhex(odd) + arrays[at + 4 :]
    )


def _change(files: dict[str, bytes], rng: random.Random) -> str:
    """Damages one file, and says which."""
    kind = rng.random()
    if kind < 0.5:
        name = "config.json"
    elif kind < 0.7:
        name = WEIGHTS
    else:
        name = rng.choice(sorted(files.keys() - {"config.json", WEIGHTS}))
    if rng.random() < 0.02:
        del files[name]
    elif name == WEIGHTS:
        files[name] = _damaged_weights(files[name], rng)
    elif name.endswith(".json"):
        files[name] = _damaged_json(files[name], rng)
    else:
        files[name] = damaged(files[name], rng)
    return name


@pytest.fixture(scope="module", autouse=True)
def shapes_are_kept():
    """Tracing the same model anew for each trial would be most of the time."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (encoder, encoder_decoder, reformer):
            patch.setattr(module, "shapes", functools.lru_cache(64)(module.shapes))
        yield


def check(rng: random.Random, place, count: Count) -> None:
    family = rng.choice(sorted(FAMILIES))
    files = dict(files_of(family, rng.random() < 0.5))
    name = _change(files, rng)
    shutil.rmtree(place, ignore_errors=True)
    (place / "hf").mkdir(parents=True)
    for file, content in files.items():
        (place / "hf" / file).write_bytes(content)
    args = argparse.Namespace(
        hf=str(place / "hf"),
        out=str(place / "ours"),
        overwrite=False,
        without_tokenizer=False,
        command_line="etc-jax convert",
    )
    trial(lambda: convert_sources.hf(args), count, f"{family} {name}")


@pytest.mark.parametrize(
    "trials, fine, refused",
    [(200, 10, 50), pytest.param(1000, 50, 250, marks=pytest.mark.full)],
)
def test_damaged_models_are_read_or_refused(tmp_path, trials, fine, refused):
    place = tmp_path / "trial"
    count = run_trials(lambda rng, count: check(rng, place, count), trials)
    # The damage is neither always noticed nor never.
    assert count.fine > fine and count.refused > refused
