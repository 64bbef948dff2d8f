"""CPU and wall seconds of each test, those of all its processes included.

    PYTHONPATH=tests/kit pytest -p cpu_profile --cpu_profile=FILE  # a line each test
    python tests/kit/cpu_profile.py FILE  # a table by file, the dearest first

A process that ends while its parent has not waited for it counts where that happens.
"""

import collections
import json
import os
import pathlib
import sys
import time
from collections.abc import Iterator

import pytest

_TICKS = os.sysconf("SC_CLK_TCK")


def pytest_addoption(parser):
    parser.addoption(
        "--cpu_profile", required=True, help="a line for each test goes here"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    cpu, wall = _used(), time.monotonic()
    done = yield
    line = {
        "test": item.nodeid,
        "cpu": round(_used() - cpu, 3),
        "wall": round(time.monotonic() - wall, 3),
        "full": item.get_closest_marker("full") is not None,
    }
    with open(item.config.option.cpu_profile, "a") as file:
        file.write(json.dumps(line) + "\n")
    return done


def _used() -> float:
    """CPU seconds of this process and all below it, now and before."""
    return sum(os.times()[:4]) + sum(map(_secs, _below("self")))


def _below(pid: str) -> Iterator[str]:
    for children in pathlib.Path("/proc", pid, "task").glob("*/children"):
        try:
            pids = children.read_text().split()
        except OSError:
            continue  # it ended meanwhile
        for child in pids:
            yield child
            yield from _below(child)


def _secs(pid: str) -> float:
    try:
        fields = (
            pathlib.Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()
        )
    except OSError:
        return 0.0
    # Its own and those of the children that it has waited for (proc_pid_stat(5)).
    return sum(map(int, fields[11:15])) / _TICKS


def table(lines: list[dict]) -> str:
    """Rows of Markdown: each file, its tests and seconds, in and beside `make test`."""
    files = collections.defaultdict(lambda: [0, 0.0, 0.0, 0, 0.0])
    for line in lines:
        row = files[line["test"].partition("::")[0]]
        if line["full"]:
            row[3] += 1
            row[4] += line["cpu"]
        else:
            row[0] += 1
            row[1] += line["cpu"]
            row[2] += line["wall"]
    ordered = sorted(files.items(), key=lambda x: -x[1][1])
    total = [sum(column) for column in zip(*files.values(), strict=True)]
    rows = [
        f"| {name} | {count} | {cpu:.1f} | {wall:.1f} | {full} | {full_cpu:.1f} |"
        for name, (count, cpu, wall, full, full_cpu) in [("all", total), *ordered]
    ]
    return "\n".join(
        [
            "| file | tests | CPU s | wall s | left to `test-all` | their CPU s |",
            "|---|---|---|---|---|---|",
            *rows,
        ]
    )


if __name__ == "__main__":
    print(table([json.loads(x) for x in pathlib.Path(sys.argv[1]).open()]))
