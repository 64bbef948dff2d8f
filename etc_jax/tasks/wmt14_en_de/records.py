"""WMT's files: a pair of texts, `X.en` and `X.de`, translated line by line.

Either file of a pair is given, or both; each may be gzipped. Pairs as JSON lines, with
`id`, `en` and `de`, are read too, and need no translation.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from etc_jax.base import extras
from etc_jax.base.rules import choice
from etc_jax.data.input_files import BadRecordError, open_input, text_lines
from etc_jax.datasets.fields import STRING, Fields
from etc_jax.datasets.json_lines import has_objects, read_lines
from etc_jax.datasets.pairs import Pair, PairOptions
from etc_jax.datasets.records import Note, Problems, read_records
from etc_jax.scoring import bleu
from etc_jax.scoring.result import Scores

LANGUAGES = ("en", "de")
DIRECTIONS = ("en-de", "de-en")

_NAME = re.compile(r"(.+)\.(en|de)(\.gz)?", re.DOTALL)


@dataclasses.dataclass(frozen=True)
class TranslationOptions(PairOptions):
    """What is translated into what, and how it is spelled.

    Attributes:
      direction: en-de from English into German, or de-en.
      detokenise: undo the tokens of Moses on both sides ("&apos;s", " @-@ ", spaces
        before punctuation); WMT's own files have none.
    """

    given_to: ClassVar = (*PairOptions.given_to, "read", "parse")

    direction: str = "en-de"
    detokenise: bool = False

    def task_fields(self) -> dict[str, Any]:
        """The score, which is of texts of one language."""
        _, target = self.direction.split("-")
        return {"score": _score_of(target)}

    def __post_init__(self):
        choice(DIRECTIONS).check(direction=self.direction)


@functools.cache
def _score_of(language: str) -> Callable[..., Scores]:
    return functools.partial(bleu.score, language=language)


OPTIONS = TranslationOptions()


def read(
    paths: Sequence[str | os.PathLike],
    problems: Problems | None = None,
    *,
    options: TranslationOptions = OPTIONS,
) -> Iterator[Pair]:
    """The sentences of pairs of files, or of JSON lines, one at a time.

    A sentence of files is called by their name and its line: `newstest2014:17`.

    Args:
      paths: files `X.en` and `X.de`, either or both of a pair; or `.jsonl`. Any may
        end in `.gz`.
      problems: where what is wrong is counted; None: a bad record is raised.
      options: of a pair, what is the input and what the target.

    Raises:
      BadRecordError: without `problems`, naming the file and the line.
      OSError: if a file cannot be read.
    """
    if isinstance(paths, str | os.PathLike):
        paths = [paths]
    parse_fn = functools.partial(parse, options=options)
    return read_records(_each_pair_once(paths), parse_fn, problems, _values)


def parse(value: Any, note: Note, *, options: TranslationOptions = OPTIONS) -> Pair:
    """A record from a JSON value.

    Args:
      value: `id`, and `en` and `de`; a sentence to be translated needs no translation.
      note: not called: pairs are used as a whole or not at all.
      options: see `read`.

    Raises:
      BadRecordError: if it cannot be used.
      extras.MissingExtraError: if it is to be detokenised and sacremoses is not
        installed.
    """
    del note
    fields = Fields(value)
    name = fields.text("id")
    source, target = options.direction.split("-")
    text = fields.get(source, STRING)
    translation = fields.get(target, STRING, None)
    if translation is not None and not translation.strip():
        raise BadRecordError(
            "empty line", f"{name!r} is blank in {target!r}, expected a translation"
        )
    if options.detokenise:
        text = _detokenised(text, source)
        translation = translation and _detokenised(translation, target)
    # One without a sentence has no input, and counts in the score: see `features`.
    return Pair(name, text, translation)


def _detokenised(text: str, language: str) -> str:
    return _detokenizer(language).detokenize(text.split())


@functools.cache
def _detokenizer(language: str):
    moses = extras.needed("sacremoses", extra="metrics", to="undo the tokens of Moses")
    return moses.MosesDetokenizer(lang=language)


# --- files ----------------------------------------------------------------------------


def partners(path: str | os.PathLike) -> list[pathlib.Path]:
    """The other file of the pair that a file is of; [] if there is none."""
    path = pathlib.Path(path)
    match = _NAME.fullmatch(path.name)
    if match is None:
        return []
    [other] = {*LANGUAGES} - {match[2]}
    plain = path.with_name(f"{match[1]}.{other}")
    packed = plain.with_name(f"{plain.name}.gz")
    # As the one that is given, if there are both.
    either = (packed, plain) if match[3] else (plain, packed)
    return [file for file in either if file.is_file()][:1]


def _each_pair_once(paths: Sequence[str | os.PathLike]) -> list[str | os.PathLike]:
    """The files, without those whose partner stands before them."""
    chosen: list[str | os.PathLike] = []
    for path in paths:
        if not {*partners(path)} & {*map(pathlib.Path, chosen)}:
            chosen.append(path)
    return chosen


def release(path: str | os.PathLike) -> Iterator[tuple[int, Any]] | None:
    """What `parse` takes of each line of a pair of files; see `DataSet.release`."""
    is_text = _NAME.fullmatch(pathlib.Path(path).name)
    return _values(path) if is_text else None


def _values(path: str | os.PathLike) -> Iterator[tuple[int, Any]]:
    """(number from 1, what `parse` takes) of each sentence of a file or a pair.

    Raises:
      BadRecordError: if it has another name, no partner, or one with another number of
        lines, or is damaged. No record has come out then.
      OSError: if a file cannot be read.
    """
    path = pathlib.Path(path)
    if has_objects(path):
        yield from read_lines(path)
        return
    if (match := _NAME.fullmatch(path.name)) is None:
        raise BadRecordError(
            "unknown file",
            f"{path}: expected a name that ends in .en, .de or .jsonl, or one of these "
            "and .gz; write files of another form, such as .sgm, as lines first",
        )
    stem, language = match[1], match[2]
    [other] = {*LANGUAGES} - {language}
    if not (others := partners(path)):
        raise BadRecordError(
            "unknown file",
            f"{path}: there is no {stem}.{other} beside it, plain or gzipped; to "
            f"translate it alone, give JSON lines with 'id' and {language!r}",
        )
    yield from _of_pair(stem, {language: path, other: others[0]})


def _of_pair(stem: str, files: dict[str, pathlib.Path]) -> Iterator[tuple[int, Any]]:
    # Before any comes out: lines that have shifted are not translations.
    counts = {file: sum(1 for _ in _lines(file)) for file in files.values()}
    if len(set(counts.values())) > 1:
        lengths = " and ".join(f"{file} has {n} lines" for file, n in counts.items())
        raise BadRecordError(
            "file cut short",
            f"{lengths}; expected a line of one for each of the other: fetch both "
            "again",
        )
    for of_languages in zip(*map(_lines, files.values()), strict=True):
        number = of_languages[0][0]
        texts = (text for _, text in of_languages)
        try:
            value = {"id": f"{stem}:{number}"}
            for (language, file), text in zip(files.items(), texts, strict=True):
                if isinstance(text, BadRecordError):
                    raise text.at(file.name)
                value[language] = text.strip()
            yield number, value
        except BadRecordError as e:
            yield number, e


def _lines(file: pathlib.Path) -> Iterator[tuple[int, str | BadRecordError]]:
    number = 0
    try:
        with open_input(file) as opened:
            for number, text in text_lines(opened):
                yield number, text
    except BadRecordError as e:
        raise e.at(f"{file}, after line {number}") from e
