"""Every job says what its batches are made of, and an edit changes that alone."""

import json
import os
import pathlib
import zipfile

import config_changes
import numpy as np
import pytest
import tiny_text

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.objectives.jobs.pretraining_data import prepare

BYTES = {
    "data.vocab_size": 257,
    "data.input_length": 32,
    "train.batch_size": 4,
    "model.vocab_size": 257,
    "model.embed_dim": 16,
    "model.num_layers": 1,
    "model.pattern": ("local",),
    "model.num_heads": 2,
    "model.mlp_dim": 16,
    "model.max_length": 32,
    "model.axial_shape": (4, 8),
    "model.axial_dims": None,
    "model.local_chunk_length": 8,
}


def made_of(config, folder):
    made = registry.lookup("objective", config.objective.name)(config, folder)
    assert all(len(digest) == 64 for digest in made.inputs.values())
    return made.inputs


def inputs_of(folder, **changes):
    return made_of(tiny_text.config(train__batch_size=2, **changes), folder)


def reformer(folder, name, **changes):
    values = config_lib.default_config("reformer")
    values.update_from_flattened_dict(BYTES)
    values.model.causal = name == "causal_lm"
    values.objective.name = name
    return made_of(config_changes.changed(values, changes), folder)


def changed(before, after):
    return sorted(x for x in before.keys() | after if before.get(x) != after.get(x))


def edit(path, old=b"a", new=b"e"):
    path.write_bytes(path.read_bytes().replace(old, new, 1))


@pytest.mark.parametrize("name", ["causal_lm", "masked_lm"])
def test_files_of_bytes(tmp_path, name):
    files = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in files:
        file.write_bytes(b"abcdefgh" * 100)
    said = {"data__source": "bytes", "data__paths": (str(tmp_path / "*.txt"),)}
    before = reformer(tmp_path, name, **said)
    assert before.keys() == {f"bytes {file}" for file in files}
    edit(files[1])
    assert changed(before, reformer(tmp_path, name, **said)) == [f"bytes {files[1]}"]
    (tmp_path / "c.txt").write_bytes(b"x")
    after = reformer(tmp_path, name, **said)
    assert f"bytes {tmp_path / 'c.txt'}" in changed(before, after)


def test_a_file_that_keeps_its_size_and_time_is_read_all_the_same(tmp_path):
    file = tmp_path / "a.zip"
    said = {"data__source": "bytes", "data__paths": (str(file),)}
    found = []
    for text in (b"abcdefgh" * 100, b"abcdefge" * 100):
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr(zipfile.ZipInfo("a"), text)
        os.utime(file, (0, 0))
        found.append((file.stat().st_size, reformer(tmp_path, "causal_lm", **said)))
    (first_size, first), (second_size, second) = found
    assert first_size == second_size and changed(first, second) == [f"bytes {file}"]


def test_images(tmp_path):
    files = {
        "data__paths": tmp_path / "a.npy",
        "data__validation_paths": tmp_path / "b.npy",
    }
    for file in files.values():
        np.save(file, np.zeros((9, 4, 8), np.uint8))
    said = {field: (str(file),) for field, file in files.items()}
    said["data__source"] = "byte_images"
    before = reformer(tmp_path, "causal_lm", **said)
    np.save(tmp_path / "b.npy", np.ones((9, 4, 8), np.uint8))
    after = reformer(tmp_path, "causal_lm", **said)
    assert changed(before, after) == [f"images {tmp_path / 'b.npy'}"]


def test_invented_sequences_have_no_input(tmp_path):
    assert reformer(tmp_path, "causal_lm", data__source="duplication") == {}


def test_text_its_tokens_and_its_vocabulary(tmp_path):
    pytest.importorskip("nupunkt")
    for name, seed in (("a", 0), ("b", 1)):
        tiny_text.write_rows(tmp_path / f"{name}.jsonl", 40, seed)
    said = {"data__paths": (str(tmp_path / "*.jsonl"),)}
    before = inputs_of(tmp_path / "run", **said)
    text = {f"text {tmp_path.name}/{name}.jsonl" for name in "ab"}
    tokens = {"tokenizer", "training tokens", "held-back tokens"}
    assert before.keys() == text | tokens
    elsewhere = inputs_of(tmp_path / "run", **said, data__cache_dir=str(tmp_path / "x"))
    assert elsewhere == before
    rows = (tmp_path / "b.jsonl").read_text().splitlines()
    rows[3] = json.dumps({"body": "Another row. " * 12})
    (tmp_path / "b.jsonl").write_text("\n".join(rows) + "\n")
    found = changed(before, inputs_of(tmp_path / "run", **said))
    assert f"text {tmp_path.name}/b.jsonl" in found
    assert f"text {tmp_path.name}/a.jsonl" not in found
    assert "training tokens" in found or "held-back tokens" in found


@pytest.fixture
def caches(tmp_path):
    pytest.importorskip("nupunkt")
    tiny_text.write_rows(tmp_path / "a.jsonl", 100)
    config = tiny_text.config(data__paths=(str(tmp_path / "a.jsonl"),))
    made = prepare(config.data, tmp_path / "made")
    return made.train[0].path, made.validation.path


def test_caches_of_tokens_and_their_mixture(caches, tmp_path):
    train, validation = map(str, caches)
    said = {"data__source": "cache", "data__validation_paths": (validation,)}
    one = inputs_of(tmp_path, **said, data__paths=(train,))
    assert one.keys() == {"tokenizer", *(f"token cache {x}" for x in caches)}
    both = (train, validation)
    mixed = inputs_of(tmp_path, **said, data__paths=both, data__weights=(1.0, 2.0))
    assert mixed == one
    # Another cache at the same place, which is whole.
    moved = pathlib.Path(train).rename(tmp_path / "aside")
    pathlib.Path(validation).rename(train)
    moved.rename(validation)
    swapped = inputs_of(tmp_path, **said, data__paths=(train,))
    assert changed(one, swapped) == sorted(f"token cache {x}" for x in caches)
