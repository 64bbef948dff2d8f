"""Invented long documents with summaries, in the files of data sets of summaries.

    etc-jax synthetic --task=gov_report --count=1000 --words=8000 --split=train \\
        --out=gov-report
    etc-jax synthetic --task=arxiv --count=1000 --words=8000 --out=train.txt

The documents are those of `--task=long_documents`: each tells of some trades what they
sell, at random places, and the summary has a sentence for each. Where a release has a
file a record, --out is its folder, and --split a list of records in it.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import random
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from etc_jax.base import registry
from etc_jax.base.whole_files import whole_text
from etc_jax.tasks.synthetic.long_documents import (
    STATEMENTS,
    DocumentSizes,
    LongDocument,
    documents,
    in_parts,
)
from etc_jax.tasks.synthetic.maker import Maker

_SECTIONS = ("Background", "Findings", "Conclusions")
_SPEAKERS = ("ANN", "BOB", "EVE")


def _register(
    name: str, layout: Callable[[random.Random, LongDocument], Any], **maker: Any
) -> None:
    records = documents(layout, DocumentSizes, name)
    registry.register("invented_items", name)(Maker(records, DocumentSizes, **maker))


# --- a record a line ------------------------------------------------------------------


def _paper(rng: random.Random, document: LongDocument) -> dict[str, Any]:
    """A line of arXiv's and PubMed's files: words and punctuation stand apart."""
    del rng
    sentences = [_apart(sentence) for sentence in document.sentences]
    return {
        "article_id": document.id,
        "article_text": sentences,
        "abstract_text": [f"<S> {_apart(text)} </S>" for text in document.summary],
        "labels": None,
        "section_names": [name.lower() for name in _SECTIONS],
        "sections": in_parts(sentences, len(_SECTIONS)),
    }


def _apart(sentence: str) -> str:
    for mark in ",.":
        sentence = sentence.replace(mark, f" {mark}")
    return sentence.lower()


def _story(rng: random.Random, document: LongDocument) -> dict[str, Any]:
    """A line of SQuALITY's files: a question about all, and one about each fact.

    Each is answered in all wordings.
    """
    questions = [("What is the plot of the story?", document.summed_up)]
    asked = rng.sample(document.facts, len(document.facts))
    questions += [(fact.question, [fact]) for fact in asked]
    return {
        "metadata": {"passage_id": document.id, "uid": document.id, "license": "none"},
        "document": document.text,
        "questions": [
            {
                "question_text": question,
                "question_number": number,
                "responses": [
                    {
                        "worker_id": str(worker),
                        "uid": f"{document.id}-{number}-{worker}",
                        "response_text": " ".join(
                            wording.format(trade=fact.trade, goods=fact.goods)
                            for fact in facts
                        ),
                    }
                    for worker, wording in enumerate(STATEMENTS)
                ],
            }
            for number, (question, facts) in enumerate(questions, start=1)
        ],
    }


for _name in ("arxiv", "pubmed"):
    _register(_name, _paper, lines=True)
_register("squality", _story, lines=True)


# --- a record a file ------------------------------------------------------------------


class FiledRecord(NamedTuple):
    """A record that has files of its own.

    Attributes:
      line: that names it in the list of a split.
      files: by path in the release, their text.
    """

    line: str
    files: dict[str, str]


def write_release(
    folder: str | os.PathLike,
    records: Iterable[FiledRecord],
    *,
    split: str,
    listed_in: str,
) -> pathlib.Path:
    """Writes records, and the list of a split that names them.

    Args:
      folder: of the release, which other splits may be in.
      records: of a maker.
      split: whose list is written.
      listed_in: path of that list in the folder, with `{}` for the split.

    Returns:
      The list, which appears whole or not at all, after the files of all records.

    Raises:
      ValueError: if the list is there already, or a file with other text.
      OSError: if something cannot be written.
    """
    folder = pathlib.Path(folder)
    path = folder / listed_in.format(split)
    if path.exists():
        raise ValueError(f"{path} exists; give another folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_text(path) as lines:
        for record in records:
            for name, text in record.files.items():
                file = folder / name
                file.parent.mkdir(parents=True, exist_ok=True)
                if file.exists() and file.read_text(encoding="utf-8") != text:
                    raise ValueError(f"{file} has other text; give another folder")
                file.write_text(text, encoding="utf-8")
            lines.write(f"{record.line}\n")
    return path


def _report(rng: random.Random, document: LongDocument) -> FiledRecord:
    """A report of the GAO, whose sections have parts."""
    del rng
    sections = [
        {
            "section_title": title,
            "paragraphs": paragraphs[:1],
            "subsections": [
                {
                    "section_title": f"More on {title.lower()}",
                    "paragraphs": paragraphs[1:],
                    "subsections": [],
                }
            ],
        }
        for title, paragraphs in zip(
            _SECTIONS, document.sections(len(_SECTIONS)), strict=True
        )
    ]
    highlight = {"section_title": "What GAO Found", "paragraphs": document.summary}
    report = {
        "id": document.id,
        "url": "http://example.org",
        "title": f"Markets: {document.facts[0].trade.capitalize()} and Others",
        "released_date": "2001-01-02",
        "published_date": "2001-01-02",
        "report": sections,
        "highlight": [highlight],
        "fastfact": document.summary[:1],
    }
    return FiledRecord(document.id, {f"gao/{document.id}.json": json.dumps(report)})


def _chapter(rng: random.Random, document: LongDocument) -> FiledRecord:
    """A chapter, and a summary of it, of BookSum."""
    del rng
    chapter = f"all_chapterized_books/{document.id}-chapters/01.txt"
    summary = f"finished_summaries/synthetic/{document.id}/section_0_part_0.txt"
    line = {
        "bid": document.id,
        "is_aggregate": False,
        "source": "synthetic",
        "chapter_path": chapter,
        "summary_path": summary,
        "book_id": f"{document.id}.chapter 1",
        "summary_id": "chapter 1",
    }
    page = {"name": "Chapter 1", "summary": document.summary, "analysis": []}
    files = {
        chapter: f"CHAPTER I\n\n{document.text}\n",
        f"scripts/{summary}": json.dumps(page),
    }
    return FiledRecord(json.dumps(line), files)


def _episode_of(source: str) -> Callable[[random.Random, LongDocument], FiledRecord]:
    """The layout of an episode of SummScreen, whose sentences are said in turn."""

    def episode(rng: random.Random, document: LongDocument) -> FiledRecord:
        del rng
        name = f"{document.id}.json"
        value = {
            "Transcript": [
                f"{_SPEAKERS[i % len(_SPEAKERS)]}: {sentence}"
                for i, sentence in enumerate(document.sentences)
            ],
            "Recap": document.summary,
            "Show Title": "Market_Days",
        }
        files = {f"SummScreen_raw/{source}/{name}": json.dumps(value)}
        return FiledRecord(json.dumps({"filename": name}), files)

    return episode


def _register_files(
    name: str,
    layout: Callable[[random.Random, LongDocument], FiledRecord],
    splits: tuple[str, ...],
    listed_in: str,
) -> None:
    write = functools.partial(write_release, listed_in=listed_in)
    _register(name, layout, splits=splits, write_split=write)


_register_files(
    "gov_report", _report, ("train", "valid", "test"), "split_ids/gao_{}.ids"
)
_register_files(
    "booksum",
    _chapter,
    ("train", "val", "test"),
    "alignments/chapter-level-summary-alignments/"
    "chapter_summary_aligned_{}_split.jsonl",
)
for _source, _site in (("fd", "ForeverDreaming"), ("tms", "TVMegaSite")):
    _register_files(
        f"summ_screen_{_source}",
        _episode_of(_source),
        ("train", "dev", "test"),
        f"SummScreen/{_site}/{_source}_{{}}.json",
    )
