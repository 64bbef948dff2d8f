"""Small files of every data set, damaged, and all that reads a record, run on them.

The items are invented ones in the form of the official release (`tasks.synthetic`).
"""

from __future__ import annotations

import csv
import functools
import io
import json
import pathlib
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from xml.sax.saxutils import escape, quoteattr

import mutations
import natural_questions_samples
import written_samples
from data_sets import SAMPLES, STORIES
from score_packages import require_for

from etc_jax.data.schema import stacked
from etc_jax.data.text.sources import read_documents
from etc_jax.data.tokenizers.tokenizer import grown
from etc_jax.data.windows.writing import LeftOut, part_of
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.prediction import answers_page
from etc_jax.prediction.raw_records import read_inputs
from etc_jax.tasks.synthetic import coreference, imdb

SIZES = (192, 64)
# Of inputs whose answers are spans of a text in windows.
SPANS = {"question_tokens": 40, "stride": 48}


class Form(NamedTuple):
    """How the files of a data set are written.

    Attributes:
      suffix: of its files, without that of gzip.
      whole: from the JSON text of records to the text of a file.
    """

    suffix: str = ".jsonl"
    whole: Callable[[Sequence[str]], str] = "\n".join


def _array(texts: Sequence[str]) -> str:
    return f"[{', '.join(texts)}]"


def _release(texts: Sequence[str]) -> str:
    tail = '"Domain": "Wikipedia", "VerifiedEval": false'
    return f'{{"Data": {_array(texts)}, {tail}}}'


FORMS = {
    "hotpotqa": Form(".json", _array),
    "wikihop": Form(".json", _array),
    "natural_questions": Form(),
    "openkp": Form(),
    "triviaqa": Form(".json", _release),
    "imdb": Form(),
    "hyperpartisan": Form(),
    "classification": Form(),
    "coreference": Form(),
    "token_classification": Form(),
    "multiple_choice": Form(),
    "squad": Form(".json", lambda texts: f'{{"data": {_array(texts)}}}'),
}
# Forms that are no JSON, and their data sets: their bytes alone are damaged.
PLAIN = {
    "hyperpartisan_xml": "hyperpartisan",
    "classification_csv": "classification",
    "coreference_columns": "coreference",
    "tag_columns": "token_classification",
    "squad_csv": "squad",
    "retrieval_csv": "retrieval",
    "imdb_folder": "imdb",
    "wmt14_en_de": "wmt14_en_de",
}
# Documents for pre-training.
TEXTS = ("text", "jsonl")
ALL = (*FORMS, *PLAIN, *TEXTS)


@functools.cache
def records_of(name: str) -> list[Any]:
    """Three records of a data set, in the form of its release."""
    made = SAMPLES[name].invented(3)
    return written_samples.articles_of(made[:3]) if name == "squad" else made


# --- damaged files --------------------------------------------------------------------


def damaged_file(form: str, folder: pathlib.Path, rng: random.Random) -> pathlib.Path:
    """Writes files of a form, of which one record or some bytes are damaged.

    Returns:
      The path that its reader is given.
    """
    if form == "imdb_folder":
        return _imdb_folder(folder, rng)
    if form in PLAIN or form == "text":
        (name, data), damage = _plain(form, folder), True
    else:
        name, data, damage = _of_values(form, folder, rng)
    if damage and rng.random() < 0.3 and form != "triviaqa":
        name, data = f"{name}.gz", mutations.damaged_gzip(data, rng)
    elif damage:
        data = mutations.damaged(data, rng)
    path = folder / name
    path.write_bytes(data)
    return path


def _of_values(
    form: str, folder: pathlib.Path, rng: random.Random
) -> tuple[str, bytes, bool]:
    """(name, bytes of a file, whether these are to be damaged)."""
    name = "imdb" if form == "jsonl" else form
    made, values, damage = FORMS[name], list(records_of(name)), rng.random() < 0.3
    texts = [json.dumps(value) for value in values]
    if not damage:
        number = rng.randrange(len(values))
        value = mutations.mutated(values[number], rng)
        if form == "openkp" and rng.random() < 0.5:
            value = _with_inner(values[number], rng)
        texts[number] = mutations.spelled(value, rng)
    if form == "triviaqa":
        texts = [_question(text, folder, rng) for text in texts]
        (folder / "qa").mkdir()
        return "qa/dev.json", made.whole(texts).encode(), damage
    return f"a{made.suffix}", made.whole(texts).encode(), damage


def _with_inner(value: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A page of OpenKP of which the JSON within the JSON is mutated."""
    inner = mutations.mutated(json.loads(value["VDOM"]), rng)
    return {**value, "VDOM": mutations.spelled(inner, rng)}


def _question(text: str, folder: pathlib.Path, rng: random.Random) -> str:
    """A question of TriviaQA, whose texts become files where it has some."""
    evidence = folder / "evidence" / "wikipedia"
    evidence.mkdir(parents=True, exist_ok=True)
    try:
        value = json.loads(text)
        pages = value.pop("Documents")
        for page in pages:
            data = page.pop("Text").encode("utf-8", "surrogatepass")
            if rng.random() < 0.1:
                data = mutations.damaged(data, rng)
            (evidence / page["Filename"]).write_bytes(data)
        return json.dumps({**value, "EntityPages": pages})
    except (ValueError, TypeError, KeyError, AttributeError, OSError, RecursionError):
        return text.replace('"Documents"', '"EntityPages"')


def _plain(form: str, folder: pathlib.Path) -> tuple[str, bytes]:
    values = records_of(PLAIN.get(form, "imdb"))
    if form == "hyperpartisan_xml":
        truth = [f'<article id="{x["id"]}" hyperpartisan="true"/>' for x in values]
        articles = [
            f'<article id="{x["id"]}" title={quoteattr(x["title"])}>'
            f"<p>{escape(x['text'])}</p></article>"
            for x in values
        ]
        (folder / "ground-truth-x.xml").write_text(_xml(truth))
        return "articles-x.xml", _xml(articles).encode()
    if form == "coreference_columns":
        path = folder / "whole"
        coreference.write(STORIES(3), path)
        return "a_gold_conll", path.read_bytes()
    if form == "tag_columns":
        documents = (
            "\n".join(
                "".join(f"{w} X {t}\n" for w, t in zip(words, tags, strict=True))
                for words, tags in zip(value["tokens"], value["tags"], strict=True)
            )
            for value in values
        )
        return "a.conll", "\n-DOCSTART- -X- O\n\n".join(documents).encode()
    if form == "squad_csv":
        question = {"question": "Where?", "context": "The mill stands in Ton."}
        return _csv([{**question, "answer": "Ton", "answer_start": 19}] * 3)
    if form.endswith("_csv"):
        return _csv(values)
    if form == "wmt14_en_de":
        for value, file in (("de", folder / "a.de"), ("en", folder / "a.en")):
            file.write_text("".join(f"{x[value]}\n" for x in values))
        return "a.en", (folder / "a.en").read_bytes()
    return "a.txt", "\n\n".join(x["text"] for x in values).encode()


def _csv(values: Sequence[dict[str, Any]]) -> tuple[str, bytes]:
    file = io.StringIO()
    rows = csv.DictWriter(file, tuple(values[0]))
    rows.writeheader()
    rows.writerows(values)
    return "a.csv", file.getvalue().encode()


def _xml(elements: Sequence[str]) -> str:
    body = "\n".join(elements)
    return f'<?xml version="1.0"?>\n<articles>\n{body}\n</articles>\n'


def _imdb_folder(folder: pathlib.Path, rng: random.Random) -> pathlib.Path:
    for label in imdb.LABELS:
        (folder / "train" / label).mkdir(parents=True)
    for i, value in enumerate(records_of("imdb")):
        name = rng.choice((f"{i}_9.txt", f"{i}_9.txt", "x.txt", f"{i}_{'9' * 99}.txt"))
        data = mutations.damaged(value["text"].encode(), rng)
        (folder / "train" / rng.choice(imdb.LABELS) / name).write_bytes(data)
    return folder / "train"


# --- what is run on them --------------------------------------------------------------


def consume(form: str, path: pathlib.Path) -> int:
    """Reads a path as the commands do, down to arrays, answers, scores and a page.

    Returns:
      How many records got to the end.

    Raises:
      Whatever is not an error of the project's own class that names the file.
    """
    if form in TEXTS:
        return _documents(path)
    name = PLAIN.get(form, form)
    require_for(name)
    options = SAMPLES[name].options
    read = task_lib.find_task(name).with_options(options).read
    problems = Problems()
    records = list(read([path], problems))
    assert problems.report()
    for kind, messages in problems.messages.items():
        assert all(str(path.parent) in m for m in messages), (kind, messages)
    try:
        list(read([path], None))
    except BadRecordError as e:
        assert str(path.parent) in str(e), str(e)
    found = task_lib.find(name)
    if path.is_file():
        _raw(found, path)
    forms = [found.in_format(x).with_options(options) for x in found.converters]
    forms = [x.with_options(SPANS) if "n_best" in x.option_values else x for x in forms]
    return min(_windows(form, records) for form in forms)


def _documents(path: pathlib.Path) -> int:
    count, source = 0, read_documents([path], max_replaced_share=1.0)
    try:
        for document in source:
            count += 1
            "".join([document.name, *document.paragraphs]).encode()
    except ValueError as e:
        assert not isinstance(e, UnicodeError), e
        assert str(path) in str(e), str(e)
    assert source.report()
    return count


def _raw(task: task_lib.DataSet, path: pathlib.Path) -> None:
    """As `etc-jax predict` reads."""
    for raw in read_inputs([str(path)]):
        if raw.fault is None:
            try:
                task.parse(raw.value, lambda kind, message: None)
            except BadRecordError as e:
                assert raw.where in str(e.at(raw.where))


def _windows(task: task_lib.Task, records: Sequence[Any]) -> int:
    tokenizer = natural_questions_samples.tokenizer()
    tokenizer = grown(tokenizer, task.tokens) if task.tokens else tokenizer
    answers = []
    for record in records:
        try:
            windows = task.features(record, tokenizer, type(task.sizes)(*SIZES))
        except BadRecordError:
            continue
        kept = [window for window in windows if window.unusable is None]
        part_of(kept, tokenizer.vocab_size, 1, LeftOut())
        stacked(windows[:2])
        gold = task.gold(record)
        if gold is not None:
            outputs = task.gold_outputs(windows)
            decoded = task.decode(outputs, windows, task.settings)
            [prediction, *_] = task.predictions(json.loads(json.dumps(decoded)))
            content = task.official({record.id: prediction})
            assert all(map(str.encode, task.official_files(content).values()))
            task.score([gold], content)
            told = task.pool_explained(task.explain(outputs, windows, task.setting))
            told.text().encode()
            assert json.dumps(told.as_json())
            answers.append(told)
    answers_page.page(answers, task=task.name).encode()
    return len(answers)


def trials(form: str, seeds: Sequence[int]) -> Iterator[random.Random]:
    """A generator for each seed, other ones for each form."""
    for seed in seeds:
        yield random.Random(f"{form} {seed}")
