"""Fixtures of the tests of data sets."""

import finetuned_run
import pytest
from data_sets import sentences_at_stops  # noqa: F401


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Runs a command that should end well in a folder; what it prints."""
    monkeypatch.chdir(tmp_path)
    finetuned_run.tokenizer().save("tokenizer.json")

    def run(command, *arguments, code=0):
        assert command.main(list(map(str, arguments))) == code, capsys.readouterr()
        printed = capsys.readouterr()
        return printed.err if code else printed.out

    return run
