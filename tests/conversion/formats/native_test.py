"""The project's own folder of a model: bit by bit, whole or absent."""

import dataclasses
import functools
import json

import jax
import ml_dtypes
import numpy as np
import pytest
from safetensors import SafetensorError

from etc_jax.base import whole_files
from etc_jax.conversion.formats import native, safetensors_io
from etc_jax.models.etc.config import EtcConfig

CONFIG = EtcConfig(vocab_size=11, max_distance=3, num_labels=12, parent_labels=(10, 11))
NAN = np.array([0x7FC12345], np.uint32).view(np.float32)  # a NaN with a message
PARAMS = {
    "encoder": {
        "embedding": np.random.default_rng(0).normal(size=(11, 3)).astype(np.float32),
        "kernel": np.arange(12, dtype=np.float32).reshape(3, 4).T,
        "half": np.array([1.5, -0.0], ml_dtypes.bfloat16),
    },
    "cpc_log_temperature": np.float32(-2.3),
    "odd": NAN,
}
REPORT = {"made_from": "nothing", "left_over": []}


@pytest.fixture
def folder(tmp_path):
    native.save(tmp_path / "deep" / "model", PARAMS, CONFIG, REPORT)
    return tmp_path / "deep" / "model"


def contents(folder):
    """{name: bytes} of everything below a folder."""
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_model_comes_back_bit_by_bit(folder):
    params, config = native.load(folder)
    assert config == CONFIG
    assert jax.tree.structure(params) == jax.tree.structure(PARAMS)
    for got, want in zip(jax.tree.leaves(params), jax.tree.leaves(PARAMS), strict=True):
        want = np.asarray(want, order="C")
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert got.tobytes() == want.tobytes()
    assert native.read_config(folder) == CONFIG
    assert json.loads((folder / native.REPORT).read_text()) == REPORT


def test_arrays_of_a_device_are_saved_as_well(tmp_path):
    params = {"a": jax.numpy.arange(3.0), "b": jax.numpy.float32(2)}
    native.save(tmp_path / "model", params, CONFIG, REPORT)
    got = native.load(tmp_path / "model").params
    np.testing.assert_array_equal(got["a"], [0, 1, 2])
    assert got["b"].shape == ()


def test_the_same_model_is_the_same_bytes(folder, tmp_path):
    native.save(tmp_path / "again", PARAMS, CONFIG, REPORT)
    assert contents(tmp_path / "again") == contents(folder)


def test_nothing_is_overwritten_unless_asked(folder):
    before = contents(folder)
    with pytest.raises(ValueError, match="holds a saved model already; overwrite it"):
        native.save(folder, {"x": np.ones(2)}, CONFIG, REPORT)
    assert contents(folder) == before
    native.save(folder, {"x": np.ones(2)}, CONFIG, REPORT, overwrite=True)
    assert set(native.load(folder).params) == {"x"}
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_a_folder_of_something_else_is_never_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(ValueError, match="is there and no saved model"):
            native.save(tmp_path / "mine", PARAMS, CONFIG, REPORT, overwrite=overwrite)
    with pytest.raises(ValueError, match="is there and no saved model"):
        native.check_free(tmp_path / "mine" / "thesis.txt", overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "years of work"


def test_an_empty_folder_may_be_used(tmp_path):
    (tmp_path / "model").mkdir()
    native.save(tmp_path / "model", PARAMS, CONFIG, REPORT)
    assert native.exists(tmp_path / "model")


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path, overwrite):
    target = tmp_path / "model"
    if overwrite:
        native.save(target, PARAMS, CONFIG, REPORT)
    before = contents(tmp_path)
    with pytest.raises(TypeError):  # after the arrays have been written
        native.save(target, PARAMS, CONFIG, {"x": object()}, overwrite=overwrite)
    assert contents(tmp_path) == before
    assert target.exists() == overwrite


def test_a_folder_that_cannot_be_replaced_stays(folder, monkeypatch):
    before = contents(folder)

    def fails(one, other):
        raise PermissionError("no")

    monkeypatch.setattr(whole_files, "_exchange", fails)
    with pytest.raises(PermissionError):
        native.save(folder, {"x": np.ones(2)}, CONFIG, REPORT, overwrite=True)
    assert contents(folder.parent) == before == contents(folder)


def test_all_files_may_be_read_by_the_same_people(folder):
    assert len({path.stat().st_mode for path in folder.iterdir()}) == 1


def test_what_lies_beside_a_model_and_its_files_stays(folder):
    mine = [
        *(folder / "NOTES.md", folder / "eval" / "scores.json"),
        *(folder.parent / name / "thesis" for name in (".model.part", ".model.old")),
    ]
    for path in mine:
        path.parent.mkdir(exist_ok=True)
        path.write_text("mine")
    about = (native.MODEL, native.PARAMS, native.REPORT)
    save = functools.partial(native.save, folder, PARAMS, CONFIG, REPORT)
    save(files={"tokenizer.json": b"1", "pooling/x.json": b"2"}, overwrite=True)
    save(files={"labels.json": b"3"}, overwrite=True)
    assert all(path.read_text() == "mine" for path in mine)
    assert contents(folder).keys() == {*about, "labels.json", "NOTES.md", "scores.json"}
    with pytest.raises(ValueError, match="NOTES.md is not one of the files that are"):
        save(files={"NOTES.md": b"4"}, overwrite=True)
    assert mine[0].read_text() == "mine"


def test_a_damaged_model_can_be_overwritten(folder):
    (folder / native.MODEL).write_text("{")
    (folder / "NOTES.md").write_text("mine")
    native.save(folder, {"x": np.ones(2)}, CONFIG, REPORT, overwrite=True)
    assert set(native.load(folder).params) == {"x"}
    assert (folder / "NOTES.md").read_text() == "mine"


def test_a_flipped_bit_is_found(folder):
    path = folder / native.PARAMS
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="params.safetensors.*its checksum differs"):
        native.load(folder)


def test_files_that_are_not_there_are_named(folder):
    (folder / native.PARAMS).unlink()
    with pytest.raises(ValueError, match="params.safetensors does not exist"):
        native.load(folder)
    with pytest.raises(ValueError, match="no saved model at .*model.json"):
        native.load(folder.parent)


def change(folder, **changes):
    path = folder / native.MODEL
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_another_format_is_refused(folder):
    change(folder, format="etc_jax model 2")
    with pytest.raises(ValueError, match="'etc_jax model 2'; expected 'etc_jax model"):
        native.read_config(folder)


@pytest.mark.parametrize("text", ["{", "[]", "{}"])
def test_a_damaged_description_is_refused(folder, text):
    (folder / native.MODEL).write_text(text)
    with pytest.raises(ValueError, match="model.json is damaged"):
        native.load(folder)


@pytest.mark.parametrize(
    "section, message",
    [
        ({"family": "etcc"}, "did you mean 'etc'"),
        ({}, "model.family"),
        ({"family": "etc", "vocab_sise": 3}, "model.vocab_sise unknown key"),
        ({"family": "etc", "num_layers": 0}, "model.num_layers is 0"),
        ({"family": "etc", "num_heads": "12"}, "model.num_heads is '12'"),
    ],
)
def test_a_bad_config_of_a_model_names_the_field(section, message):
    with pytest.raises(ValueError, match=message):
        native.model_config(section)


def test_a_config_of_no_family_is_refused(tmp_path):
    @dataclasses.dataclass(frozen=True)
    class Other:
        x: int = 1

    with pytest.raises(ValueError, match="Other is no registered model config"):
        native.save(tmp_path / "model", PARAMS, Other(), REPORT)
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_full_is_an_error_of_the_system(tmp_path, monkeypatch):
    """The package has an error of its own, which no command knows."""

    def full(*args, **options):
        raise SafetensorError("I/O error: No space left on device")

    monkeypatch.setattr(safetensors_io, "save_file", full)
    with pytest.raises(OSError, match="No space left on device: '.*/a.safetensors'"):
        safetensors_io.write(tmp_path / "a.safetensors", {"a": np.zeros(3)})
