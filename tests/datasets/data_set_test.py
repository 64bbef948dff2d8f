"""A data set has forms, and is found by name or by the path of its module."""

import dataclasses
import json
import sys

import pytest
from multihop_samples import WIKIHOP, tokenizer, write_json

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.config.kinds import section_of
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.task import DataSet, FeatureConverter, Task
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.objectives.learners import finetuning
from etc_jax.tasks import coreference, hotpotqa, stats, upper_bound

MODELS = {
    "structured": EtcConfig(),
    "sequence": BertConfig(),
    "text_to_text": LongformerConfig(causal=True),
}
EVERY = [
    (name, form) for name in task_lib.names() for form in task_lib.find(name).converters
]
MINE = """
import dataclasses
from etc_jax.base import registry
from etc_jax.tasks import wikihop

mine = dataclasses.replace(wikihop.DATA_SET, name="my_sets.towns")
registry.register("data_set", "my_sets.towns")(mine)
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Writes a module of the package `my_sets`, which is forgotten afterwards."""
    (tmp_path / "my_sets").mkdir()
    (tmp_path / "my_sets" / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda name, text: (tmp_path / "my_sets" / f"{name}.py").write_text(text)
    for name in [x for x in sys.modules if x.partition(".")[0] == "my_sets"]:
        del sys.modules[name]
    registry._TABLES["data_set"].pop("my_sets.towns", None)


# --- forms ----------------------------------------------------------------------------


@pytest.mark.parametrize("name, form", EVERY)
def test_a_task_is_all_of_the_data_set_and_all_of_the_form(name, form):
    data_set, task = task_lib.find(name), task_lib.find_task(name, form)
    assert isinstance(task, Task) and task.format == form
    # Options that shape records may give some, too.
    of_options = task.options.task_fields()
    for cls, part in (
        (DataSet, data_set),
        (FeatureConverter, data_set.converters[form]),
    ):
        for field in dataclasses.fields(cls):
            got = getattr(task, field.name)
            if field.name in of_options:
                assert got == of_options[field.name]
            else:
                assert got is getattr(part, field.name)


@pytest.mark.parametrize("name, form", EVERY)
def test_every_form_has_a_model_that_learns_it(name, form):
    task = task_lib.find_task(name, form)
    model, objective = MODELS[form], section_of(name, form)(name)
    learner = finetuning.find(model, objective, form)
    assert type(learner) is finetuning.learner_of(task)
    assert (learner.classes, learner.options) == (task.classes, task.options)


def test_the_first_form_is_taken_where_nothing_is_said():
    first, *_ = hotpotqa.DATA_SET.converters
    assert task_lib.find_task("hotpotqa").format == first == "structured"
    assert coreference.DATA_SET.in_format().format == "sequence"


def test_an_unknown_format_is_told_those_there_are():
    message = "hotpotqa has no inputs in format 'square'; there are: structured, sequ"
    with pytest.raises(ValueError, match=message):
        task_lib.find_task("hotpotqa", "square")


def test_a_format_that_is_absent_says_why():
    message = r"'structured' \(no paper resolves .*\); there are: sequence$"
    with pytest.raises(ValueError, match=message):
        coreference.DATA_SET.in_format("structured")


def test_a_reason_to_be_absent_is_of_no_form_that_is_there():
    for name in task_lib.names():
        found = task_lib.find(name)
        assert found.converters and not found.converters.keys() & found.absent.keys()


# --- by the path of a module ----------------------------------------------------------


def test_a_module_in_a_package_of_ones_own_is_found_by_its_path(package):
    package("towns", MINE)
    with pytest.raises(ValueError, match="give --plugin=my_sets.towns, import it"):
        task_lib.find("my_sets.towns")
    task_lib.named_task("my_sets.towns")
    found = task_lib.find("my_sets.towns")
    assert found.name == "my_sets.towns" and "my_sets.towns" in task_lib.names()
    assert task_lib.find_task("my_sets.towns", "sequence").learner == "wikihop"
    config = config_lib.default_config("bert")
    config.objective.name = "my_sets.towns"
    config.data.update(source="windows", paths=("a",), validation_paths=("b",))
    config.data.vocab_size = config.model.vocab_size
    built = config_lib.from_config_dict(config)
    assert type(finetuning.of_config(built)) is finetuning.learner_of(
        task_lib.find_task("wikihop", "sequence")
    )


def test_a_data_set_of_ones_own_has_all_that_commands_ask_for(
    package, tmp_path, capsys
):
    package("towns", MINE)
    vocabulary, file = tmp_path / "tokenizer.json", write_json(tmp_path, [WIKIHOP])
    tokenizer().save(vocabulary)
    given = ["--task=my_sets.towns", f"--tokenizer={vocabulary}", str(file)]
    upper_bound.main([*given, "--long_length=80", "--global_length=40"])
    assert "accuracy" in (said := capsys.readouterr().out) and "0 losses" in said
    assert stats.main([*given, "--json"]) == 0
    [found] = json.loads(capsys.readouterr().out)["sets"]
    assert (found["task"], found["records"]) == ("my_sets.towns", 1)
    assert found["lengths"]["record"]["mean"] == 40


@pytest.mark.parametrize("name", ["my_sets.rivers", "no_such_package.towns", "towns"])
def test_a_path_without_a_module_is_told_the_known_names(package, name):
    package("towns", MINE)
    with pytest.raises(ValueError, match=f"no data set named {name!r}; there are"):
        task_lib.named_task(name)


def test_a_module_that_registers_another_name_is_told(package):
    package("hills", MINE)
    with pytest.raises(ValueError, match="no data set named 'my_sets.hills'; .*towns"):
        task_lib.named_task("my_sets.hills")


def test_a_data_set_has_the_name_that_it_is_registered_under(package):
    package("towns", MINE.replace('name="my_sets.towns"', 'name="towns"'))
    with pytest.raises(ValueError, match="'my_sets.towns' has the name 'towns'; make"):
        task_lib.named_task("my_sets.towns")


def test_what_is_missing_inside_a_module_is_not_hidden(package):
    package("towns", f"import no_such_package\n{MINE}")
    with pytest.raises(registry.PluginError, match="my_sets.towns .*no_such_package"):
        task_lib.named_task("my_sets.towns")


# --- formats that a model does not take -----------------------------------------------


def test_a_format_that_the_model_does_not_take_is_refused():
    for name, (form, other) in (
        ("hotpotqa", ("sequence", "structured")),
        ("imdb", ("structured", "sequence")),
    ):
        message = f"of {name} are asked for in format '{form}', but .* takes {other}; "
        objective = section_of(name, form)(name)
        with pytest.raises(ValueError, match=f"{message}set data.format or model.fam"):
            finetuning.find(MODELS[other], objective, form)


@pytest.mark.parametrize(
    "family, name, format, message",
    [
        ("etc", "coreference", None, r"\(no paper .*; set model.family to one that"),
        ("etc", "hotpotqa", "square", "there are: structured, sequence; set data.form"),
    ],
)
def test_a_config_names_what_to_set(family, name, format, message):
    config = config_lib.default_config(family)
    config.objective.name = name
    config.data.update(source="windows", paths=("a",), validation_paths=("b",))
    config.data.format = format
    with pytest.raises(config_lib.ConfigError, match=message):
        config_lib.from_config_dict(config)
