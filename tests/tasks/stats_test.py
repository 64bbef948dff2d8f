"""Counts and lengths of caches and files, against plain numpy and by hand."""

import json
import re
import tracemalloc

import natural_questions_samples as articles
import numpy as np
import openkp_samples
import pytest
import tokenizers
from data_sets import SAMPLES, tokenizer_of
from multihop_samples import HOTPOT, WIKIHOP, write_json

from etc_jax.cli import prepare
from etc_jax.data.text.cache import build_cache
from etc_jax.data.text.corpus import Document
from etc_jax.data.windows.cache import WindowCache
from etc_jax.datasets import lengths as lengths_lib, task as task_lib
from etc_jax.datasets.lengths import Lengths
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import stats


@pytest.fixture
def vocabulary(tmp_path):
    path = tmp_path / "tokenizer.json"
    articles.tokenizer().save(path)
    return path


@pytest.fixture
def run(capsys):
    """Runs the command line; gives (exit code, what it printed, its errors)."""

    def run(*argv):
        return stats.main([str(x) for x in argv]), *capsys.readouterr()

    return run


def rows(printed):
    """The cells of all Markdown rows, the heads among them."""
    lines = [line for line in printed.splitlines() if line.startswith("|")]
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in lines
        if not re.fullmatch(r"[|:\- ]+", line)
    ]


# --- lengths --------------------------------------------------------------------------


@pytest.mark.parametrize("number", [1, 2, 3, 19, 20, 21, 100, 999])
def test_percentiles_are_those_of_numpy(number):
    values = np.random.default_rng(number).integers(1, 60, number)
    lengths = Lengths()
    for value in values.tolist():
        lengths.add(value)
    assert lengths.number == number and lengths.total == values.sum()
    for percent in (0.1, 5, 50, 90, 95, 99, 99.9, 100):
        want = np.percentile(values, percent, method="inverted_cdf")
        assert lengths.percentile(percent) == want
    assert lengths.over(30) == np.sum(values > 30)


@pytest.mark.parametrize("chunk", [1, 7, 8, 1000])
def test_lengths_between_offsets_are_their_differences(monkeypatch, chunk):
    monkeypatch.setattr(lengths_lib, "_CHUNK", chunk)
    rng = np.random.default_rng(0)
    sentences = np.cumsum([0, *rng.integers(1, 9, 50)])
    documents = np.cumsum([0, *rng.integers(0, 6, 8), 0])
    documents = np.minimum(documents, 50)
    got = Lengths(), Lengths()
    got[0].add_between(sentences)
    got[1].add_between(documents, sentences)
    for lengths, want in zip(
        got, (np.diff(sentences), np.diff(sentences[documents])), strict=True
    ):
        assert (lengths.number, lengths.total) == (len(want), want.sum())
        for percent in (10, 50, 95, 100):
            found = np.percentile(want, percent, method="inverted_cdf")
            assert lengths.percentile(percent) == found


def test_memory_does_not_grow_with_the_offsets(tmp_path):
    rng = np.random.default_rng(0)
    file = tmp_path / "offsets.npy"
    np.save(file, np.cumsum(rng.integers(1, 512, 6_000_000)))
    offsets = np.load(file, mmap_mode="r")
    tracemalloc.start()
    try:
        Lengths().add_between(offsets)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < offsets.nbytes


def test_no_percentile_of_nothing():
    lengths = Lengths()
    with pytest.raises(ValueError, match="percentile 50 of 0 lengths"):
        lengths.percentile(50)
    lengths.add(3)
    with pytest.raises(ValueError, match="percentile 0 of 1 lengths; expected over 0"):
        lengths.percentile(0)


# --- caches ---------------------------------------------------------------------------


def make_windows(folder, name, *, count, out, **more):
    file = folder / f"{out}.json"
    if name == "natural_questions":
        texts = [articles.long_article(500, seed) for seed in range(count)]
        values = [articles.original(text, name=i) for i, text in enumerate(texts)]
        articles.write_lines(file, values)
    else:
        write_json(folder, SAMPLES[name].invented(count), file.name)
    task = task_lib.find_task(name)
    return prepare.prepare(task, [file], tokenizer_of(task), folder / out, **more)


def make_text(folder, documents, out="text"):
    made = [Document(f"d/{i}", tuple(text)) for i, text in enumerate(documents)]
    return build_cache(
        made, articles.tokenizer(), folder / out, made_by={}, split_fn=list
    )


def expected(values):
    wanted = (50, 95, 100)
    return [str(np.percentile(values, p, method="inverted_cdf")) for p in wanted]


def test_caches_of_windows_have_a_row_each(run, tmp_path):
    caches = [
        make_windows(tmp_path, "hotpotqa", count=9, out="train"),
        make_windows(tmp_path, "hotpotqa", count=4, out="dev"),
    ]
    code, out, err = run(*(cache.path for cache in caches))
    assert code == 0 and err.splitlines() == [f"reading {c.path}" for c in caches]
    head, *found = rows(out)
    assert head[:4] == ["set", "task", "records", "windows"]
    assert head[4:7] == ["long: median", "long: 95 %", "long: max"]
    assert head[7:] == ["global: median", "global: 95 %", "global: max"]
    for cache, row, count in zip(caches, found, ("9", "4"), strict=True):
        assert row[:4] == [str(cache.path), "hotpotqa", count, count]
        windows = [cache.window(i) for i in range(cache.num_windows)]
        for key, cells in (("long_tokens", row[4:7]), ("global_tokens", row[7:])):
            assert cells == expected([len(window[key]) for window in windows])


def test_windows_of_an_article_are_counted_beside_the_records(run, tmp_path):
    options = {"question_tokens": 4, "null_share": 0.5, "unanswerable_share": 0.5}
    cache = make_windows(
        tmp_path,
        "natural_questions",
        count=6,
        out="nq",
        sizes=StructuredSizes(512, 100),
    )
    task = task_lib.find_task("natural_questions").with_options(options)
    drawn = prepare.prepare(
        task,
        [tmp_path / "nq.json"],
        articles.tokenizer(),
        tmp_path / "drawn",
        sizes=StructuredSizes(512, 100),
    )
    _, out, _ = run(cache.path, drawn.path)
    _, *found = rows(out)
    assert [row[2] for row in found] == ["6", "6"]
    assert int(found[0][3]) == cache.num_windows > 6
    assert int(found[1][3]) == drawn.num_windows < cache.num_windows
    left_out = sum(x["count"] for x in drawn.header["left_out"].values())
    assert f"left out, {left_out}:" in out and "window without an answer" in out


def test_text_for_pretraining_has_documents_and_sentences(run, tmp_path):
    text = [["the mill was built", "by ann"], [], ["town of two", "a", "b c"]]
    # Words that the vocabulary has are one token, others one a letter.
    assert len(articles.tokenizer().encode_batch(["ann"])[0][0]) == 3
    cache = make_text(tmp_path, text)
    code, out, _ = run(cache.path, "--percentiles=50,75,100")
    assert code == 0 and rows(out) == [
        ["set", "documents", "sentences", "document: median", "document: 75 %"]
        + ["document: max", "sentence: median", "sentence: 75 %", "sentence: max"],
        [str(cache.path), "3", "5", "6", "8", "8", "3", "4", "4"],
    ]


def test_packing_of_text_is_told_with_what_it_saves(run, tmp_path):
    # Documents of 21, 30 and 6 tokens; the last one has too few sentences.
    text = [["the mill was"] * n for n in (7, 10, 2)]
    cache = make_text(tmp_path, text)
    code, out, _ = run(cache.path, "--long_length=51", "--global_length=17")
    assert code == 0
    head, row = rows(out)
    found = dict(zip(head, row, strict=True))
    names = ("windows", "filled", "unpacked windows", "times faster")
    assert [found[x] for x in names] == ["1", "1.0", "2", "2.0"]
    # With room for fewer sentences nothing shares a window.
    _, out, _ = run(cache.path, "--long_length=51", "--global_length=16", "--json")
    [found] = json.loads(out)["sets"]
    assert [found[x] for x in names] == [2, 0.5, 2, 1.0]


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--global_length=8"], "--global_length goes with --long_length"),
        (["--long_length=8", "--task=x"], "--long_length is of text for pre-training"),
    ],
)
def test_lengths_of_windows_go_with_text(run, capsys, argv, message):
    with pytest.raises(SystemExit):
        run("some", *argv)
    assert message in capsys.readouterr().err


def test_windows_are_not_packed_anew(run, tmp_path):
    windows = make_windows(tmp_path, "wikihop", count=3, out="windows")
    code, _, errors = run(windows.path, "--long_length=64")
    assert code == 2 and "has windows of their own lengths" in errors


def test_sets_of_several_kinds_have_a_table_for_each_kind(run, tmp_path):
    windows = make_windows(tmp_path, "wikihop", count=3, out="windows")
    text = make_text(tmp_path, [["the mill"]])
    _, out, _ = run(windows.path, text.path)
    tables = out.split("\n\n")[:2]
    assert [rows(table)[1][0] for table in tables] == [
        str(windows.path),
        str(text.path),
    ]
    for table in tables:
        lines = table.splitlines()
        assert len({len(line) for line in lines}) == 1 and len(lines) == 3
        assert re.fullmatch(r"\| -+ (\| -+: )+\|", lines[1])


def test_json_has_the_same_for_a_program(run, tmp_path):
    cache = make_windows(tmp_path, "hotpotqa", count=5, out="c")
    file = tmp_path / "stats.json"
    _, out, _ = run(cache.path, "--json", f"--out={file}")
    assert file.read_text() == out
    _, out, _ = run(cache.path, f"--out={tmp_path / 'beside_a_table.json'}")
    assert out.startswith("| set")
    assert (tmp_path / "beside_a_table.json").read_text() == file.read_text()
    [found] = json.loads(file.read_text())["sets"]
    sizes = [len(cache.window(i)["long_tokens"]) for i in range(5)]
    assert (found["kind"], found["task"], found["windows"]) == (
        "windows",
        "hotpotqa",
        5,
    )
    assert found["lengths"]["long"] == {
        "number": 5,
        "mean": np.mean(sizes),
        "percentiles": dict(
            zip(("50", "95", "100"), map(int, expected(sizes)), strict=True)
        ),
    }
    assert found["passed_over"] == {"left_out": {}, "found": {}}


# --- files ----------------------------------------------------------------------------


def test_lengths_are_those_of_the_tokenizers_package(run, vocabulary, tmp_path):
    plain = tokenizers.Tokenizer.from_file(str(vocabulary))

    def pieces(text):
        return len(plain.encode(text, add_special_tokens=False).ids)

    values = [HOTPOT | {"_id": f"h{i}", "question": "who " * i} for i in range(1, 8)]
    context = [[title, *sentences] for title, sentences in HOTPOT["context"]]
    sizes = [
        1 + pieces(v["question"]) + sum(pieces(t) for part in context for t in part)
        for v in values
    ]
    file = write_json(tmp_path, values)
    limit = sizes[3]
    code, out, _ = run(
        *("--task=hotpotqa", f"--tokenizer={vocabulary}", f"--length={limit}"),
        file,
    )
    assert code == 0 and rows(out) == [
        ["set", "task", "records", "median", "95 %", "max", f"over {limit}"],
        [str(file), "hotpotqa", "7", *expected(sizes), "42.9%"],
    ]


def test_an_article_is_counted_word_by_word(run, vocabulary, tmp_path):
    """Question 4 pieces; 8 + 10 + 8 words of candidates, of which some are letters."""
    plain = tokenizers.Tokenizer.from_file(str(vocabulary))
    words = articles.ARTICLE.split(" ")
    spans = [span for span, top in articles.candidates_of(articles.ARTICLE) if top]
    size = 3 + len(plain.encode("who built the mill", add_special_tokens=False).ids)
    for start, stop in spans:
        for word in words[start:stop]:
            tag = word.startswith("<")
            size += 1 if tag else len(plain.encode(word, add_special_tokens=False).ids)
    file = articles.write_lines(tmp_path / "nq.jsonl.gz", [articles.original()])
    _, out, _ = run("--task=natural_questions", f"--tokenizer={vocabulary}", file)
    assert rows(out)[1][1:] == ["natural_questions", "1", *[str(size)] * 3, "0.0%"]


def test_a_pattern_is_one_row_of_all_its_files(run, vocabulary, tmp_path):
    for i in range(3):
        write_json(tmp_path, [WIKIHOP | {"id": f"{i}"}], f"train-{i}.json")
    write_json(tmp_path, [WIKIHOP], "dev.json")
    pattern, dev = tmp_path / "train-*.json", tmp_path / "dev.json"
    _, out, _ = run("--task=wikihop", f"--tokenizer={vocabulary}", pattern, dev)
    assert [row[:3] for row in rows(out)[1:]] == [
        [str(pattern), "wikihop", "3"],
        [str(dev), "wikihop", "1"],
    ]


def test_what_was_passed_over_is_counted_and_named(run, vocabulary, tmp_path):
    pages = [
        openkp_samples.page(url="http://x.org/a"),
        openkp_samples.page(url="http://x.org/a", phrases=("nowhere",)),
        openkp_samples.page(url="http://x.org/b", VDOM="no JSON"),
    ]
    file = openkp_samples.write_lines(tmp_path, pages)
    argv = ("--task=openkp", f"--tokenizer={vocabulary}", file)
    _, out, _ = run(*argv)
    assert rows(out)[1][2] == "1"
    assert "1 x url twice" in out and "1 x broken VDOM" in out and "x.org/b" in out
    _, out, _ = run(*argv, "--json")
    [found] = json.loads(out)["sets"]
    counts = {kind: x["count"] for kind, x in found["passed_over"].items()}
    assert counts["url twice"] == counts["broken VDOM"] == 1
    assert found["lengths"]["record"]["over"] == {"4096": 0}


def test_a_text_that_is_no_unicode_is_counted(run, vocabulary, tmp_path):
    values = [HOTPOT, HOTPOT | {"_id": "half", "question": "who \ud800"}]
    file = write_json(tmp_path, values)
    _, out, _ = run("--task=hotpotqa", f"--tokenizer={vocabulary}", file)
    assert rows(out)[1][2] == "1" and "1 x no Unicode" in out and "'half'" in out


def test_progress_is_told_now_and_then(capsys):
    times = iter([0.0, 1.0, 12.0, 13.0, 40.0])
    tell = stats._progress("f", clock=lambda: next(times))
    for records in (5, 24, 30, 80):
        tell(records)
    assert capsys.readouterr().err.splitlines() == [
        "f: 24 records, 2 records/s",
        "f: 80 records, 2 records/s",
    ]


# --- errors ---------------------------------------------------------------------------


def test_a_wrong_path_is_one_error_and_exit_code_2(run, vocabulary, tmp_path):
    empty, file = tmp_path / "empty", tmp_path / "x.json"
    empty.mkdir()
    file.write_text("[]")
    odd, broken = tmp_path / "odd", tmp_path / "broken"
    for folder, text in ((odd, '{"format_version": 1}'), (broken, "{")):
        folder.mkdir()
        (folder / "header.json").write_text(text)
    for path, message in (
        (tmp_path / "no", f"no cache in {tmp_path / 'no'}"),
        (empty, r"header\.json is missing"),
        (file, "is a file, expected the folder of a cache; .* give --task"),
        (odd, "neither a window cache nor a token cache"),
        (broken, "is damaged"),
    ):
        code, out, err = run(path)
        assert code == 2 and out == ""
        reading, error = err.splitlines()
        assert reading == f"reading {path}" and re.match(
            f"etc-jax stats: .*{message}", error
        )


def test_a_damaged_or_empty_cache_is_refused(run, tmp_path):
    cache = make_windows(tmp_path, "hotpotqa", count=3, out="c")
    file = cache.path / "long_offsets.npy"
    data = bytearray(file.read_bytes())
    data[-8] ^= 1
    file.write_bytes(data)
    code, _, err = run(cache.path)
    assert code == 2 and "long_offsets.npy is damaged" in err
    with pytest.raises(ValueError, match="is damaged"):
        WindowCache.open(cache.path)
    code, _, err = run(make_text(tmp_path, []).path)
    assert code == 2 and "has no document: there is nothing to count" in err


def test_files_without_a_record_or_cut_short_are_refused(run, vocabulary, tmp_path):
    argv = ("--task=hotpotqa", f"--tokenizer={vocabulary}")
    nothing = write_json(tmp_path, [], "nothing.json")
    cut = tmp_path / "cut.json"
    cut.write_text(json.dumps([HOTPOT])[:-1])
    for file, message in (
        (nothing, "nothing.json has no record that can be used"),
        (cut, "file cut short: .*cut.json"),
        (tmp_path / "no-*.json", "there is no file .*no-"),
        (tmp_path, "Is a directory"),
    ):
        code, out, err = run(*argv, file)
        assert code == 2 and out == ""
        assert re.match(f"etc-jax stats: .*{message}", err.splitlines()[-1])


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--task=hotpotqa", "x"], "--task needs --tokenizer"),
        (["--tokenizer=v", "x"], "go with --task"),
        (["--percentiles=0,50", "x"], "expected over 0, up to 100"),
        (["--percentiles=a", "x"], "expected such as 50,95"),
    ],
)
def test_a_wrong_option_is_told_before_anything_is_read(capsys, argv, message):
    with pytest.raises(SystemExit) as stopped:
        stats.main(argv)
    assert stopped.value.code == 2 and message in capsys.readouterr().err
