"""What tests of several benchmarks use."""

import json

import pytest


@pytest.fixture
def run(tmp_path):
    """A function that runs a benchmark, and gives its exit code and what it wrote."""

    def command(main, *argv):
        out = tmp_path / "new" / "out.json"
        code = main([*argv, f"--out={out}"])
        return code, json.loads(out.read_text()) if out.exists() else None

    return command
