"""Names that an installed package registers by an entry point."""

import importlib
import sys
import tomllib

import pytest
from golden_data import ROOT

from etc_jax.base import registry
from etc_jax.datasets import task

MODULE = '''
"""A data set of yes and no, under a short name."""

from etc_jax.base import registry
from etc_jax.datasets.json_lines import read_line_records
from etc_jax.tasks.classification import make_data_set
from etc_jax.tasks.classification.records import parse

LABELS = ("no", "yes")


def read(paths, problems=None):
    return read_line_records(paths, parse, problems)


registry.register("data_set", "yes_or_no")(
    make_data_set(
        "yes_or_no",
        labels=LABELS,
        read=read,
        parse=parse,
        metric="f1",
        positive="yes",
        question="Is it so?",
    )
)
'''


# What is registered here.
NAMES = ("yes_or_no", "tickets.urgency", "strided_bert", "modern_bert", "modernbert")


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Installs a package with one module, as pip leaves it: files and metadata."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(text, entries=("items = its_package.items",)):
        registry._waiting_plugins.cache_clear()
        package = tmp_path / "its_package"
        package.mkdir()
        (package / "__init__.py").write_text("")
        (package / "items.py").write_text(text)
        about = tmp_path / "its_package-1.0.dist-info"
        about.mkdir()
        metadata = "Metadata-Version: 2.1\nName: its-package\nVersion: 1.0\n"
        (about / "METADATA").write_text(metadata)
        listed = "\n".join([f"[{registry.PLUGINS}]", *entries])
        (about / "entry_points.txt").write_text(f"{listed}\n")
        importlib.invalidate_caches()

    yield install
    registry._waiting_plugins.cache_clear()
    for table in registry._TABLES.values():
        for name in NAMES:
            table.pop(name, None)
    imported = ("its_package", "tickets", "strided_attention", "modern_bert")
    for name in [x for x in sys.modules if x.startswith(imported)]:
        del sys.modules[name]


def test_a_data_set_is_found_by_the_name_that_it_registers(install):
    with pytest.raises(ValueError, match="no data set named 'yes_or_no'"):
        task.find_task("yes_or_no")
    install(MODULE)
    found = task.find_task("yes_or_no")
    assert found.classes == ("no", "yes")
    assert "yes_or_no" in task.names() and "hotpotqa" in task.names()
    with pytest.raises(ValueError, match="hotpotqa.*yes_or_no"):
        task.find_task("yes_or_so")


def test_names_of_the_project_do_not_wait_for_it(install):
    install("1 / 0")
    assert registry.lookup("schedule", "linear").__name__ == "linear"
    assert "its_package" not in sys.modules


def test_a_module_that_cannot_be_imported_is_named_each_time(install):
    install("1 / 0")
    for _ in range(2):
        with pytest.raises(registry.PluginError) as caught:
            registry.names("schedule")
        message = str(caught.value)
        assert "items of its-package names the module its_package.items" in message
        assert "ZeroDivisionError" in message and "uninstall the package" in message


def test_a_name_of_the_project_cannot_be_taken(install):
    text = "registry.register('schedule', 'linear')(str)"
    install(f"from etc_jax.base import registry\n{text}\n")
    with pytest.raises(registry.PluginError, match="'linear' is already .*linear"):
        registry.names("schedule")


def test_a_module_may_ask_for_names_while_it_is_imported(install):
    install(
        "from etc_jax.base import registry\nKNOWN = [*registry.names('schedule')]\n"
    )
    assert "linear" in list(registry.names("schedule"))
    assert "linear" in sys.modules["its_package.items"].KNOWN


def test_the_example_is_listed_where_it_is_installed(install, monkeypatch):
    examples = ROOT / "examples"
    about = tomllib.loads((examples / "pyproject.toml").read_text())["project"]
    entries = about["entry-points"][registry.PLUGINS]
    monkeypatch.syspath_prepend(examples)
    install("", [f"{name} = {module}" for name, module in entries.items()])
    assert "tickets.urgency" in task.names()
