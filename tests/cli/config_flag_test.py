"""Which config a name gives, what is wrong with one, and what its fields are."""

import dataclasses
import json
import pathlib

import pytest
from golden_data import ROOT

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.cli import convert, flag as config_flag, help as config_help
from etc_jax.config import kinds as config_kinds
from etc_jax.config.fields import default_of, hints_of, texts_of

QUICKSTART = ROOT / "etc_jax/configs/quickstart/quickstart.py"
FILES = {
    "broken.py": "def get_config(:\n",
    "raising.py": "def get_config(arg=''):\n    return 1 // 0\n",
    "nothing.py": "def get_config(arg=''):\n    return None\n",
    "without.py": "",
    "broken.json": "{",
    "none.json": '{"model": {"family": "etcetera"}}',
    "own_configs/small.py": (
        "from etc_jax import config as config_lib\n"
        "def get_config(arg=''):\n"
        "    given = config_lib.variants(arg, flags=('long',))\n"
        "    config = config_lib.default_config()\n"
        "    config.train.num_steps = 900 if given else 9\n"
        "    return config\n"
    ),
    "own_configs/faulty.py": "import none_there\n",
}
CASES = {
    "a section that is not there": (
        [f"--config={QUICKSTART}", "--config.modl.x=3"],
        "no field 'modl.x'; did you mean 'model'?",
    ),
    "a field that is not there": (
        ["--config=quickstart", "--config.model.radus=3"],
        "no field 'model.radus'; did you mean 'radius'?",
    ),
    "a field of a field": (
        ["--config=quickstart", "--config.model.radius.x=3"],
        "no field 'model.radius.x'",
    ),
    "a variant that is not there": (
        [f"--config={QUICKSTART}:tny"],
        "no variant 'tny' of this config; did you mean 'tiny'?",
    ),
    "a file that is not there": (
        [f"--config={QUICKSTART.with_name('quickstrt.py')}"],
        "quickstart); did you mean 'quickstart.py'?",
    ),
    "a name that is not there": (
        ["--config=quikstart:tiny"],
        "'quikstart' (a file is named with .py); did you mean 'quickstart'?",
    ),
    "a module that is not there": (
        ["--config=own_configs.large"],
        "there is no module own_configs.large",
    ),
    "a module that needs another one": (
        ["--config=own_configs.faulty"],
        "faulty.py:1: ModuleNotFoundError: No module named 'none_there'",
    ),
    "a value of another type": (
        [f"--config={QUICKSTART}", "--config.train.num_steps=x"],
        "invalid literal for int",
    ),
    "a file with an error of syntax": (["--config=broken.py"], "broken.py:1: invalid"),
    "a file that raises": (["--config=raising.py"], "raising.py:2: ZeroDivisionError"),
    "a file that gives nothing": (["--config=nothing.py"], "nothing.py gave None"),
    "a file without the function": (["--config=without.py"], "no function get_config"),
    "a record that is none": (["--config=broken.json"], "broken.json cannot be read"),
    "a record of no model": (["--config=none.json"], "no model config named 'etcet"),
    "a record with a variant": (["--config=none.json:x"], "without variants"),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in FILES.items():
        path = pathlib.Path(name)
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize("case", CASES)
def test_one_line_says_what_is_wrong(case, folder, capsys):
    argv, message = CASES[case]
    assert convert.main(["--trax=x", "--out=model", *argv]) == 2
    error = capsys.readouterr().err
    assert message in error and "--config: " in error
    assert "Traceback" not in error
    assert error.count("\n") == 1 or case == "a record of no model"


def steps(name, *changes):
    return config_flag.read(name, changes).train.num_steps


def test_a_config_goes_by_name_by_path_and_by_module(folder):
    assert steps("quickstart") == steps(str(QUICKSTART)) == 350
    assert steps("quickstart:tiny") == steps(f"{QUICKSTART}:tiny") == 20
    assert steps("own_configs.small") == steps("own_configs/small.py") == 9
    assert steps("own_configs.small:long") == 900
    assert steps("own_configs.small", "--config.train.num_steps=7") == 7


def test_a_change_keeps_the_kind_of_its_field():
    config = config_flag.read(
        "quickstart",
        [
            "--config.data.source=jsonl",
            "--config.data.paths=('a.jsonl','b.jsonl')",
            "--config.optimizer.learning_rate=1",
            "--config.schedule.warmup_steps=0.2",
            "--config.train.tensorboard=true",
            "--config.checkpoint.init_from=models/etc",
        ],
    )
    assert config.data.paths == ("a.jsonl", "b.jsonl")
    assert config.optimizer.learning_rate == 1.0 and config.train.tensorboard is True
    assert config.schedule.warmup_steps == 0.2
    assert config_lib.from_config_dict(config).checkpoint.init_from == "models/etc"


@pytest.mark.parametrize(
    "name",
    ["quickstart:tiny", "sled:tiny", "denoising:model_based,tiny", "reformer_mlm"],
)
def test_what_is_printed_gives_the_same_config(name, tmp_path):
    values = config_flag.read(name)
    if values.data.source != "builtin":
        values.data.paths = ("train",)
    if values.data.source == "windows":
        values.data.validation_paths = ("dev",)
    if values.objective.name == "model_denoising":
        values.objective.generator_init_from = "models/generator"
    config = config_lib.from_config_dict(values)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config_lib.used(values)))
    assert config_lib.from_config_dict(config_flag.read(str(path))) == config
    # The record of a run has more beside its config.
    path.write_text(json.dumps({"config": config_lib.to_dict(config), "identity": {}}))
    again = config_flag.read(str(path), ["--config.train.seed=5"])
    assert config_lib.from_config_dict(again).train.seed == 5


def test_help_of_a_config_is_its_text_with_its_variants(folder):
    text = config_flag.help_of("etc_base_hotpotqa")
    assert text.startswith("ETC-base on HotpotQA, distractor setting")
    assert text.endswith("Variants: flat, no_hard_g2l, shared, from_scratch, tiny")
    assert config_flag.help_of("own_configs/small.py") == "Variants: long"
    with pytest.raises(config_flag.ConfigFlagError, match="without a text"):
        config_flag.help_of("none.json")


def test_the_help_of_a_field_has_its_kind_text_choices_and_values():
    values = config_flag.read("sled:tiny")
    assert config_help.help_of(values, "checkpoint.best_is") == (
        "checkpoint.best_is: Literal['lowest', 'highest']\n"
        "Whether lower or higher is better.\n"
        "One of lowest, highest.\n"
        "Default: 'lowest'"
    )
    found = config_help.help_of(values, "model.sled.window")
    assert found.startswith("model.sled.window: int\nTokens of the document in a windo")
    assert found.endswith("Default: 0\nIn this config: 64")
    found = config_help.help_of(values, "optimizer.b2")
    assert "Decay of the two moments" in found
    assert "adafactor, adamw, adamw_bert" in config_help.help_of(
        values, "optimizer.name"
    )
    family = config_help.help_of(values, "model.family")
    assert "long_t5, longformer," in family and "In this config: 'bart'" in family


def test_the_help_of_a_section_lists_its_fields():
    values = config_flag.read("denoising:model_based,tiny")
    text = config_help.help_of(values, "objective")
    assert text.startswith("objective: ModelDenoisingConfig\n")
    assert "\n  kept_share: float = " in text and "its share" not in text
    assert "\n    attention_window: " in text  # of the generator's family
    every = config_help.help_of(values, "")
    for section in ("model", "data", "optimizer", "schedule", "mesh"):
        assert f"\n\n{section}: " in f"\n\n{every}"
    assert "cpc_weight" not in every


@pytest.mark.parametrize(
    "path, message",
    [
        ("optimiser.name", "no section 'optimiser'; did you mean 'optimizer'?"),
        ("optimizer.nam", "no field 'optimizer.nam'; did you mean 'name'?"),
        ("optimizer.name.x", "no field 'optimizer.name.x'; name has no fields"),
    ],
)
def test_a_field_that_is_not_there_has_no_help(path, message):
    with pytest.raises(config_help.NoFieldError) as caught:
        config_help.help_of(config_lib.default_config(), path)
    assert message in str(caught.value)


def sections(cls, values):
    """A section and those inside it."""
    yield cls
    hints = hints_of(cls, values)
    for field in dataclasses.fields(cls):
        if dataclasses.is_dataclass(hints[field.name]):
            inner = values.get(field.name, default_of(field))
            yield from sections(hints[field.name], inner)


def test_every_field_of_every_config_has_a_text():
    found = {
        registry.lookup(kind, name)
        for kind in ("model_config", "objective_config", "source_config")
        for name in registry.names(kind)
    }
    found |= {config_kinds.section_of(name) for name in registry.names("data_set")}
    values = config_lib.used(config_lib.default_config())
    found |= set(config_lib.section_classes(values).values())
    # Other tests register some of their own.
    found = {cls for cls in found if cls.__module__.startswith("etc_jax.")}
    every = {inner for cls in found for inner in sections(cls, {})}
    assert len(every) > 40
    lacking = [
        f"{cls.__name__}.{field.name}"
        for cls in every
        for field in dataclasses.fields(cls)
        if not texts_of(cls).get(field.name)
    ]
    assert not lacking


def test_fields_of_earlier_versions_are_read(tmp_path):
    """In a config file, and typed, which wins over it."""
    file = tmp_path / "own.py"
    file.write_text(
        "from etc_jax import config\n"
        "def get_config():\n"
        "    made = config.default_config()\n"
        "    made.data.held_back_paths = ('a',)\n"
        "    made.data.held_back_fraction = 0.25\n"
        "    return made\n"
    )
    data = config_flag.read(str(file)).data
    assert (data.validation_paths, data.validation_fraction) == (("a",), 0.25)
    for name in ("held_back_paths", "validation_paths"):
        data = config_flag.read(str(file), [f"--config.data.{name}=('b',)"]).data
        assert data.validation_paths == ("b",) and "held_back_paths" not in data


@pytest.mark.parametrize(
    "arg, message",
    [
        ("held_back=a", "validation= needs prepared=FOLDER beside it"),
        ("held_back=a,validation=b", "'validation=b' in .*; expected one value each"),
        ("prepared=no/held_back=a", "no/held_back=a"),  # a folder keeps its name
    ],
)
def test_a_value_of_a_variant_has_its_earlier_name_too(arg, message):
    with pytest.raises(config_flag.ConfigFlagError, match=message):
        config_flag.read(f"classification:{arg}")
