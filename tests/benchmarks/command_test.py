"""`python -m benchmarks NAME`: each benchmark is there, another name is refused."""

import ast
import importlib.util

import pytest

from benchmarks.__main__ import MODULES, help_text, main


@pytest.mark.parametrize("name", MODULES)
def test_every_benchmark_has_a_line_of_help_and_a_main(name):
    # Read without an import, which takes seconds.
    source = importlib.util.find_spec(MODULES[name]).origin
    with open(source) as file:
        tree = ast.parse(file.read())
    title = ast.get_docstring(tree).partition("\n")[0]
    assert f"  {name:20}{title}" in help_text().splitlines()
    names = {getattr(x, "name", None) for x in tree.body}
    last = tree.body[-1]
    assert "main" in names or ast.unparse(last).startswith("main = ")


def test_another_name_is_refused(capsys):
    assert main(["layers"]) == 2
    assert (
        "there is no 'layers'; there are: attention, layer," in capsys.readouterr().err
    )
    assert main([]) == 2 and main(["--help"]) == 0
