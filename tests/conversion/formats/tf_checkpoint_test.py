"""Bundles written here byte by byte; the official one is among the golden cases."""

import struct

import numpy as np
import pytest

from etc_jax.conversion.formats.tf_checkpoint import TfCheckpoint


def crc32c(data):
    """Bit by bit: remainder modulo the Castagnoli polynomial, reflected."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 * (crc & 1))
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % 2**32


def varint(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, data):
    return varint(field << 3 | 2) + varint(len(data)) + data


def block(entries):
    """Keys in full, one restart point, no compression."""
    body = b"".join(
        varint(0) + varint(len(k)) + varint(len(v)) + k + v for k, v in entries
    )
    body += struct.pack("<II", 0, 1)
    return body, body + b"\0" + struct.pack("<I", masked(body + b"\0"))


def write(folder, arrays, dtypes, name="model.ckpt", shards=2):
    """Writes a bundle with its variables dealt over the shards."""
    data = [b""] * shards
    entries = [(b"", number(1, shards))]
    for i, key in enumerate(sorted(arrays)):
        raw, shard = arrays[key].tobytes(), i % shards
        shape = b"".join(message(2, number(1, d)) for d in arrays[key].shape)
        entry = number(1, dtypes[key]) + message(2, shape) + number(3, shard)
        entry += number(4, len(data[shard])) + number(5, len(raw))
        entry += varint(6 << 3 | 5) + struct.pack("<I", masked(raw))
        entries.append((key.encode(), entry))
        data[shard] += raw
    first, file = block(entries[:2])
    handles = [(b"m", varint(0) + varint(len(first)))]
    second, stored = block(entries[2:])
    handles.append((b"z", varint(len(file)) + varint(len(second))))
    file += stored
    index, stored = block(handles)
    footer = varint(0) + varint(0) + varint(len(file)) + varint(len(index))
    file += stored + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)
    (folder / f"{name}.index").write_bytes(file)
    for shard, raw in enumerate(data):
        path = folder / f"{name}.data-{shard:05d}-of-{shards:05d}"
        path.write_bytes(raw)
    return folder / name


ARRAYS = {
    "a/kernel": np.arange(600, dtype=np.float32).reshape(20, 30),
    "b/step": np.array(77, np.int64),
    "c/empty": np.zeros((0, 3), np.float32),
    "d/half": np.array([0.5, -2], np.float16),
}
DTYPES = {"a/kernel": 1, "b/step": 9, "c/empty": 1, "d/half": 19}


def test_variables_of_all_shards_are_read(tmp_path):
    write(tmp_path, ARRAYS, DTYPES)
    checkpoint = TfCheckpoint(tmp_path)
    assert list(checkpoint) == sorted(ARRAYS)
    for name, value in ARRAYS.items():
        assert checkpoint[name].dtype == value.dtype
        np.testing.assert_array_equal(checkpoint[name], value)
    checkpoint.verify()


def test_check_value_of_the_checksum():
    assert crc32c(b"123456789") == 0xE3069283


def test_a_changed_byte_of_data_is_found(tmp_path):
    prefix = write(tmp_path, ARRAYS, DTYPES)
    path = tmp_path / "model.ckpt.data-00000-of-00002"
    raw = bytearray(path.read_bytes())
    raw[5] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ValueError, match=r"checksum is wrong for \['a/kernel'\]"):
        TfCheckpoint(prefix).verify()


def test_a_changed_byte_of_the_index_is_found(tmp_path):
    prefix = write(tmp_path, ARRAYS, DTYPES)
    path = tmp_path / "model.ckpt.index"
    raw = bytearray(path.read_bytes())
    raw[12] ^= 1
    path.write_bytes(raw)
    with pytest.raises(ValueError, match="wrong checksum"):
        TfCheckpoint(prefix)


def test_cut_data_is_found(tmp_path):
    prefix = write(tmp_path, ARRAYS, DTYPES)
    path = tmp_path / "model.ckpt.data-00000-of-00002"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ValueError, match="ends within variable 'a/kernel'"):
        TfCheckpoint(prefix)["a/kernel"]


def test_unsupported_types_are_named(tmp_path):
    write(tmp_path, ARRAYS, DTYPES | {"d/half": 7})
    with pytest.raises(ValueError, match="'d/half' has TensorFlow type 7"):
        TfCheckpoint(tmp_path)["d/half"]


def test_a_wrong_place_is_named(tmp_path):
    with pytest.raises(ValueError, match="no TensorFlow checkpoint at"):
        TfCheckpoint(tmp_path / "model.ckpt")
    with pytest.raises(ValueError, match="holds 0 checkpoints"):
        TfCheckpoint(tmp_path)
    (tmp_path / "x.index").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="is not the index of a TensorFlow"):
        TfCheckpoint(tmp_path / "x")
