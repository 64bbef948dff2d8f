"""Folders of arrays, of tokens and of windows: what is reused, refused and damaged."""

import dataclasses
import json
import logging
import os
import re
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
from bombs import Bomb
from caches_before import window_cache_of_version_2, without_checksums
from window_samples import (
    SOURCE,
    contents,
    make_rich_window,
    make_tokenizer,
    make_windows,
)
from written_windows import write_windows

from etc_jax.data import parts
from etc_jax.data.text.cache import TokenCache, build_cache
from etc_jax.data.text.corpus import Document
from etc_jax.data.windows.cache import WindowCache


def make_tokens(path, seed=0, made_by="a", tokenizer=None, documents=None):
    text = "w2 w1" if seed == 0 else "w2 w3"
    documents = documents or [
        Document("d/0", ("w1 w2 w3", text)),
        Document("d/1", ("w3",)),
    ]
    tokenizer = tokenizer or make_tokenizer()
    return build_cache(
        documents, tokenizer, path, made_by={"files": [made_by]}, split_fn=list
    )


def make_window_cache(path, seed=0, made_by="a", tokenizer=None, windows=None):
    windows = windows or make_windows(3, seed, make_fn=make_rich_window)
    source = dataclasses.replace(SOURCE, made_by={"files": [made_by]})
    return write_windows(windows, tokenizer or make_tokenizer(), path, source)


class Kind(NamedTuple):
    name: str
    make: Callable
    opener: type[TokenCache] | type[WindowCache]


KINDS = {
    "tokens": Kind("token cache", make_tokens, TokenCache),
    "windows": Kind("window cache", make_window_cache, WindowCache),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


# --- what is there already ------------------------------------------------------------


def test_an_equal_cache_is_reused_without_work(kind, tmp_path):
    def unread():
        raise AssertionError("the source was read")
        yield

    made = kind.make(tmp_path / "c")
    before = contents(made.path)
    if kind.opener is TokenCache:
        again = kind.make(tmp_path / "c", documents=unread())
    else:
        again = kind.make(tmp_path / "c", windows=[None] * 3)  # of which no part is
    assert again.digest == made.digest and contents(again.path) == before


def test_another_cache_or_other_files_are_left_alone(kind, tmp_path):
    made = kind.make(tmp_path / "c")
    before = contents(made.path)
    for asked, name in (
        ({"made_by": "b"}, "made_by"),
        ({"tokenizer": make_tokenizer("more")}, "vocabulary"),
    ):
        # That of tokens tells a fingerprint of all.
        message = {"window cache": f"with {name} ", "token cache": "made differently"}
        with pytest.raises(ValueError, match=f"{message[kind.name]}.*another folder"):
            kind.make(tmp_path / "c", **asked)
    assert contents(made.path) == before
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match=f"exists and is not a {kind.name}"):
        kind.make(tmp_path / "d")
    assert os.listdir(tmp_path / "d") == ["thesis.txt"]
    assert sorted(os.listdir(tmp_path)) == ["c", "d"]


def test_a_cache_is_opened_with_its_own_vocabulary(kind, tmp_path):
    made, tokenizer = kind.make(tmp_path / "c"), make_tokenizer()
    assert kind.opener.open(made.path, tokenizer.fingerprint()).digest == made.digest
    with pytest.raises(ValueError, match="made with vocabulary .* in use is feedbeef"):
        kind.opener.open(made.path, "feedbeef")
    own = kind.opener.open(made.path).load_tokenizer()
    assert own.fingerprint() == tokenizer.fingerprint()
    make_tokenizer("more").save(made.path / "tokenizer.json")
    with pytest.raises(ValueError, match="tokenizer.json is vocabulary .* made with"):
        made.load_tokenizer()
    (made.path / "tokenizer.json").unlink()
    with pytest.raises(FileNotFoundError, match="tokenizer.json"):
        made.load_tokenizer()


def test_a_missing_cache_is_named(kind, tmp_path):
    with pytest.raises(FileNotFoundError, match=f"no {kind.name} in .*nowhere"):
        kind.opener.open(tmp_path / "nowhere")


# --- damage ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, every",
    [("tokens", 1), ("windows", 9), pytest.param("windows", 1, marks=pytest.mark.full)],
)
@pytest.mark.full(but=["tokens-1"])
def test_a_flipped_bit_in_any_byte_of_any_file_is_named(kind, every, tmp_path):
    _, make, opener = KINDS[kind]
    make(tmp_path / "c")
    opener.open(tmp_path / "c")
    rng, tried, missed = np.random.default_rng(0), 0, []
    for file in sorted((tmp_path / "c").iterdir()):
        whole = file.read_bytes()
        for place in range(0, len(whole), every):
            damaged = bytearray(whole)
            damaged[place] ^= 1 << int(rng.integers(8))
            file.write_bytes(damaged)
            tried += 1
            try:
                opener.open(tmp_path / "c")
                missed.append((file.name, place))
            except ValueError as error:
                assert file.name in str(error), (file.name, place, str(error))
        file.write_bytes(whole)
    print(f"{tried - len(missed)} of {tried} flipped bytes named")
    assert not missed and tried > 500


def test_a_file_of_another_length_or_none_is_named(kind, tmp_path):
    path = kind.make(tmp_path / "c").path
    files = sorted(path.iterdir())
    assert {f"{name}.npy" for name in kind.opener.open(path).header["arrays"]} <= {
        file.name for file in files
    }
    for file in files:
        whole = file.read_bytes()
        flipped = bytearray(whole)
        flipped[-1] ^= 0x10
        for damaged in (flipped, whole[:-1], whole[:50], b"", whole + b"\0", None):
            file.unlink() if damaged is None else file.write_bytes(damaged)
            if damaged is None and file.name == "header.json":
                expected = pytest.raises(FileNotFoundError, match=f"no {kind.name} in")
            else:
                expected = pytest.raises(ValueError, match=re.escape(file.name))
            with expected:
                kind.opener.open(path)
        file.write_bytes(whole)
    kind.opener.open(path)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"format_version": 99}, "format version 99, expected 3"),
        ({"checksum": None}, "header.json is damaged"),
        ({"vocabulary": 7}, "header.json is damaged"),
        ({"counts": 7}, "header.json is damaged"),
    ],
)
def test_a_damaged_or_newer_header_is_named(kind, tmp_path, change, message):
    file = kind.make(tmp_path / "c").path / "header.json"
    header = json.loads(file.read_text()) | change
    header = {name: value for name, value in header.items() if value is not None}
    file.write_text(json.dumps(header))
    with pytest.raises(ValueError, match=message):
        kind.opener.open(file.parent)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format_version": 2}'])
def test_a_header_of_another_form_is_one_clear_error(kind, tmp_path, text):
    path = kind.make(tmp_path / "c").path
    (path / "header.json").write_text(text)
    with pytest.raises(ValueError, match="header.json is damaged"):
        kind.opener.open(path)


@pytest.fixture
def unsealed(kind, tmp_path):
    """The folder of a cache of before checksums; nothing but its values tells damage.

    That of windows has arrays of other names.
    """
    if kind.opener is WindowCache:
        window_cache_of_version_2(tmp_path / "c")
    else:
        kind.make(tmp_path / "c")
    without_checksums(tmp_path / "c")
    return tmp_path / "c"


def test_arrays_of_another_length_or_of_objects_are_refused(kind, unsealed, tmp_path):
    for file in unsealed.glob("*.npy"):
        whole = file.read_bytes()
        dtype, message = np.load(file).dtype, f"{file.name} holds .*, expected"
        np.save(file, np.zeros((3, 5, 7), dtype))
        with pytest.raises(ValueError, match=message):
            kind.opener.open(unsealed)
        np.save(file, np.array([Bomb(tmp_path / "ran")], object), allow_pickle=True)
        message = f"{file.name} is damaged.*Python objects"
        with pytest.raises(ValueError, match=message):
            kind.opener.open(unsealed)
        file.write_bytes(whole)
    kind.opener.open(unsealed)
    assert not (tmp_path / "ran").exists()


def test_a_damaged_part_of_a_killed_run_is_not_taken_over(tmp_path):
    file, kept = tmp_path / "000000.npz", {"ids": np.arange(50, dtype=np.uint16)}
    parts.write_part(file, "of items", parts.Part({"records": 3}, kept))
    whole, rng, used = file.read_bytes(), np.random.default_rng(0), 0
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        if (found := parts.read_part(file, "of items")) is not None:
            used += 1  # a time or a flag of the archive, which says nothing
            assert found.facts == {"records": 3} and found.arrays.keys() == {"ids"}
            np.testing.assert_array_equal(found.arrays["ids"], kept["ids"])
            assert found.arrays["ids"].dtype == np.uint16
    assert used < len(whole) / 3


def test_the_digest_is_that_of_the_contents(kind, tmp_path):
    digests = {kind.make(tmp_path / x).digest for x in ("one", "other")}
    assert len(digests) == 1
    assert kind.make(tmp_path / "edited", seed=1).digest not in digests


def test_a_cache_of_before_checksums_is_read_and_says_so(
    kind, unsealed, tmp_path, caplog
):
    if kind.opener is WindowCache:
        sealed = window_cache_of_version_2(tmp_path / "sealed")
    else:
        sealed = kind.make(tmp_path / "sealed").path
    with caplog.at_level(logging.WARNING):
        digest = kind.opener.open(unsealed).digest
    assert digest == kind.opener.open(sealed).digest
    assert "without checksums of all its files" in caplog.text
    if kind.opener is not WindowCache:  # whose contents have changed since
        kind.make(unsealed)  # the same cache is asked for: it is not made again
