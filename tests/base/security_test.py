"""What is read is data: no input runs code, leaves its folder or takes secrets along.

docs/security.md has the table of inputs with the test of each.
"""

import ast
import json
import pathlib
import pickle
import re
import sys

import pytest
import toy_job
from bombs import Bomb
from etils import epath
from repository import ROOT

from etc_jax import config as config_lib
from etc_jax.base import registry
from etc_jax.base.terminal import next_command
from etc_jax.cli import command_line, flag as config_flag
from etc_jax.config import kinds as config_kinds
from etc_jax.data.text import prepare as prepare_lib
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.datasets import task as task_lib
from etc_jax.training.checkpoints.folder import CheckpointFolder
from etc_jax.training.errors import CorruptCheckpointError, UserError
from etc_jax.training.hosts import distributed
from etc_jax.training.run import train_and_evaluate

PARTS = ("etc_jax", "launch", "benchmarks")

SECRET = "hf_5up3r53cr3tv4lu3"

# Calls that run what they are given, whatever the arguments.
FORBIDDEN = {
    "eval",
    "exec",
    "compile",
    "__import__",
    "os.system",
    "os.popen",
    "pickle.load",
    "pickle.loads",
    "pickle.Unpickler",
    "dill.load",
    "dill.loads",
    "joblib.load",
    "marshal.loads",
    "shelve.open",
    "pandas.read_pickle",
    "runpy.run_path",
    "shutil.unpack_archive",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "yaml.load",
    "yaml.unsafe_load",
    "yaml.full_load",
    "numpy.lib.format.read_array",
}
# Calls that are safe with one argument of one value, written out.
NEEDED = {
    "numpy.load": ("allow_pickle", False),
    "torch.load": ("weights_only", True),
    "tarfile.extractall": ("filter", "data"),
    "tarfile.extract": ("filter", "data"),
}
# Arguments that are wrong in every call.
WRONG = {("shell", True), ("trust_remote_code", True), ("allow_pickle", True)}
# (file, call): why it is right there.
ALLOWED = {
    # Bytes that the parent process made itself and hands to its own processes.
    ("etc_jax/data/cluster.py", "pickle.loads"),
    ("etc_jax/data/workers.py", "pickle.loads"),
    ("benchmarks/kit/memory.py", "pickle.load"),
}


def full_names(tree):
    """{name in the file: what it stands for} of all imports."""
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                found[name] = alias.name if alias.asname else name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return found


def called(node, names):
    """The full name of what is called: a.b.c, with imports written out."""
    parts, at = [], node.func
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    if not isinstance(at, ast.Name):
        return ".".join(["?", *reversed(parts)])
    return ".".join([names.get(at.id, at.id), *reversed(parts)])


def unsafe_calls(text):
    """(line, call) of everything in a file that could run what it reads."""
    tree = ast.parse(text)
    names = full_names(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = called(node, names)
        method = f"tarfile.{name.rpartition('.')[2]}"
        needed = NEEDED.get(name) or NEEDED.get(method if "tarfile" in text else "")
        given = {
            (k.arg, k.value.value)
            for k in node.keywords
            if isinstance(k.value, ast.Constant)
        }
        if name in FORBIDDEN or given & WRONG or (needed and needed not in given):
            yield node.lineno, name


def sources():
    return sorted(
        path.relative_to(ROOT).as_posix()
        for part in PARTS
        for path in (ROOT / part).rglob("*.py")
    )


def test_there_is_something_to_look_at():
    assert len(sources()) > 60
    assert {source.partition("/")[0] for source in sources()} == set(PARTS)


@pytest.mark.parametrize("source", sources())
def test_no_module_runs_what_it_reads(source):
    found = unsafe_calls((ROOT / source).read_text())
    assert [f"{s}:{n}" for n, s in found if (source, s) not in ALLOWED] == []


def test_every_exception_is_still_needed():
    for source, call in ALLOWED:
        found = {name for _, name in unsafe_calls((ROOT / source).read_text())}
        assert call in found


@pytest.mark.parametrize(
    "text",
    [
        "eval(x)",
        "import pickle\npickle.load(f)",
        "from pickle import loads as read\nread(b)",
        "import torch\ntorch.load(f)",
        "import torch\ntorch.load(f, weights_only=False)",
        "import numpy as np\nnp.load(f)",
        "import numpy as np\nnp.load(f, allow_pickle=flag)",
        "from numpy import load\nload(f, allow_pickle=True)",
        "import yaml\nyaml.load(f)",
        "import subprocess as s\ns.run('ls', shell=True)",
        "import os\nos.system('ls')",
        "import tarfile\ntarfile.open(f).extractall(to)",
        "import tarfile\nwith tarfile.open(f) as t:\n  t.extractall(to, filter='tar')",
        "AutoModel.from_pretrained(x, trust_remote_code=True)",
    ],
)
def test_an_unsafe_call_is_found(text):
    assert len(list(unsafe_calls(text))) == 1


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ntorch.load(f, weights_only=True)",
        "import numpy as np\nnp.load(f, mmap_mode='r', allow_pickle=False)",
        "import json\njson.load(f)",
        "import yaml\nyaml.safe_load(f)",
        "import subprocess\nsubprocess.run(['ls'], check=True)",
        "import tarfile\ntarfile.open(f).extractall(to, filter='data')",
        "model.load(f)",
        "re.compile(p)",
        "lowered.compile()",
    ],
)
def test_a_safe_call_passes(text):
    assert list(unsafe_calls(text)) == []


def test_the_bomb_goes_off(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["tokenizer.json", "vocab.txt", "m.model", "odd.pkl"])
def test_a_pickle_in_place_of_a_tokenizer_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
    with pytest.raises(ValueError, match=str(tmp_path / name)):
        open_tokenizer(tmp_path / name)
    assert not (tmp_path / "ran").exists()


def test_a_tokenizer_cannot_name_a_class_to_be_made(tmp_path):
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps({"kind": "os.system", "special": {}}))
    with pytest.raises(ValueError, match=str(path)):
        Tokenizer.load(path)


def test_a_pickle_in_place_of_weights_is_refused(tmp_path):
    safetensors_io = pytest.importorskip("etc_jax.conversion.formats.safetensors_io")
    for name in ("pytorch_model.bin", "model.safetensors"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_bytes(pickle.dumps(Bomb(tmp_path / "ran")))
        with pytest.raises(ValueError, match="pickles run code|no whole safetensors"):
            safetensors_io.SafetensorsFiles(folder)
    assert not (tmp_path / "ran").exists()


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """A module of the current folder that leaves a file when it is imported."""
    folder = tmp_path / "planted"
    folder.mkdir()
    ran = tmp_path / "ran"
    (folder / "bomb.py").write_text(
        f"import pathlib\npathlib.Path({str(ran)!r}).touch()"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend("")
    yield ran
    for name in ("planted", "planted.bomb"):
        sys.modules.pop(name, None)


def _of_a_record(section, field):
    values = json.loads(config_lib.to_json(toy_job.config()))
    values[section][field] = "planted.bomb"
    return values


NAMES_IN_DATA = {
    "a kind of its own": lambda path: registry.lookup("no_kind", "planted.bomb"),
    "task of a cache": lambda path: task_lib.find_task("planted.bomb"),
    **{
        f"{field} of a record": lambda path, field=field: config_lib.from_record(
            _of_a_record(*field.split("."))
        )
        for field in config_kinds.NAMES
    },
    "a record as --config": lambda path: config_flag.read(
        str(_written(path / "run.json", _of_a_record("objective", "name")))
    ),
    "kind of a tokenizer": lambda path: Tokenizer.load(
        _written(path / "tokenizer.json", {"kind": "planted.bomb", "special": {}})
    ),
}


def _written(path, values):
    path.write_text(json.dumps(values))
    return path


@pytest.mark.parametrize("data", NAMES_IN_DATA)
def test_a_name_in_data_imports_no_module(data, planted, tmp_path):
    with pytest.raises((KeyError, ValueError), match="planted.bomb"):
        NAMES_IN_DATA[data](tmp_path)
    assert not planted.exists()


def test_a_module_is_imported_where_the_user_names_it(planted, tmp_path, capsys):
    record = _written(tmp_path / "run.json", _of_a_record("objective", "name"))
    with pytest.raises(ValueError, match="no objective.*give --plugin=planted.bomb, "):
        config_flag.read(str(record))
    with pytest.raises(ValueError, match="no objective named 'planted.bomb'"):
        config_flag.read(str(record), ["--config.objective.name=planted.bomb"])
    assert planted.exists()
    planted.unlink()
    sys.modules.pop("planted.bomb")
    command_line.ArgumentParser("x").parse_args(["--plugin=planted.bomb"])
    assert planted.exists()
    # What is to be done next needs it too: a model of the run only says its name.
    assert (
        next_command("predict", "a") == "next: etc-jax predict --plugin=planted.bomb a"
    )
    with pytest.raises(SystemExit):
        command_line.ArgumentParser("x").parse_args(["--plugin=planted.none"])
    error = capsys.readouterr().err
    assert "x: --plugin: the module planted.none cannot be imported" in error


def test_the_record_of_a_run_is_data(tmp_path):
    code = f"__import__('pathlib').Path({str(tmp_path / 'ran')!r}).touch()"
    (tmp_path / "run.json").write_text(code)
    with pytest.raises(UserError, match="is not the record of a run"):
        train_and_evaluate(toy_job.config(), tmp_path)
    values = json.loads(config_lib.to_json(toy_job.config()))
    values["train"]["num_steps"] = code
    with pytest.raises(config_lib.ConfigError, match="expected an int"):
        config_lib.from_json(json.dumps(values))
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["../../evil", "/etc", "..", "a/b", "a\0b", ""])
def test_the_folder_of_a_corpus_stays_inside(tmp_path, name):
    made = tmp_path / "caches" / prepare_lib._own_name(name, {})
    assert made.resolve().parent == (tmp_path / "caches").resolve()
    made.mkdir(parents=True)


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """The workdir of a run of two steps, in an environment with a secret."""
    monkeypatch.setenv("ETC_JAX_TEST_TOKEN", SECRET)
    train_and_evaluate(
        toy_job.config(train__num_steps=2, checkpoint__every_steps=2), tmp_path / "run"
    )
    return tmp_path / "run"


def test_nothing_of_the_environment_is_in_the_folder_of_a_run(finished):
    files = [path for path in finished.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"run.json", "metrics.jsonl", "manifest.json"} <= names
    found = [path for path in files if SECRET.encode() in path.read_bytes()]
    assert found == []
    assert SECRET not in config_lib.to_json(toy_job.config())


def test_deleting_a_checkpoint_follows_no_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("here")
    folder = CheckpointFolder(epath.Path(tmp_path / "run"))
    folder.prepare()
    root = pathlib.Path(folder.root)
    (root / "7.deleting").symlink_to(outside)
    with pytest.raises(OSError, match="symbolic link"):
        folder.prepare()
    (root / "7.deleting").unlink()
    (root / "3").symlink_to(outside)
    folder.remove_remains(3)
    assert (outside / "precious").read_text() == "here"


def test_a_list_of_files_cannot_point_out_of_its_checkpoint(finished):
    (finished.parent / "secret").write_text("x")
    step = finished / "checkpoints" / "2"
    listed = json.loads((step / "manifest.json").read_text())
    listed["files"]["../../../secret"] = [1, 0]
    listed.pop("crc32", None)
    (step / "manifest.json").write_text(json.dumps(listed))
    with pytest.raises(CorruptCheckpointError, match="secret is missing"):
        train_and_evaluate(
            toy_job.config(train__num_steps=2, checkpoint__every_steps=2), finished
        )


def test_only_numbers_are_steps(tmp_path):
    folder = CheckpointFolder(epath.Path(tmp_path))
    folder.prepare()
    for name in ("12", "..12", "12;ls", "-3"):
        (folder.root / name).mkdir()
    assert folder.steps() == [12]


@pytest.mark.parametrize(
    "environ",
    [
        {"SLURM_NTASKS": "1"},
        {
            "JAX_COORDINATOR_ADDRESS": "0.0.0.0:80",
            "JAX_NUM_PROCESSES": "1",
            "JAX_PROCESS_ID": "0",
        },
    ],
)
def test_a_process_alone_listens_nowhere(environ, monkeypatch):
    monkeypatch.setattr(
        distributed.jax.distributed, "initialize", lambda **k: pytest.fail("listens")
    )
    distributed.start(environ)


def test_the_coordinator_listens_where_it_is_told(monkeypatch):
    given = {}
    monkeypatch.setattr(distributed, "_check_can_listen", lambda address: None)
    monkeypatch.setattr(
        distributed.jax.distributed, "initialize", lambda **k: given.update(k)
    )
    names = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
    place = distributed.detect(
        dict(zip(names, ("10.0.0.7:4321", "2", "0"), strict=True))
    )
    distributed._meet(place.source, place, None)
    assert given["coordinator_address"] == "10.0.0.7:4321"
    assert given["coordinator_bind_address"] == "10.0.0.7:4321"


def test_every_test_that_the_document_names_is_there():
    text = (ROOT / "docs" / "security.md").read_text()
    named = set(re.findall(r"\btest_\w+", text))
    assert len(named) > 10
    there = {
        name
        for path in (ROOT / "tests").rglob("*_test.py")
        for name in re.findall(r"^def (test_\w+)", path.read_text(), re.MULTILINE)
    }
    assert named <= there
