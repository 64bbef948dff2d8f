"""Test environment: CPU with eight simulated devices, set before jax is imported."""

import os
import pathlib

os.environ.setdefault("JAX_PLATFORMS", "cpu")
_FLAG = "--xla_force_host_platform_device_count=8"
if _FLAG not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_FLAG}".strip()

import jax  # noqa: E402
import pytest  # noqa: E402

jax.config.update("jax_numpy_rank_promotion", "raise")

ROOT = pathlib.Path(__file__).resolve().parent.parent


def pytest_addoption(parser):
    parser.addoption(
        "--fixtures", default=None, help="folder of golden cases for tests/parity"
    )


def shared_folder() -> pathlib.Path:
    """The folder of golden data: ETC_JAX_SHARED, or ../shared beside the repository."""
    return pathlib.Path(os.environ.get("ETC_JAX_SHARED", ROOT.parent / "shared"))


def require_shared(part: str) -> pathlib.Path:
    """`shared_folder()/part`, or a skip (a failure with ETC_JAX_REQUIRE_SHARED=1)."""
    folder = shared_folder() / part
    if folder.exists():
        return folder
    message = f"golden data not found: {folder} (set ETC_JAX_SHARED)"
    if os.environ.get("ETC_JAX_REQUIRE_SHARED") == "1":
        pytest.fail(message)
    pytest.skip(message)
