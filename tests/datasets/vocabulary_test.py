"""A vocabulary learned from the files of a data set."""

import collections
import json

import pytest
from data_sets import (
    FORMATS,
    SAMPLES,
    sentences_at_stops,  # noqa: F401
    task_of,
)

from etc_jax.cli import prepare
from etc_jax.data.array_folder import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets import vocabulary
from etc_jax.tasks.synthetic.__main__ import main as synthetic_main


@pytest.mark.parametrize("name, form", FORMATS)
@pytest.mark.usefixtures("sentences_at_stops")
def test_inputs_of_any_data_set_can_be_made_with_it(name, form, tmp_path):
    file = SAMPLES[name].write(tmp_path, SAMPLES[name].invented(30), name)
    task = task_of(name, form)
    learned = vocabulary.learn(task, [file], vocab_size=145, whole_words=True)
    assert learned.vocab_size == 145 and {*task.tokens} <= {*learned.added_ids}
    cache = prepare.prepare(task, [file], learned, tmp_path / "c")
    assert cache.num_windows


@pytest.fixture
def items(tmp_path):
    """A file of invented questions about teachers."""
    out = tmp_path / "train.json"
    argv = ("--task=teachers", "--count=60", "--seed=1", f"--out={out}")
    assert synthetic_main(argv) == 0
    return out


def run(items, out, *more) -> int:
    argv = ["--task=wikihop", "--workers=0", f"--out={out}", *more, str(items)]
    return prepare.main(argv)


def test_the_command_learns_one_that_the_next_files_are_prepared_with(items, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    learn = ("--vocab_size=150", "--whole_words")
    assert run(items, first, *learn) == 0
    assert run(items, first, *learn) == 0  # finished already, and the same
    assert run(items, second, f"--tokenizer={first}") == 0
    same = (first / TOKENIZER).read_bytes()
    assert (second / TOKENIZER).read_bytes() == same
    # The words of queries, documents and candidates, counted by hand.
    counts = collections.Counter()
    for record in json.loads(items.read_text()):
        texts = [record["query"], *record["supports"], *record["candidates"]]
        counts.update(" ".join(texts).lower().replace(".", " . ").split())
    learned = open_tokenizer(first)
    pieces = learned.pieces(range(106, 150))
    assert min(counts[word] for word in pieces) >= max(
        count for word, count in counts.items() if word not in pieces
    )
    assert "taught" not in pieces and "teacher" in pieces


def test_records_that_cannot_be_used_are_left_out(items, tmp_path, capsys):
    records = json.loads(items.read_text())
    items.write_text(json.dumps([{**records[0], "query": 7}, *records[1:]]))
    assert run(items, tmp_path / "c", "--vocab_size=150", "--whole_words") == 0
    assert "59 windows of 59 records" in capsys.readouterr().out


def test_pieces_of_words_are_learned_without_whole_words(items, tmp_path):
    assert run(items, tmp_path / "c", "--vocab_size=180") == 0
    learned = open_tokenizer(tmp_path / "c")
    assert learned.vocab_size == 180
    pieces = learned.pieces(range(106, 180))
    assert any(piece.startswith("##") for piece in pieces)


@pytest.mark.parametrize(
    "more, message",
    [
        ((), "one of the arguments --tokenizer --vocab_size is required"),
        (("--vocab_size=200", "--tokenizer=x"), "not allowed with argument"),
    ],
)
def test_a_vocabulary_is_given_or_learned(items, tmp_path, capsys, more, message):
    with pytest.raises(SystemExit) as stop:
        run(items, tmp_path / "c", *more)
    assert stop.value.code == 2 and message in capsys.readouterr().err


def test_what_cannot_be_learned_is_named(items, tmp_path, capsys):
    assert run(items, tmp_path / "c", "--vocab_size=9999", "--whole_words") == 2
    assert "vocab_size is 9999; expected 107 to" in capsys.readouterr().err
    (tmp_path / "v.txt").write_text("[UNK]\n")
    for flag in ("--whole_words", "--cased"):
        given = (flag, f"--tokenizer={tmp_path / 'v.txt'}")
        assert run(items, tmp_path / "c", *given) == 2
        assert f"{flag} is of a vocabulary to learn" in capsys.readouterr().err
