"""Parallel and interrupted exports against one that one process made in one go."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import limits
import numpy as np
import programs
import pytest
from repository import TESTS
from window_samples import contents

from etc_jax.data import parts
from etc_jax.data.text import cache, export
from etc_jax.data.text.corpus import Document

MADE_BY = {"corpus": "test"}
PART_CHARS = 600


def slow_lines(paragraphs):
    time.sleep(0.02)
    return list(paragraphs)


def ends_the_process(paragraphs):
    os._exit(9)


def fails(paragraphs):
    raise ValueError(f"cannot split {paragraphs[:1]}")


@pytest.fixture
def build(documents, trained):
    def build(path, **kwargs):
        kwargs = {"made_by": MADE_BY, "split_fn": list, "part_chars": PART_CHARS} | (
            kwargs
        )
        return cache.build_cache(documents, trained, path, **kwargs)

    return build


@pytest.fixture
def wanted(build, tmp_path):
    return contents(build(tmp_path / "wanted").path)


def part_files(folder):
    return sorted(folder.glob(".*/[0-9]*.npz"))


@pytest.mark.parametrize("kwargs", [{"workers": 2}, {"part_chars": 1}, {}])
def test_neither_workers_nor_parts_change_a_byte(build, wanted, tmp_path, kwargs):
    made = build(tmp_path / "made", **kwargs)
    assert contents(made.path) == wanted
    assert sorted(os.listdir(tmp_path)) == ["made", "wanted"]


def test_header_counts_what_is_there(build, documents, tmp_path):
    made = build(tmp_path / "c")
    texts = [p for d in documents for p in d.paragraphs]
    assert made.header["counts"] == {
        "documents": len(documents),
        "sentences": len(texts),
        "tokens": made.num_tokens,
        "chars": sum(map(len, texts)),
        "replaced_chars": sum(i % 3 for i in range(len(documents))),
    }
    sources = made.header["sources"]
    assert set(sources) == {"a", "b"}
    for key, total in made.header["counts"].items():
        assert sum(counts[key] for counts in sources.values()) == total
    of_a = [p for d in documents if d.source == "a" for p in d.paragraphs]
    assert sources["a"]["sentences"] == len(of_a)
    assert sources["a"]["chars"] == sum(map(len, of_a))


def test_a_header_names_a_limited_number_of_sources(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_MAX_SOURCES", 3)
    nameless = [Document(f"d{i}", ("alpha beta",)) for i in range(9)]
    made = cache.build_cache(
        nameless, trained, tmp_path / "c", made_by={}, split_fn=list, part_chars=20
    )
    documents = {k: v["documents"] for k, v in made.header["sources"].items()}
    assert documents == {"d0": 1, "d1": 1, "d2": 1, cache.OTHER_SOURCES: 6}


# Slow enough to be killed between two parts; `sys.argv`: folder, workers.
EXPORT = """
import sys
sys.path[:0] = {paths!r}
import corpus_samples
import export_test
from etc_jax.data.text import cache
from etc_jax.data.tokenizers import tokenizer

def main():
    folder, workers = sys.argv[1], int(sys.argv[2])
    cache.build_cache(
        corpus_samples.make_documents(),
        tokenizer.open_tokenizer({vocabulary!r}),
        folder,
        made_by=export_test.MADE_BY,
        split_fn=export_test.slow_lines,
        part_chars=export_test.PART_CHARS,
        workers=workers,
    )

if __name__ == "__main__":
    main()
"""


@pytest.fixture
def start(trained, tmp_path):
    """Starts an export in a process of its own."""
    vocabulary = tmp_path / "vocabulary.json"
    trained.save(vocabulary)
    script = tmp_path / "script.py"
    paths = [str(TESTS / "data/text"), *filter(None, sys.path)]
    script.write_text(EXPORT.format(paths=paths, vocabulary=str(vocabulary)))
    started = []

    def start(path, workers):
        command = [sys.executable, str(script), str(path), str(workers)]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def children(process):
    file = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in file.read_text().split()]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_export_goes_on_where_it_stopped(
    start, documents, trained, wanted, tmp_path, workers
):
    path = tmp_path / "out" / "c"
    process = start(path, workers)
    folder = path.parent
    limits.until(lambda: len(part_files(folder)) >= 3 or process.poll() is not None)
    helpers = children(process)
    assert len(helpers) >= workers
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    limits.until(lambda: not any(map(programs.is_running, helpers)))
    assert not path.exists()

    finished = [file.name for file in part_files(path.parent)]
    split = []

    def noting(paragraphs):
        split.append(paragraphs)
        return list(paragraphs)

    made = cache.build_cache(
        documents,
        trained,
        path,
        made_by=MADE_BY,
        split_fn=noting,
        part_chars=PART_CHARS,
    )
    cut = list(export.cut(documents, PART_CHARS))
    assert 3 <= len(finished) < len(cut)
    missing = [p for i, p in enumerate(cut) if f"{i:06d}.npz" not in finished]
    assert split == [document.paragraphs for part in missing for document in part]
    assert contents(made.path) == wanted
    assert os.listdir(path.parent) == ["c"]


def test_a_second_export_waits_for_the_first(start, wanted, tmp_path):
    path = tmp_path / "out" / "c"
    first = start(path, 0)
    limits.until(lambda: part_files(path.parent) or first.poll() is not None)
    first.send_signal(signal.SIGSTOP)
    second = start(path, 0)
    assert "another process works in" in second.stderr.readline()
    first.send_signal(signal.SIGCONT)
    errors = [
        process.communicate(timeout=limits.SECS)[1] for process in (first, second)
    ]
    assert [first.returncode, second.returncode] == [0, 0], errors
    assert contents(path) == wanted
    assert os.listdir(path.parent) == ["c"]


def failing_after(documents, count):
    yield from documents[:count]
    raise RuntimeError("disk gone")


def interrupt(documents, trained, path, **kwargs):
    kwargs = {"made_by": MADE_BY, "split_fn": list, "part_chars": PART_CHARS} | kwargs
    with pytest.raises(RuntimeError, match="disk gone"):
        cache.build_cache(failing_after(documents, 60), trained, path, **kwargs)


def test_other_text_does_not_take_over_finished_parts(
    build, documents, trained, wanted, tmp_path, caplog
):
    path = tmp_path / "out" / "c"
    other = [Document(d.name, ("zeta zeta",)) for d in documents[:20]] + documents[20:]
    interrupt(other, trained, path)
    assert part_files(path.parent)
    made = build(path)
    assert "is made of other text and not used" in caplog.text
    assert contents(made.path) == wanted


def test_parts_of_another_description_are_not_looked_at_and_go(
    build, documents, trained, wanted, tmp_path
):
    path = tmp_path / "out" / "c"
    interrupt(documents, trained, path, made_by={"corpus": "else"})
    assert part_files(path.parent)
    assert contents(build(path).path) == wanted
    assert not part_files(path.parent)


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_part_is_made_again(
    build, documents, trained, wanted, tmp_path, caplog, damage
):
    path = tmp_path / "out" / "c"
    interrupt(documents, trained, path)
    file = part_files(path.parent)[1]
    data = bytearray(file.read_bytes())
    # The first array, "facts", begins after its zip and npy headers.
    data[200] ^= 0xFF
    file.write_bytes({"cut": data[:-9], "flipped": data, "empty": b""}[damage])
    assert contents(build(path).path) == wanted
    assert f"{file} is damaged" in caplog.text


def test_a_killed_worker_is_an_error_that_says_what_to_do(build, tmp_path):
    with pytest.raises(RuntimeError, match="2 tokenising processes ended abruptly"):
        build(tmp_path / "c", workers=2, split_fn=ends_the_process)


@pytest.mark.parametrize("workers", [0, 1])
def test_an_error_in_a_worker_comes_through(build, tmp_path, workers):
    with pytest.raises(ValueError, match="cannot split"):
        build(tmp_path / "c", workers=workers, split_fn=fails)
    assert os.listdir(tmp_path) == []


def test_a_negative_number_of_workers_is_an_error(build, tmp_path):
    with pytest.raises(ValueError, match="workers is -1, expected 0"):
        build(tmp_path / "c", workers=-1)


@pytest.mark.parametrize("bad", [-1, 145, 70000])
def test_an_id_that_would_wrap_round_is_an_error(trained, tmp_path, bad, monkeypatch):
    wrong = (np.array([7, bad]), np.array([True, True]))
    monkeypatch.setattr(trained, "encode_batch", lambda texts: [wrong for _ in texts])
    one = [Document("d/0", ("alpha beta",))]
    with pytest.raises(ValueError, match=f"{bad}.*vocabulary has ids 0 to 144"):
        cache.build_cache(one, trained, tmp_path / "c", made_by={}, split_fn=list)
    assert os.listdir(tmp_path) == []


def test_part_files_hold_all_of_a_part(documents, trained, tmp_path):
    part = export.encode(documents[:7], trained, list)
    parts.write_part(tmp_path / "0.npz", "digest", export._to_part(part))
    read = export._from_part(parts.read_part(tmp_path / "0.npz", "digest"))
    for name in ("ids", "word_starts", "sentence_lengths", "document_lengths"):
        np.testing.assert_array_equal(getattr(read, name), getattr(part, name))
        assert getattr(read, name).dtype == getattr(part, name).dtype
    assert read.sources == part.sources
    assert os.listdir(tmp_path) == ["0.npz"]
