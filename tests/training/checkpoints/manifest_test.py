"""The list of a folder's files finds every change to them, and to itself."""

import json

import pytest

from etc_jax.training.checkpoints import manifest


@pytest.fixture
def folder(tmp_path):
    """Three files, one of them empty, one below."""
    (tmp_path / "a").write_bytes(bytes(range(40)))
    (tmp_path / "none").write_bytes(b"")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "manifest.json").write_bytes(b"of something else")
    manifest.write(tmp_path)
    assert manifest.verify(tmp_path) is None
    return tmp_path


def crc32(content: bytes) -> int:
    """Bit by bit: the remainder by the reflected polynomial 0xEDB88320."""
    value = 0xFFFFFFFF
    for byte in content:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0xEDB88320 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


def test_the_list_is_what_it_says(folder):
    listed = json.loads((folder / manifest.NAME).read_text())["files"]
    assert listed == {
        "a": [40, crc32(bytes(range(40)))],
        "none": [0, 0],
        "sub/manifest.json": [17, crc32(b"of something else")],
    }


@pytest.mark.parametrize("name", ["a", "sub/manifest.json", manifest.NAME])
def test_every_flipped_bit_is_found(folder, name):
    path = folder / name
    whole = path.read_bytes()
    for bit in range(8 * len(whole)):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        fault = manifest.verify(folder)
        assert fault is not None and name in fault, (bit, fault)
    path.write_bytes(whole)
    assert manifest.verify(folder) is None


@pytest.mark.parametrize("name", ["a", "sub/manifest.json", manifest.NAME])
def test_every_truncation_is_found(folder, name):
    path = folder / name
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        assert name in manifest.verify(folder), size


def test_a_longer_file_is_found(folder):
    (folder / "none").write_bytes(b"\0")
    assert manifest.verify(folder) == "file none has 1 bytes, expected 0"


def test_a_missing_and_a_stray_file_are_found(folder):
    (folder / "sub" / "new").write_text("")
    assert manifest.verify(folder) == "file sub/new is not in manifest.json"
    (folder / "a").unlink()
    assert manifest.verify(folder) == "file a is missing"


def test_a_missing_list_is_a_fault(tmp_path):
    assert not manifest.exists(tmp_path)
    assert manifest.verify(tmp_path) == "manifest.json is missing"


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"files": {"a": 1}}', '{"files": 3}', '{"files": {}, "x": 1}'],
)
def test_a_list_that_is_none_is_a_fault(tmp_path, content):
    (tmp_path / manifest.NAME).write_text(content)
    assert "cannot be read" in manifest.verify(tmp_path)


def test_a_list_without_a_checksum_of_its_own_is_read(folder):
    path = folder / manifest.NAME
    files = json.loads(path.read_text())["files"]
    path.write_text(json.dumps({"files": files}))
    assert manifest.verify(folder) is None
    files["a"][1] += 1
    path.write_text(json.dumps({"files": files}))
    assert manifest.verify(folder) == "file a differs from its checksum"


def test_an_evaluation_that_a_kill_cut_short_damages_no_checkpoint(folder):
    (folder / f".{manifest.EVALUATION}.etc_jax-0").write_text("{")
    assert manifest.verify(folder) is None and manifest.strays(folder) == []
