"""A flipped bit in any byte of a cache is found before anything is trained on."""

import logging

import numpy as np
import pytest
from caches_before import window_cache_of_version_2, without_checksums
from window_samples import SOURCE, make_rich_window, make_tokenizer, make_windows

from etc_jax.data import parts
from etc_jax.data.text.cache import TokenCache, build_cache
from etc_jax.data.text.corpus import Document
from etc_jax.data.windows.cache import WindowCache
from etc_jax.data.windows.writing import write_windows


def _lines(paragraphs):
    return list(paragraphs)


def make_tokens(path, text="w2 w1"):
    documents = [Document("d/0", ("w1 w2 w3", text)), Document("d/1", ("w3",))]
    build_cache(documents, make_tokenizer(), path, made_by={}, split_fn=_lines)


def make_window_cache(path, seed=0):
    windows = make_windows(3, seed, make_fn=make_rich_window)
    write_windows(windows, make_tokenizer(), path, SOURCE)


KINDS = {
    "tokens": (make_tokens, TokenCache),
    "windows": (make_window_cache, WindowCache),
}


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


@pytest.mark.parametrize(
    "kind, every",
    [("tokens", 1), ("windows", 9), pytest.param("windows", 1, marks=pytest.mark.full)],
)
@pytest.mark.full(but=["tokens-1"])
def test_a_flipped_bit_in_any_byte_of_any_file_is_named(kind, every, tmp_path):
    make, opener = KINDS[kind]
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
        file.write_bytes(whole + b"\0")
        with pytest.raises(ValueError, match=file.name):
            opener.open(tmp_path / "c")
        file.write_bytes(whole)
    print(f"{tried - len(missed)} of {tried} flipped bytes named")
    assert not missed and tried > 500


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
    make, opener = kind
    make(tmp_path / "one")
    make(tmp_path / "other")
    digests = {x: opener.open(tmp_path / x).digest for x in ("one", "other")}
    assert len(set(digests.values())) == 1
    make(tmp_path / "edited", "w2 w3" if opener is TokenCache else 1)
    assert opener.open(tmp_path / "edited").digest != digests["one"]


def test_a_cache_of_before_checksums_is_read_and_says_so(kind, tmp_path, caplog):
    make, opener = kind
    if opener is WindowCache:
        window_cache_of_version_2(tmp_path / "c")
    else:
        make(tmp_path / "c")
    digest = opener.open(tmp_path / "c").digest
    without_checksums(tmp_path / "c")
    with caplog.at_level(logging.WARNING):
        assert opener.open(tmp_path / "c").digest == digest
    assert "without checksums of all its files" in caplog.text
    if opener is not WindowCache:  # whose contents have changed since
        make(tmp_path / "c")  # the same cache is asked for: it is not made again
