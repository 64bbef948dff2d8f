"""Models in float64, ours and torch's: kinds of CPUs round float32 differently."""

import contextlib
from unittest import mock

import jax
import pytest

from etc_jax.models import config_problems


@contextlib.contextmanager
def ours():
    """A config may have the dtype float64, and jax computes in it."""
    dtypes = (*config_problems.DTYPES, "float64")
    with jax.enable_x64(True), mock.patch.object(config_problems, "DTYPES", dtypes):
        yield


@contextlib.contextmanager
def theirs():
    """Norms, softmax and scores, which ask for float32, are in float64 too."""
    torch = pytest.importorskip("torch")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "float32", torch.float64)
        patch.setattr(torch, "float", torch.float64)
        patch.setattr(torch.Tensor, "float", torch.Tensor.double)
        yield
