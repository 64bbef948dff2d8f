"""A cache of windows, for all that reads or writes one."""

import pytest
from window_samples import SOURCE, make_tokenizer, make_windows
from written_windows import write_windows


@pytest.fixture(scope="session")
def tokenizer():
    return make_tokenizer()


@pytest.fixture
def windows():
    return make_windows(7)


@pytest.fixture
def cache(windows, tokenizer, tmp_path):
    return write_windows(windows, tokenizer, tmp_path / "c", SOURCE)
