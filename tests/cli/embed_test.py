"""Vectors of texts on the command line."""

import gzip
import io
import json
import pathlib
import sys

import numpy as np
import pytest
from tiny_texts import texts, tiny  # noqa: E402

from etc_jax.cli import embed  # noqa: E402

TEXTS = texts(5, 20)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "bert"
    tiny("bert").save(folder)
    return folder


@pytest.fixture
def ask(model, tmp_path, monkeypatch, capsys):
    """Runs the command; gives (exit code, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def ask(*argv):
        code = embed.main([f"--model={model}", *argv])
        return code, *capsys.readouterr()

    return ask


def ids_in(path):
    lines = pathlib.Path(path).read_text().splitlines()
    return [json.loads(line)["id"] for line in lines]


def test_json_lines_become_vectors_and_ids(ask):
    records = [{"text": text} for text in TEXTS]
    records[1]["id"] = "second"
    lines = "".join(f"{json.dumps(x)}\n" for x in records)
    pathlib.Path("docs.jsonl").write_text(lines)
    pathlib.Path("more.jsonl.gz").write_bytes(gzip.compress(b'{"text": "red"}\n'))
    code, out, err = ask("docs.jsonl", "more.jsonl.gz", "--out=docs.npy")
    blank = TEXTS.index("") + 1
    said = f"1 of 6 texts are blank, the first in docs.jsonl, line {blank}; each has"
    assert code == 0 and err.count("\n") == 1 and said in err
    assert out == "wrote 6 vectors of 8 numbers to docs.npy, ids to docs.ids.jsonl\n"
    want = tiny("bert").encode([*TEXTS, "red"])
    np.testing.assert_array_equal(np.load("docs.npy"), want)
    first, second, *_, last = ids_in("docs.ids.jsonl")
    assert (first, second, last) == ("docs.jsonl:1", "second", "more.jsonl.gz:1")


def test_lines_of_standard_input_and_options(ask, monkeypatch):
    some = [*TEXTS[:-1], f"{TEXTS[-1]} [SEP] red"]
    lines = "".join(f"{t}\n" for t in some).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    options = "--pooling=cls", "--normalize", "--batch_size=2"
    options += ("--special_tokens_in_text",)
    assert ask("-", "--out=v.npy", *options)[0] == 0
    how = {"pooling": "cls", "normalize": True, "special_tokens_in_text": True}
    want = tiny("bert").encode(some, **how)
    np.testing.assert_allclose(np.load("v.npy"), want, atol=1e-6)
    assert ids_in("v.ids.jsonl") == [f"-:{n}" for n in range(1, 6)]


def test_cut_texts_are_told_once(ask):
    pathlib.Path("a.txt").write_text("red green blue black white\nred\n")
    given = "a.txt", "--out=a.npy", "--max_length=4"
    code, _, err = ask(*given)
    told = "1 of 2 texts have more than the 4 tokens that the model reads, up to 7"
    assert (code, err) == (0, f"etc-jax embed: {told}; they were cut\n")
    code, _, err = ask(*given, "--on_long=error", "--overwrite")
    assert code == 2 and told in err


@pytest.mark.parametrize(
    "argv, message",
    [
        (("a.jsonl", "--out=b.jsonl"), "expected the name of a .npy file"),
        (("a.jsonl", "--out=no/a.npy"), "must be a file in a folder that exists"),
        (("a.jsonl", "--out=there.npy"), "there.npy exists; give another"),
        (("a.jsonl", "--out=beside.npy"), "beside.ids.jsonl exists; give another"),
        (("empty.txt", "--out=a.npy"), "empty.txt: no text is there"),
        (("blank.txt", "--out=a.npy"), "blank.txt, line 1: no text is there"),
        (("latin.txt", "--out=a.npy"), "not UTF-8: latin.txt: line 2: "),
        (("bad.jsonl", "--out=a.npy"), "bad.jsonl, line 2: "),
        (("worse.jsonl", "--out=a.npy"), "worse.jsonl, line 1: "),
        (("half.jsonl", "--out=a.npy"), "half.jsonl:2: half a character in 'a "),
        (("missing.txt", "--out=a.npy"), "No such file"),
        (("a.jsonl", "--out=a.npy", "--pooling=max"), "have; expected mean or cls\n"),
        (("a.jsonl", "--out=a.npy", "--model=nowhere/to/be"), "there is no folder"),
    ],
)
def test_what_cannot_be_done_is_told_and_leaves_nothing(ask, argv, message):
    pathlib.Path("a.jsonl").write_text('{"text": "red"}\n')
    pathlib.Path("bad.jsonl").write_text('{"text": "red"}\n{"txt": "red"}\n')
    pathlib.Path("worse.jsonl").write_text("red\n")
    pathlib.Path("half.jsonl").write_text('{"text": "b"}\n{"text": "a \\ud800"}\n')
    pathlib.Path("blank.txt").write_text("\n \n")
    pathlib.Path("latin.txt").write_bytes(b"red\ncaf\xe9\n")
    for name in ("empty.txt", "there.npy", "beside.ids.jsonl"):
        pathlib.Path(name).touch()
    before = sorted(pathlib.Path().iterdir())
    code, out, err = ask(*argv)
    assert (code, out) == (2, "")
    assert err.startswith("etc-jax embed: ") and message in err
    assert sorted(pathlib.Path().iterdir()) == before


def test_a_failure_leaves_the_old_vectors_with_the_old_ids(ask, monkeypatch):
    for name in ("a.txt", "b.txt"):
        pathlib.Path(name).write_text("red\n")
    assert ask("a.txt", "--out=v.npy")[0] == 0
    files = [pathlib.Path(name) for name in ("v.npy", "v.ids.jsonl")]
    before = [path.read_bytes() for path in files]

    def full(*_):
        raise OSError("disk full")

    monkeypatch.setattr(embed.np, "save", full)
    code, _, err = ask("b.txt", "--out=v.npy", "--overwrite")
    assert code == 2 and "disk full" in err
    assert [path.read_bytes() for path in files] == before
