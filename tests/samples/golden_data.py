"""Where golden data is found, and what happens where there is none."""

import os
import pathlib
from typing import NoReturn

import pytest
from repository import ROOT


def shared_folder() -> pathlib.Path:
    """The folder of golden data: ETC_JAX_SHARED, or ../shared beside the repository."""
    return pathlib.Path(os.environ.get("ETC_JAX_SHARED", ROOT.parent / "shared"))


def require_shared(part: str) -> pathlib.Path:
    """`shared_folder()/part`, or a skip (a failure with ETC_JAX_REQUIRE_SHARED=1)."""
    folder = shared_folder() / part
    if not folder.exists():
        lacking(f"golden data not found: {folder} (set ETC_JAX_SHARED)")
    return folder


def lacking(message: str, *, asked: bool = False) -> NoReturn:
    """Skips the test; fails it if data was asked for, or ETC_JAX_REQUIRE_SHARED=1."""
    if asked or os.environ.get("ETC_JAX_REQUIRE_SHARED") == "1":
        pytest.fail(message)
    pytest.skip(message)


def golden_folder(config: pytest.Config) -> str | None:
    """The folder given by `--fixtures DIR`: golden cases for tests/parity.

    Raises:
      pytest.UsageError: if no folder follows.
    """
    # pytest has a flag of this name (also spelled --funcargs) that takes no value, so
    # the folder is read from the command line as it was given.
    given = [str(arg) for arg in config.invocation_params.args]
    if "--fixtures" not in given:
        return None
    after = given[given.index("--fixtures") + 1 :]
    if not after or after[0].startswith("-"):
        raise pytest.UsageError("--fixtures needs the folder of the golden cases")
    return after[0]
