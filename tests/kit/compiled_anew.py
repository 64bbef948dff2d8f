"""Which programs of tests are found compiled in a cache that all tests share."""

import contextlib
from collections.abc import Iterator

import pytest
from jax._src import compiler

from etc_jax.training.preflight import compile_cache


@contextlib.contextmanager
def those_of_one_device_kept() -> Iterator[None]:
    """Programs of one device are kept for all tests, others compiled by each.

    Simulated devices deadlock in a program that is read back (`compile_cache` says
    why), so that the library keeps none on this machine of eight.
    """
    cache_key = compiler._get_cache_key

    def of_one_device(*args, devices, **more):
        return cache_key(*args, devices=devices, **more) if devices.size == 1 else None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler, "_get_cache_key", of_one_device)
        with compile_cache.keep_in(compile_cache.user_folder()):
            yield


@contextlib.contextmanager
def compiled_anew() -> Iterator[None]:
    """For what compiling itself says or takes: nothing is found compiled."""
    with compile_cache.keep_in(None):
        yield
