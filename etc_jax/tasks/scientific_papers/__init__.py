"""arXiv and PubMed (Cohan et al. 2018): papers, whose abstract is to be written.

    etc-jax prepare --task=arxiv --tokenizer=tokenizer.json --out=prepared/train \\
        arxiv-dataset/train.txt

Both have one form: a paper a line, as JSON, in files `train.txt`, `val.txt` and
`test.txt`. Formulas and citations are `@xmath0` and `@xcite` in them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.fields import STRING, Fields, list_of
from etc_jax.datasets.records import PassedOverError
from etc_jax.datasets.task import register
from etc_jax.datasets.text_sets import of_lines, text_data_set
from etc_jax.formats.text_to_text import TextToTextSizes

# BART-LS: what is read by section 5.1, what is written by table 9.
SIZES = {
    "arxiv": TextToTextSizes(input_length=16384, target_length=300),
    "pubmed": TextToTextSizes(input_length=16384, target_length=400),
}

_STRINGS = list_of(STRING)
# Around each sentence of an abstract.
_MARKS = ("<S>", "</S>")


def release(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """See `DataSet.release`."""
    return of_lines(path, "article_text", _records)


def _records(fields: Fields) -> Iterator[dict[str, Any]]:
    """The record of a paper: its sentences, and those of the abstract, are lines.

    Some papers of the release have no text. They are passed over.
    """
    record = {"id": fields.text("article_id")}
    record["input"] = _text(fields.get("article_text", _STRINGS))
    if not record["input"]:
        raise PassedOverError("empty article", f"{record['id']!r} has no text")
    abstract = fields.get("abstract_text", _STRINGS, None)
    if abstract is not None:
        record["target"] = _text(map(_unmarked, abstract))
        if not record["target"]:
            raise BadRecordError("no abstract", f"that of {record['id']!r} is blank")
    yield record


def _text(sentences) -> str:
    return "\n".join(filter(None, map(str.strip, sentences)))


def _unmarked(sentence: str) -> str:
    for mark in _MARKS:
        sentence = sentence.replace(mark, "")
    return sentence


DATA_SETS = {
    name: register(text_data_set(name, measure="rouge", sizes=sizes, release=release))
    for name, sizes in SIZES.items()
}
"""The data sets, as commands and configs find them."""
