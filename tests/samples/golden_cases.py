"""One test for each golden case under a folder: finding them, and the table of them.

A folder that the command line names must be there and hold a case. Without the option
the shared golden data is taken, and the test is skipped where there is none.
"""

import pathlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest
from golden_data import lacking, shared_folder


def parametrize(
    metafunc: pytest.Metafunc,
    name: str,
    *,
    option: str,
    given: str | None,
    part: str,
    find_fn: Callable[[pathlib.Path], Sequence[Any]],
    full: Collection[str] = (),
) -> None:
    """Makes one item for each case, or one that tells why there is none.

    Args:
      metafunc: of the hook `pytest_generate_tests`.
      name: of the argument that tests of a case have.
      option: that names a folder, for messages.
      given: the folder it names, below that of the command; None without the option.
      part: below the shared folder, where cases are without the option.
      find_fn: folder -> cases, each with a `name`.
      full: names of cases that `make test` leaves out.
    """
    if name not in metafunc.fixturenames:
        return
    folder = shared_folder() / part
    problem = f"golden data not found: {folder} (give {option} or ETC_JAX_SHARED)"
    if given:
        folder = metafunc.config.invocation_params.dir / given
        problem = f"no folder {folder}"
    cases = []
    if folder.is_dir():
        cases = find_fn(folder)
        problem = f"no golden case under {folder}"
    if not cases:
        metafunc.parametrize(name, [problem], ids=["no golden data"])
        return
    params = [
        pytest.param(case, id=case.name, marks=[pytest.mark.full] * (case.name in full))
        for case in cases
    ]
    metafunc.parametrize(name, params)


def require(case: Any, given: str | None) -> None:
    """Ends the test if `parametrize` found no case.

    It fails if a folder was given, and else as `golden_data.lacking` has it.
    """
    if isinstance(case, str):
        lacking(case, asked=bool(given))


def print_differences(terminalreporter, name: str, title: str) -> None:
    """Prints a table of a property that tests of cases recorded, if there is any."""
    rows = [
        (report.nodeid.partition("[")[2].removesuffix("]"), value)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, [])
        for recorded, value in report.user_properties
        if recorded == name
    ]
    if not rows:
        return
    terminalreporter.section(f"{title}: largest difference")
    width = max(len(case) for case, _ in rows)
    for case, value in sorted(rows):
        terminalreporter.write_line(f"{case:{width}}  {value:.2e}")
