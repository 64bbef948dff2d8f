"""Whatever a file of records holds, reading it ends well or in a clear error.

Files of every data set are damaged at random: values of JSON, how they are spelled,
bytes, and gzip. Hypothesis finds the least damage that fails, and is seeded, so that
every run does the same.
"""

import gzip
import json
import pathlib
import tempfile

import pytest
import record_files
from hypothesis import HealthCheck, given, settings, strategies as st


@pytest.mark.parametrize("form", record_files.ALL)
@pytest.mark.parametrize("count", [200, 5000])
@pytest.mark.full(but=["200-*"])
def test_damage_ends_well_or_in_a_clear_error(form, count):
    @settings(
        max_examples=-(-count // len(record_files.ALL)),
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def each(rng):
        with tempfile.TemporaryDirectory() as folder:
            path = record_files.damaged_file(form, pathlib.Path(folder), rng)
            record_files.consume(form, path)

    each()


# The names of reviews are drawn, and some of them are wrong.
@pytest.mark.parametrize("form", sorted({*record_files.ALL} - {"imdb_folder"}))
def test_files_without_damage_are_answered(form, tmp_path, monkeypatch):
    harmless = {
        "mutated": lambda value, rng: value,
        "spelled": lambda value, rng: json.dumps(value),
        "damaged": lambda data, rng: data,
        "damaged_gzip": lambda data, rng: gzip.compress(data),
    }
    for name, same in harmless.items():
        monkeypatch.setattr(record_files.mutations, name, same)
    for number, rng in enumerate(record_files.trials(form, range(2))):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = record_files.damaged_file(form, folder, rng)
        assert record_files.consume(form, path) > 0
