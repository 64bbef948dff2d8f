"""Files as long as released ones, of invented records, and a vocabulary for them.

    python -m benchmarks long_files --task=natural_questions --megabytes=2000 long

writes `long/long.jsonl` and `long/tokenizer.json`. A hundred different records come
over and over, each time with an id of its own. Those of HotpotQA have 6 KB, as in the
official files. Articles of Natural Questions differ in length as table 1 of the ETC
paper has it (95 % are below 4.3 times the median); their median is 8000 tokens, with
those of HTML. Inputs of text_to_text have 57 KB, as reports of GovReport do.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from benchmarks.kit import memory
from etc_jax.data.tokenizers.tokenizer import Tokenizer, train
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.tasks.synthetic import hotpotqa, natural_questions, text_to_text

DIFFERENT = 100
_HOTPOTQA_WORDS = 1000
_REPORT_WORDS = 10_000
_MEDIAN_TOKENS = 8000
_LONG_SHARE, _LONG_TIMES = 0.95, 17137 / 4004
# Of an article, where punctuation and tags are tokens too.
_TOKENS_A_WORD = 1.4
_WORDS_A_BLOCK = 100
_MOST_BLOCKS = 300
_LONGEST_FIRST = 10
VOCABULARY_TEXTS = 60
# Roles in Natural Questions that a trained vocabulary has no piece for.
_MORE_PIECES = ("[unused102]", "[unused103]")


class LongFile(NamedTuple):
    """What was written.

    Attributes:
      path: of the file.
      tokenizer: of the vocabulary beside it.
      records: in the file.
      text_bytes: of it, unpacked.
    """

    path: str
    tokenizer: str
    records: int
    text_bytes: int


class _Form(NamedTuple):
    """Records of a task and how its files hold them.

    Attributes:
      records_fn: the different records.
      words_fn: what of a record is tokenised, as one text.
      id_field: of a record.
      id_fn: from a number to an id as long as the official ones.
      suffix: of the files; `.jsonl` for a record a line, `.json` for an array.
    """

    records_fn: Callable[[], Iterator[dict[str, Any]]]
    words_fn: Callable[[dict[str, Any]], str]
    id_field: str
    id_fn: Callable[[int], str | int]
    suffix: str


def _hotpotqa() -> Iterator[dict[str, Any]]:
    sizes = hotpotqa.HotpotQaSizes(words=_HOTPOTQA_WORDS)
    return hotpotqa.records(DIFFERENT, seed=0, sizes=sizes)


def _natural_questions() -> Iterator[dict[str, Any]]:
    for number, words in enumerate(article_words()):
        blocks = min(_MOST_BLOCKS, max(10, words // _WORDS_A_BLOCK))
        sizes = natural_questions.NaturalQuestionsSizes(words=words, contexts=blocks)
        yield from natural_questions.records(1, seed=0, sizes=sizes, start=number)


def _reports() -> Iterator[dict[str, Any]]:
    sizes = hotpotqa.HotpotQaSizes(words=_REPORT_WORDS)
    return text_to_text.records(DIFFERENT, seed=0, sizes=sizes)


def article_words() -> list[int]:
    """Words of each of the different articles: evenly of a spread.

    The longest come first, one after the other, so that no memory that they need is
    taken for growth with the file; the others in any order.
    """
    normal = statistics.NormalDist()
    longest = normal.inv_cdf(_LONG_SHARE)
    shares = [(i + 0.5) / DIFFERENT for i in reversed(range(DIFFERENT))]
    others = shares[_LONGEST_FIRST:]
    random.Random(0).shuffle(others)
    median = _MEDIAN_TOKENS / _TOKENS_A_WORD
    return [
        round(median * _LONG_TIMES ** (normal.inv_cdf(x) / longest))
        for x in shares[:_LONGEST_FIRST] + others
    ]


def _sentences(record: dict[str, Any]) -> str:
    paragraphs = ("".join(sentences) for _, sentences in record["context"])
    return " ".join([record["question"], *paragraphs])


def _tokens(record: dict[str, Any]) -> str:
    words = (t["token"] for t in record["document_tokens"] if not t["html_token"])
    return " ".join([record["question_text"], *words])


_FORMS = {
    "hotpotqa": _Form(
        _hotpotqa, _sentences, "_id", lambda number: f"{number:024x}", ".json"
    ),
    "natural_questions": _Form(
        _natural_questions,
        _tokens,
        "example_id",
        lambda number: 10**18 + number,
        ".jsonl",
    ),
    "text_to_text": _Form(
        _reports,
        lambda record: record["input"],
        "id",
        lambda number: f"report-{number:08d}",
        ".jsonl",
    ),
}
TASKS = tuple(_FORMS)


def write(
    task: str, folder: pathlib.Path, megabytes: float, *, packed: bool = False
) -> LongFile:
    """Writes a long file in the official raw format, and a vocabulary.

    Args:
      task: one of `TASKS`.
      folder: where both are written.
      megabytes: of the file's text.
      packed: gzipped. Each text is packed once, so that this takes little longer.
    """
    form = _FORMS[task]
    path = folder / f"long{form.suffix}{'.gz' if packed else ''}"
    records, text_bytes = _write_records(form, path, megabytes * 10**6)
    tokenizer = folder / "tokenizer.json"
    vocabulary(task).save(tokenizer)
    return LongFile(os.fspath(path), os.fspath(tokenizer), records, text_bytes)


def _write_records(form: _Form, path: pathlib.Path, least: float) -> tuple[int, int]:
    """Writes records until there are so many bytes of text; (records, bytes)."""
    is_packed = path.suffix == ".gz"
    pack = functools.partial(gzip.compress, compresslevel=1) if is_packed else bytes
    records, texts = form.records_fn(), []
    number = size = 0
    with open(path, "wb") as file:
        while size < least:
            if number < DIFFERENT:
                record = next(records)
                del record[form.id_field]
                text = f"{json.dumps(record)[1:]}\n".encode()
                texts.append((len(text), pack(text)))
            start = _start(form, number)
            length, packed = texts[number % DIFFERENT]
            file.write(pack(start) + packed)
            size += len(start) + length
            number += 1
        file.write(pack(b"" if form.suffix == ".jsonl" else b"]\n"))
    return number, size


def _start(form: _Form, number: int) -> bytes:
    """What stands before the text of a record: its id, and what opens it."""
    before = "" if form.suffix == ".jsonl" else ",\n" if number else "[\n"
    return f'{before}{{"{form.id_field}": {json.dumps(form.id_fn(number))}, '.encode()


def vocabulary(task: str, size: int = 600) -> Tokenizer:
    """A WordPiece vocabulary of the words of such a file, and the task's own pieces."""
    form = _FORMS[task]
    records = form.records_fn()
    texts = [form.words_fn(next(records)) for _ in range(VOCABULARY_TEXTS)]
    trained = train(texts, vocab_size=size, min_char_count=1)
    pieces = trained.pieces(range(trained.vocab_size))
    more = [piece for piece in _MORE_PIECES if piece not in pieces]
    return WordPieceTokenizer([*pieces, *more])


def write_apart(
    task: str, folder: pathlib.Path, megabytes: float, *, packed: bool = False
) -> LongFile:
    """As `write`, by a process of its own: what it needs is not measured then.

    Raises:
      CalledProcessError: if that fails.
    """
    command = [sys.executable, "-m", "benchmarks", "long_files", f"--task={task}"]
    command += [f"--megabytes={megabytes}", *(["--gzip"] if packed else [])]
    done = subprocess.run(
        [*command, os.fspath(folder.resolve())],
        cwd=memory.ROOT,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    return LongFile(**json.loads(done.stdout))


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks long_files",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--task", choices=TASKS, required=True)
    parser.add_argument("--megabytes", type=float, required=True)
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("folder", type=pathlib.Path)
    args = parser.parse_args(argv)
    args.folder.mkdir(parents=True, exist_ok=True)
    wrote = write(args.task, args.folder, args.megabytes, packed=args.gzip)
    print(json.dumps(wrote._asdict()))
    return 0
