"""Data and outputs in an object store: the same bytes as in files here."""

import os
import pathlib
import zipfile

import finetuned_run
import pytest
import tiny_text
from multihop_samples import HOTPOT, tokenizer, write_json
from window_samples import contents

from etc_jax.base import copies, stores, user_cache
from etc_jax.cli import convert, evaluate, predict, prepare
from etc_jax.data.input_files import open_input
from etc_jax.data.text import export
from etc_jax.data.text.sources import read_documents
from etc_jax.data.windows.cache import WindowCache
from etc_jax.objectives.jobs.pretraining_data import prepare as prepare_text

pytestmark = [pytest.mark.service, pytest.mark.usefixtures("bucket")]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "cache"))


@pytest.fixture
def fetched(monkeypatch):
    """The names of what is fetched."""
    names, copy = [], copies._copy

    def counted(source, path):
        names.append(path.name)
        copy(source, path)

    monkeypatch.setattr(copies, "_copy", counted)
    return names


def test_what_has_changed_alone_is_fetched(folder, fetched):
    (folder / "a.txt").write_text("one")
    (folder / "b/c.txt").write_text("two")
    here = copies.place(folder)
    assert copies.here(folder) == str(here)
    assert contents(here) == {"a.txt": b"one", "b/c.txt": b"two"}
    assert copies.here(folder / "b/c.txt") == str(here / "b/c.txt")
    assert sorted(fetched) == ["a.txt", "c.txt"]
    (folder / "a.txt").unlink()
    (folder / "b/c.txt").write_text("three")
    copies.here(folder)
    assert contents(here) == {"b/c.txt": b"three"}
    (here / "b/c.txt").write_bytes(b"wrong")
    copies.here(folder)
    assert contents(here) == {"b/c.txt": b"three"}
    with pytest.raises(ValueError, match="there is nothing at gs://.*/none; expected"):
        copies.here(folder / "none")
    with pytest.raises(OSError, match="no such bucket"):
        copies.here("gs://no-such-bucket/a")


def test_a_pattern_is_one_of_the_copies(folder, fetched):
    for name in ("a.txt", "b/c.txt", "b/d/e.txt", "b/f.json"):
        (folder / name).write_text("text")
    pattern = f"{folder}/b/**/*.txt"
    assert [x.name for x in read_documents(pattern)] == ["b/c.txt", "b/d/e.txt"]
    assert sorted(fetched) == ["c.txt", "e.txt"]
    (folder / "b/c.txt").unlink()
    assert [x.name for x in read_documents(pattern)] == ["b/d/e.txt"]
    with pytest.raises(ValueError, match="there is nothing at gs://"):
        read_documents(f"{folder}/*.none")


def test_a_file_of_an_archive(folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("b/c.txt", "text")
    stores.upload(tmp_path / "a.zip", folder / "a.zip")
    with open_input(copies.here(folder / "a.zip/b/c.txt")) as file:
        assert file.read() == b"text"


@pytest.mark.parametrize("size", [0, 1, 3 << 20, (3 << 20) + 1, 20 << 20])
def test_a_file_comes_back_whole(folder, tmp_path, monkeypatch, size):
    monkeypatch.setattr(stores, "SLICE_BYTES", 1 << 20)
    content = os.urandom(size)
    (tmp_path / "file").write_bytes(content)
    stores.upload(tmp_path / "file", folder / "file")  # in several requests
    assert pathlib.Path(copies.here(folder / "file")).read_bytes() == content


def test_a_file_that_changes_while_it_is_read(folder, tmp_path):
    (folder / "file").write_text("one")
    before = stores.find(folder / "file")
    (folder / "file").write_text("two")
    with pytest.raises(OSError, match="changed by another process"):
        before.copy_to(tmp_path / "file")


def test_prepared_inputs(folder, tmp_path, capsys):
    tokenizer().save(tmp_path / "tokenizer.json")
    file = write_json(tmp_path, [HOTPOT | {"_id": str(i)} for i in range(9)])
    for path in (tmp_path / "tokenizer.json", file):
        stores.upload(path, folder / path.name)
    for place in (tmp_path, folder):
        words = f"--tokenizer={place / 'tokenizer.json'}", str(place / file.name)
        words += "--task=hotpotqa", "--workers=0", f"--out={place / 'made'}"
        assert prepare.main(words) == 0
    assert contents(folder / "made") == contents(tmp_path / "made")
    told = capsys.readouterr().out
    assert f"{folder / 'made'}: 9 windows" in told and "/cache/" not in told
    assert not list((tmp_path / "cache/outputs").rglob("*.npy"))
    assert prepare.main(words) == 0
    assert f"{folder / 'made'} is finished already" in capsys.readouterr().out
    digest = WindowCache.open(tmp_path / "made").digest
    assert WindowCache.open(folder / "made").digest == digest


def test_what_cannot_be_put_there_stays_here(folder, tmp_path, monkeypatch, capsys):
    tokenizer().save(tmp_path / "tokenizer.json")
    file = write_json(tmp_path, [HOTPOT])
    words = f"--tokenizer={tmp_path / 'tokenizer.json'}", "--task=hotpotqa", str(file)
    words += "--workers=0", f"--out={folder}"

    def refused(*args):
        raise OSError("no more space")

    with monkeypatch.context() as patch:
        patch.setattr(stores, "upload", refused)
        assert prepare.main(words) == 2
    assert "no more space" in capsys.readouterr().err
    assert not contents(folder)
    assert prepare.main(words) == 0  # goes on from there
    assert "is finished already" in capsys.readouterr().out
    assert WindowCache.open(folder).num_windows == 1


def test_the_text_of_a_run(folder, tmp_path, monkeypatch):
    (tmp_path / "texts").mkdir()  # names of documents begin with it
    tiny_text.write_rows(tmp_path / "texts/rows.jsonl", 80)
    stores.upload(tmp_path / "texts/rows.jsonl", folder / "texts/rows.jsonl")
    made = []
    for place in (tmp_path, folder):
        paths = (str(place / "texts/rows.jsonl"),)
        data = tiny_text.config(data__paths=paths).data
        made.append(prepare_text(data, place / "run"))
    assert made[0].inputs == made[1].inputs
    assert contents(folder / "run/data") == contents(tmp_path / "run/data")
    # Another machine has no copies, and tokenises nothing.
    monkeypatch.setenv(user_cache.VARIABLE, str(tmp_path / "other"))
    monkeypatch.setattr(export, "encode_parts", None)
    assert prepare_text(data, folder / "run").inputs == made[0].inputs
    there = folder / "run/data" / made[0].train[0].path.parent.name
    caches = {
        "data__source": "cache",
        "data__paths": (str(there / "train"),),
        "data__validation_paths": (str(there / "held_back"),),
    }
    config = tiny_text.config(**caches)
    assert not list(config.data.missing())
    [cache] = prepare_text(config.data, tmp_path).train
    assert cache.digest == made[0].train[0].digest


COMMANDS = {
    "evaluate": (evaluate, "--workers=0", "--model=", "--out=", ""),
    "predict": (predict, "--json", "--model=", "--html=", ""),
    "convert": (convert, "", "--export=", "--out="),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_outputs(name, folder, tmp_path, capsys):
    module, more, *flags = COMMANDS[name]
    records = finetuned_run.records("wikihop", 4)
    finetuned_run.write(tmp_path / "dev.json", records)
    stores.upload(tmp_path / "dev.json", folder / "dev.json")
    (tmp_path / "out").mkdir()
    outputs = []
    for place in (tmp_path, folder):
        finetuned_run.save_run(place / "run", finetuned_run.config("wikihop"), (12,))
        out = place / "out" / ("page.html" if name == "predict" else "")
        given = zip(flags, (place / "run", out, place / "dev.json"), strict=False)
        argv = [more, *(f"{flag}{path}" for flag, path in given)]
        assert module.main(list(filter(None, argv))) == 0, capsys.readouterr().err
        outputs.append(
            {
                file: content.replace(bytes(place), b"")
                for file, content in contents(place / "out").items()
                if file != "model.json"  # has digests of the others
            }
        )
    assert outputs[0] == outputs[1] and outputs[0]
