"""GovReport (Huang et al. 2021): reports of US research agencies, to be summarised.

    etc-jax prepare --task=gov_report --tokenizer=tokenizer.json --out=prepared/train \\
        gov-report/split_ids/crs_train.ids gov-report/split_ids/gao_train.ids

A split is a list of ids, `split_ids/crs_train.ids`; each report is a file of its own,
`crs/R40097.json`, which is found from there. A folder of reports, all of which are
read, may stand in the place of a list.
"""

from __future__ import annotations

import functools
import os
import pathlib
from collections.abc import Iterable, Iterator
from typing import Any

from etc_jax.data.input_files import BadRecordError, open_input, text_lines
from etc_jax.datasets.fields import STRING, Fields, list_of, objects
from etc_jax.datasets.record_files import names_in, nearest_folder, no_folder, value_in
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import text_data_set, unfolded
from etc_jax.formats.text_to_text import TextToTextSizes

# Of the Congressional Research Service, and of the Government Accountability Office.
AGENCIES = ("crs", "gao")
# BART-LS: 16,384 tokens are read (section 5.1), 740 written (table 9).
SIZES = TextToTextSizes(input_length=16384, target_length=740)

_STRINGS = list_of(STRING)


def release(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """Of a list of ids, or of a folder of reports; see `DataSet.release`."""
    path = pathlib.Path(path)
    if path.is_dir():
        return unfolded(names_in(path, "file"), functools.partial(_records, path))
    return _of_list(path) if path.suffix == ".ids" else None


def companions(path: str | os.PathLike) -> list[pathlib.Path]:
    """The folder of the reports whose ids a file lists; see `DataSet.companions`."""
    path = pathlib.Path(path)
    if path.suffix != ".ids":
        return []
    agencies = [agency for agency in AGENCIES if path.name.startswith(f"{agency}_")]
    folder = nearest_folder(path, *agencies)
    return [] if folder is None else [folder]


def _of_list(path: pathlib.Path) -> Iterator[tuple[int, Any]]:
    if not (folders := companions(path)):
        raise no_folder(path, "split_ids/crs_*.ids beside crs, or gao_*.ids beside gao")
    return unfolded(_listed(path), functools.partial(_records, *folders))


def _listed(path: pathlib.Path) -> Iterator[tuple[int, Any]]:
    """(number of the line, the name of its file) of each id of a list."""
    with open_input(path) as file:
        for number, line in text_lines(file):
            if isinstance(line, BadRecordError):
                yield number, line
            elif name := line.strip():
                yield number, {"file": f"{name}.json"}


def _records(folder: pathlib.Path, listed: Fields) -> Iterator[dict[str, Any]]:
    """The record of a report.

    Titles and paragraphs are lines, as in SCROLLS; the paper has spaces between them.
    The summary of the GAO is the paragraphs of its highlights, without their titles, as
    in the paper.
    """
    fields = Fields(value_in(folder, listed.text("file")))
    name = fields.text("id")
    if "reports" in fields:
        sections = [fields.get("reports", Fields)]
        summary = fields.get("summary", _STRINGS, None)
    else:
        sections = fields.get("report", objects)
        highlights = fields.get("highlight", objects, None)
        summary = highlights and [
            text for part in highlights for text in part.get("paragraphs", _STRINGS)
        ]
    record = {"id": name, "input": "\n".join(_lines(sections))}
    if summary is not None:
        record["target"] = "\n".join(filter(None, map(str.strip, summary)))
        if not record["target"]:
            raise BadRecordError("no summary", f"that of {name!r} is blank")
    yield record


def _lines(sections: Iterable[Fields]) -> Iterator[str]:
    """Titles and paragraphs of sections and those in them, in the order of the text."""
    # A list and no recursion: sections may be nested as deeply as JSON.
    left = list(sections)[::-1]
    while left:
        section = left.pop()
        title = section.get("section_title", STRING, "")
        for text in (title, *section.get("paragraphs", _STRINGS, ())):
            if text := text.strip():
                yield text
        left += section.get("subsections", objects, [])[::-1]


DATA_SET = register(
    text_data_set(
        "gov_report",
        measure="rouge",
        sizes=SIZES,
        release=release,
        companions=companions,
    )
)
"""The data set, as commands and configs find it."""
