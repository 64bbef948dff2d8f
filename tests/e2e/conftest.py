"""What runs along the main path share."""

import pytest
from small_text import make_cache


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory):
    """Token caches of the small text, where those of the built-in text would be."""
    return make_cache(tmp_path_factory.mktemp("token_cache"))


@pytest.fixture(scope="module")
def compile_cache(tmp_path_factory):
    return {"train.compile_cache_dir": str(tmp_path_factory.mktemp("compiled"))}
