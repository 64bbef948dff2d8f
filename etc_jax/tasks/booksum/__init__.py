"""BookSum (Kryscinski et al. 2022): chapters of novels and plays, to be summarised.

    etc-jax prepare --task=booksum --tokenizer=tokenizer.json --out=prepared/dev \\
        alignments/chapter-level-summary-alignments/chapter_summary_aligned_val_split.jsonl

The release says which summary is that of which chapter. The texts are fetched apart
from it: `all_chapterized_books`, and `finished_summaries` by its scripts. Both folders
are looked for beside the file and above it. Files of whole books are read in the same
way.

Some texts may no longer be had. Each line without its text is counted and named, and
lowers the scores of an evaluation as an empty summary does; leave such lines out of the
file where they are not to count.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterator
from typing import Any

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.fields import STRING, Fields, list_of
from etc_jax.datasets.record_files import nearest_folder, no_folder, text_in, value_in
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import of_lines, text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes

# BART-LS: 16,384 tokens are read (section 5.1), 550 written (table 9).
SIZES = TextToTextSizes(input_length=16384, target_length=550)

BOOKS, SUMMARIES = "all_chapterized_books", "finished_summaries"
# Of a chapter, or of a whole book.
_PATHS = ("chapter_path", "book_path")


def release(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """Of a file of alignments; see `DataSet.release`."""
    folders = _folders(path)
    roots = [folder.parent for folder in folders]
    values = of_lines(path, "summary_path", functools.partial(_records, *roots))
    if values is not None and len(folders) < 2:
        raise no_folder(path, f"{BOOKS}, and {SUMMARIES} or scripts/{SUMMARIES}")
    return values


def companions(path: str | os.PathLike) -> list[pathlib.Path]:
    """The folders of the texts that a file names; see `DataSet.companions`.

    Raises:
      BadRecordError: if it names some, and a folder is not there.
    """
    return [] if release(path) is None else _folders(path)


def _folders(path: str | os.PathLike) -> list[pathlib.Path]:
    """Those of books and of summaries, as far as they are there."""
    scripts = [f"{inner}scripts/{SUMMARIES}" for inner in ("", "booksum/")]
    folders = nearest_folder(path, BOOKS), nearest_folder(path, SUMMARIES, *scripts)
    return [folder for folder in folders if folder is not None]


def _records(
    books: pathlib.Path, summaries: pathlib.Path, line: Fields
) -> Iterator[dict[str, Any]]:
    """The record of a chapter and one summary of it; other sites may have others.

    The paragraphs of the summary are lines.
    """
    name = line.text("summary_path")
    text = text_in(books, line.text(_PATHS["book_path" in line]))
    summary = Fields(value_in(summaries, name))
    target = "\n".join(summary.get("summary", list_of(STRING))).strip()
    if not target:
        raise BadRecordError("no summary", f"that of {name} is blank")
    name = name.removeprefix(f"{SUMMARIES}/").removesuffix(".txt")
    yield {"id": f"{line.text('bid')}/{name}", "input": text.strip(), "target": target}


DATA_SET = register(
    text_data_set(
        "booksum",
        measure="rouge",
        sizes=SIZES,
        release=release,
        companions=companions,
    )
)
"""The data set, as commands and configs find it."""
