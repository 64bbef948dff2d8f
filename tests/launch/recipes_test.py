"""Recipes of docs/launch.md: what a command prints there is what it prints.

`python tests/launch/recipes_test.py` writes what the commands print now. A block that
begins with ... leaves out the files, which another one shows.
"""

import contextlib
import io
import re
import shlex

import pytest
from repository import ROOT

from etc_jax.launch import __main__ as launch, backend

PAGE = ROOT / "docs/launch.md"
# A command, and what it prints.
RECIPE = re.compile(r"```\n(etc-jax launch [^`]+)\n```\n\n```text\n([^`]*)```")


def words(command):
    """Of a command of several lines."""
    return shlex.split(command.replace("\\\n", ""))


def printed(command, shown):
    """What it prints, of which the files may be left out."""
    with contextlib.redirect_stdout(io.StringIO()) as output:
        assert launch.main(words(command)[2:]) == 0
    text = output.getvalue()
    if shown.startswith("..."):
        text = "...\n\n# " + text.partition("\n\n# ")[2]
    return text


RECIPES = RECIPE.findall(PAGE.read_text())


@pytest.mark.parametrize("command, expected", RECIPES)
def test_a_recipe_prints_what_the_page_shows(command, expected):
    assert printed(command, expected) == expected


def test_each_back_end_has_a_recipe():
    names = {words(command)[2] for command, _ in RECIPES}
    assert names == set(backend.backends())


if __name__ == "__main__":
    PAGE.write_text(
        RECIPE.sub(
            lambda x: f"```\n{x[1]}\n```\n\n```text\n{printed(x[1], x[2])}```",
            PAGE.read_text(),
        )
    )
