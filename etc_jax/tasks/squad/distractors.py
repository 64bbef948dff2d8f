"""SQuAD with distractors: each question's paragraph among others, as SLED was tried on.

    python -m etc_jax.tasks.squad.distractors --order=shuffled --out=shuffled.json \\
        dev-v1.1.json

Ivgi et al. 2022, section 4.1: a question is asked of ten paragraphs, of which one has
the answer. The others are drawn from the same files: none is of the same article, and
none holds an answer, not even within a word. Where fewer are left, as for "L", which is
an answer in `dev-v1.1.json`, it may stand within words. The file that is written has
the form of SQuAD's own, with a paragraph of its own for each question, so that
everything that reads SQuAD reads it. Draws depend on the question's id and the seed
alone.

    --order=ordered    the paragraph of the answer comes first
    --order=shuffled   the paragraphs come in a random order
    --order=alone      that paragraph alone: what a model reaches that need not search

Exit codes: 0 done; 2 something given is wrong.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from etc_jax.base.local_paths import INPUT, OUTPUT
from etc_jax.base.whole_files import check_out, whole_text
from etc_jax.cli import command_line
from etc_jax.datasets.records import BadRecordError
from etc_jax.tasks.squad.records import Record, read

_PROG = "python -m etc_jax.tasks.squad.distractors"

ORDERS = ("ordered", "shuffled", "alone")
_BETWEEN = "\n"


class Paragraph(NamedTuple):
    """A paragraph that may stand beside another one's question.

    Attributes:
      title: of its article.
      text: of the paragraph.
    """

    title: str
    text: str


def paragraphs_of(records: Iterable[Record]) -> list[Paragraph]:
    """All paragraphs, each once, in the order of the files."""
    return list(dict.fromkeys(Paragraph(r.title, r.context) for r in records))


def placed(
    record: Record,
    paragraphs: Sequence[Paragraph],
    *,
    order: str,
    count: int = 9,
    seed: int = 0,
) -> list[str]:
    """The paragraph of a question and others, in order.

    Args:
      record: with answers.
      paragraphs: to draw from.
      order: of `ORDERS`.
      count: paragraphs beside that of the question.
      seed: of the draws.

    Raises:
      BadRecordError: if there are too few paragraphs to draw from, or the question has
        no answer.
    """
    if not record.answers:
        raise BadRecordError(
            "no answer",
            f"{record.id!r} has no answers, which the other paragraphs must not hold; "
            "give files with answers",
        )
    rng = random.Random(f"distractors {seed} {record.id}")
    texts = [record.context]
    if order != "alone":
        texts += _drawn(record, paragraphs, count, rng)
    if order == "shuffled":
        rng.shuffle(texts)
    return texts


def joined(texts: Sequence[str]) -> str:
    """Paragraphs as one text, a line each."""
    return _BETWEEN.join(texts)


def with_distractors(
    record: Record, paragraphs: Sequence[Paragraph], **how: Any
) -> dict[str, Any]:
    """A question of several paragraphs, as an article of a file of SQuAD.

    Args:
      record: see `placed`.
      paragraphs: see `placed`.
      **how: `order`, `count` and `seed`, see `placed`.

    Raises:
      BadRecordError: as for `placed`.
    """
    texts = placed(record, paragraphs, **how)
    before = texts[: texts.index(record.context)]
    # Characters before the paragraph of the answer.
    shift = sum(len(text) + len(_BETWEEN) for text in before)
    answers = [
        {"text": a.text, "answer_start": -1 if a.start is None else a.start + shift}
        for a in record.answers
    ]
    asked = {"id": record.id, "question": record.question, "answers": answers}
    paragraph = {"context": joined(texts), "qas": [asked]}
    return {"title": record.title, "paragraphs": [paragraph]}


def _drawn(
    record: Record, paragraphs: Sequence[Paragraph], count: int, rng: random.Random
) -> list[str]:
    drawn: list[str] = []
    answers = [answer.text.lower() for answer in record.answers]
    for holds in (_holds_letters, _holds_words):
        # In a random order, without making one of all paragraphs for each question.
        tried: set[int] = set()
        while len(drawn) < count and len(tried) < len(paragraphs):
            i = rng.randrange(len(paragraphs))
            if i in tried:
                continue
            tried.add(i)
            title, text = paragraphs[i]
            lower = text.lower()
            if title == record.title or any(holds(lower, x) for x in answers):
                continue
            if text not in drawn:
                drawn.append(text)
    if len(drawn) < count:
        raise BadRecordError(
            "too few paragraphs",
            f"{record.id!r}: {len(drawn)} of {len(paragraphs)} paragraphs are of "
            f"another article and without its answer, fewer than {count}; give more "
            "files, or lower the count",
        )
    return drawn


def _holds_letters(text: str, answer: str) -> bool:
    return answer in text


def _holds_words(text: str, answer: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(answer)}(?!\w)", text) is not None


def _pieces(articles: Iterator[dict[str, Any]]) -> Iterator[str]:
    between = '{"version": "1.1", "data": [\n'
    for article in articles:
        yield between + json.dumps(article, ensure_ascii=False)
        between = ",\n"
    yield "\n]}\n"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line.ArgumentParser(_PROG, __doc__)
    parser.add_argument("files", nargs="+", type=INPUT, help="of SQuAD, with answers")
    parser.add_argument("--out", required=True, type=OUTPUT, help="JSON file")
    parser.add_argument("--order", required=True, choices=ORDERS)
    parser.add_argument("--count", type=int, default=9, help="paragraphs besides")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--overwrite", action="store_true", help="if --out exists")
    return parser.parse_args(argv)


def _write(args: argparse.Namespace) -> str:
    if args.count < 0:
        raise ValueError(f"--count is {args.count}; expected 0 or more")
    check_out(args.out, overwrite=args.overwrite)
    records = list(read(args.files))
    if not records:
        raise ValueError(f"{', '.join(args.files)}: no question")
    paragraphs = paragraphs_of(records)
    how = {"order": args.order, "count": args.count, "seed": args.seed}
    with whole_text(args.out) as file:
        for text in _pieces(with_distractors(r, paragraphs, **how) for r in records):
            file.write(text)
    return f"wrote {len(records)} questions to {args.out}"


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns the exit code."""
    args = _parse(argv)
    return command_line.run(_PROG, lambda: _write(args))


if __name__ == "__main__":
    sys.exit(main())
