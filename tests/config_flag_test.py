"""What is wrong with a config file or a change of it, in one line."""

import pathlib

import programs
import pytest
from golden_data import ROOT

from etc_jax import convert

pytestmark = pytest.mark.filterwarnings("ignore:the load_module:DeprecationWarning")

QUICKSTART = ROOT / "etc_jax/configs" / "quickstart.py"
FILES = {
    "broken.py": "def get_config(:\n",
    "raising.py": "def get_config(arg=''):\n    return 1 // 0\n",
    "nothing.py": "def get_config(arg=''):\n    return None\n",
}
CASES = {
    "a section that is not there": (
        [f"--config={QUICKSTART}", "--config.modl.x=3"],
        "no field 'modl'; Did you mean \"model\"",
    ),
    "a variant that is not there": (
        [f"--config={QUICKSTART}:tny"],
        "no variant 'tny' of this config; did you mean 'tiny'? there are: tiny, no_cpc",
    ),
    "a file that is not there": (
        [f"--config={QUICKSTART.with_name('quickstrt.py')}"],
        "quickstrt.py; there are: quickstart.py",
    ),
    "a value of another type": (
        [f"--config={QUICKSTART}", "--config.train.num_steps=x"],
        "invalid literal for int",
    ),
    "a file with an error of syntax": (["--config=broken.py"], "broken.py:1: invalid"),
    "a file that raises": (["--config=raising.py"], "raising.py:2: ZeroDivisionError"),
    "a file that gives nothing": (["--config=nothing.py"], "--config: "),
}


@pytest.mark.parametrize("case", CASES)
def test_one_line_says_what_is_wrong(case, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        pathlib.Path(name).write_text(text)
    argv, message = CASES[case]
    assert convert.main(["--trax=x", "--out=model", *argv]) == 2
    error = capsys.readouterr().err
    assert message in error and "--config: " in error
    assert error.count("\n") == 1 and "Traceback" not in error


def test_training_says_so_too(tmp_path):
    argv = (
        f"--config={QUICKSTART}",
        "--config.modl.x=3",
        f"--workdir={tmp_path / 'run'}",
    )
    done = programs.run("etc_jax.train", *argv, cwd=ROOT)
    assert done.returncode == 2
    told = "etc_jax.train: --config: no field 'modl'; Did you mean"
    assert done.stderr.startswith(told) and done.stderr.count("\n") == 1
    assert not (tmp_path / "run").exists()
