"""The commands that make corpora of long texts, and what training reads of them."""

import gzip
import json
import os

import limits
import numpy as np
import programs
import pytest
from tiny_text import VOCAB_SIZE, write_rows

from etc_jax.cli.corpora import main
from etc_jax.data.text import prepare
from etc_jax.data.text.cache import build_cache
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.long_texts import LongText, in_tokens, in_words
from etc_jax.data.text.sources import read_documents
from etc_jax.data.tokenizers.tokenizer import train


@pytest.fixture
def rows(tmp_path):
    """A file of 60 documents of some 120 words, in a folder of its own."""
    folder = tmp_path / "in"
    folder.mkdir()
    write_rows(folder / "rows.jsonl", count=60)
    return folder / "rows.jsonl"


def link(rows, out, *more):
    options = ("--length=700", "--text_field=body", f"--out={out}")
    return main(["link", *options, *more, str(rows)])


def read(out):
    """(rows of JSON, their texts as training reads them)."""
    with (gzip.open if out.suffix == ".gz" else open)(out, "rt", encoding="utf-8") as f:
        values = [json.loads(line) for line in f]
    return values, list(read_documents(out))


def parts(values, texts):
    """The documents that texts are made of."""
    for row, text in zip(values, texts, strict=True):
        left = list(text.paragraphs)
        for name, count in row["documents"]:
            yield Document(name, tuple(left[:count]))
            del left[:count]
        assert not left


def test_documents_come_back_each_once_and_unchanged(rows, tmp_path, capsys):
    out = tmp_path / "linked.jsonl.gz"
    assert link(rows, out) == 0
    values, texts = read(out)
    want = list(read_documents(rows, text_field="body"))
    assert sorted(map(repr, parts(values, texts))) == sorted(map(repr, want))
    assert len(texts) < 20 and max(in_words(texts)) <= 700
    said = capsys.readouterr().out
    assert f"60 documents in {len(texts)} texts, of which 0 have one" in said
    assert f"median {np.median(in_words(texts)):,.1f}, most {max(in_words(texts))}" in (
        said
    )
    near, far = said.rpartition("document ")[2].split(", of random pairs ")
    assert 0 < float(far) < float(near) < 1


def test_the_same_command_writes_the_same_bytes(rows, tmp_path):
    outs = [tmp_path / name for name in ("a.jsonl.gz", "b.jsonl.gz", "c.jsonl.gz")]
    for out, seed in zip(outs, (3, 3, 4), strict=True):
        assert link(rows, out, f"--seed={seed}") == 0
    a, b, c = (out.read_bytes() for out in outs)
    assert a == b != c


def test_tokens_are_those_that_a_cache_has(rows, tmp_path, capsys):
    first = prepare.prepare(
        tmp_path / "caches",
        source=read_documents(rows, text_field="body"),
        vocab_size=VOCAB_SIZE,
    )
    vocabulary = first.train.path.parent / "tokenizer.json"
    out = tmp_path / "linked.jsonl"
    assert link(rows, out, f"--tokenizer={vocabulary}") == 0
    source = read_documents(out)
    cache = build_cache(source, first.tokenizer, tmp_path / "cache", made_by={})
    lengths = np.diff(cache.sentence_offsets[cache.document_offsets]).tolist()
    assert lengths == in_tokens(first.tokenizer)(list(source))
    assert max(lengths) <= 700
    assert cache.num_documents == len(lengths)
    assert cache.num_tokens == first.train.num_tokens + first.validation.num_tokens
    assert f"tokens of a text: mean {np.mean(lengths):,.1f}" in capsys.readouterr().out


def test_documents_without_tokens_have_a_length():
    tokenizer = train(["a few words here"] * 20, vocab_size=130)
    paragraphs = (("a",), (), ("few a", "words"), ())
    documents = [Document("d", x) for x in paragraphs]
    want = [sum(len(ids) for ids, _ in tokenizer.encode_batch(p)) for p in paragraphs]
    assert in_tokens(tokenizer)(documents) == want
    assert want[1] == want[3] == 0 < want[0] < want[2]


def test_long_documents_are_chosen(tmp_path, capsys):
    for length in (5, 10, 20, 40):
        text = " ".join(["word"] * (length - 1)) + "\n\nend"
        (tmp_path / f"{length}.txt").write_text(text)
    out = tmp_path / "long.jsonl"
    options = (f"--out={out}", f"{tmp_path}/*.txt")
    assert main(["long", "--min_length=10", "--max_length=20", *options]) == 0
    values, texts = read(out)
    assert in_words(texts) == [10, 20]
    assert [row["documents"] for row in values] == [
        [[f"{tmp_path.name}/{length}.txt", 2]] for length in (10, 20)
    ]
    assert "2 of 4 documents\nwords of a text: mean 15.0" in capsys.readouterr().out
    assert main(["long", "--min_length=10", *options]) == 2
    assert "long.jsonl exists; give another --out or" in capsys.readouterr().err
    assert main(["long", "--min_length=10", "--overwrite", *options]) == 0
    assert in_words(read(out)[1]) == [10, 20, 40]
    assert main(["long", "--min_length=41", "--overwrite", *options]) == 2
    assert "length of 41 or more, the longest has 40" in capsys.readouterr().err
    assert in_words(read(out)[1]) == [10, 20, 40]


@pytest.mark.parametrize(
    "flags, message",
    [
        (("long", "--min_length=0"), "--min_length is 0; expected 1 or more"),
        (("long", "--min_length=9", "--max_length=8"), "--max_length is 8, less"),
        (("link", "--length=0"), "length is 0; expected 1 or more"),
        (("link", "--length=9", "--neighbours=0"), "neighbours is 0; expected"),
        (("link", "--length=9", "--tokenizer=/nowhere"), "/nowhere"),
        (
            ("link", "--length=9", "--text_field=txt"),
            "no field 'txt', there are 'body'",
        ),
    ],
)
def test_what_is_wrong_is_named(rows, tmp_path, capsys, flags, message):
    out = tmp_path / "out.jsonl"
    assert main([*flags, f"--out={out}", str(rows)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert not out.exists()


def test_a_file_that_is_read_is_not_written(rows, capsys):
    before = rows.read_bytes()
    with pytest.raises(SystemExit):
        link(rows, rows, "--overwrite")
    assert "which it would destroy" in capsys.readouterr().err
    assert rows.read_bytes() == before


DAMAGE = {
    "cut short": (lambda data: gzip.compress(data)[:-40], "fetch the file again"),
    "no JSON": (lambda data: gzip.compress(data[:-20] + b"\n"), ":60: not JSON"),
    "empty": (lambda data: gzip.compress(b"\n"), "there is no text in"),
}


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("command", ["link --length=700", "long --min_length=1"])
def test_damaged_files_leave_nothing_behind(rows, tmp_path, capsys, kind, command):
    damage, message = DAMAGE[kind]
    bad = rows.with_name("bad.jsonl.gz")
    bad.write_bytes(damage(rows.read_bytes()))
    folder = tmp_path / "out"
    folder.mkdir()
    out = f"--out={folder / 'x.jsonl'}"
    assert main([*command.split(), "--text_field=body", out, str(bad)]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
    assert os.listdir(folder) == []


def test_a_run_that_is_killed_leaves_no_half_file(tmp_path):
    pipe, folder = tmp_path / "in.jsonl", tmp_path / "out"
    os.mkfifo(pipe)
    folder.mkdir()
    program = programs.start(
        *("etc_jax.cli.corpora", "long", "--min_length=1"),
        *(f"--out={folder / 'x.jsonl'}", str(pipe)),
        stdout=tmp_path / "said",
    )
    try:
        with open(pipe, "w") as file:
            # More than is measured at once, and no end.
            for _ in range(60):
                file.write(json.dumps({"text": "word " * 20_000}) + "\n")
            file.flush()
            limits.until(lambda: any(p.stat().st_size for p in folder.iterdir()))
            assert program.poll() is None
            program.kill()
            program.wait(limits.SECS)
    finally:
        program.kill()
    assert not (folder / "x.jsonl").exists()


def test_a_line_that_could_not_be_read_is_not_written(monkeypatch):
    monkeypatch.setenv("ETC_JAX_MAX_RECORD_MB", "1")
    text = LongText((Document("d/whale", ("é" * 499_000,)),), 1)
    assert len(text.row().encode()) <= 10**6
    text = LongText((Document("d/whale", ("é" * 500_000,)),), 1)
    with pytest.raises(ValueError, match="'d/whale', as a line of JSON, has 1,000,0"):
        text.row()
