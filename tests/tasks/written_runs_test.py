"""Every data set that is written: official files to the official score.

A row is a data set and the files it is run on: a real slice, or the sample of
`text_sets.TEXT_SETS`. All rows have one shape, so that one program is compiled.
"""

import collections
import gzip
import json
import operator
import pathlib
import shutil
import statistics
import zipfile
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from golden_data import require_shared
from multihop_samples import write_json
from natural_questions_samples import write_lines
from small_run import evaluated, once, prepared, sizes_of, small_config, trained
from text_sets import TEXT_SETS, lines_of, scrolls_lines
from tokenizer_samples import sentence_pieces, t5_model
from written_samples import write_pair

from etc_jax.datasets.json_lines import read_lines
from etc_jax.datasets.task import find_task

COUNT = 6
LENGTHS = (96, 6)
MODEL = {"num_decoder_layers": 1, "mlp_dim": 8, "max_length": 96, "dropout_rate": 0.0}


class Row(NamedTuple):
    """A run.

    Attributes:
      data_set: its name.
      write: folder -> the official file.
      options: with which it is read, as configs have them.
    """

    data_set: str
    write: Callable[[pathlib.Path], Any]
    options: tuple[str, ...] = ()


def first_lines(part: str, count: int = COUNT) -> Callable[[pathlib.Path], Any]:
    """The first lines of a slice."""

    def write(folder):
        path = require_shared(f"data/{part}")
        values = [value for number, value in read_lines(path) if number <= count]
        return write_lines(folder / f"{path.name.removesuffix('.gz')}.gz", values)

    return write


def whole(part: str) -> Callable[[pathlib.Path], Any]:
    """A slice as it lies there."""
    return lambda folder: require_shared(f"data/{part}")


def _translations(folder):
    path = require_shared("data/wmt_en_de")
    sides = {
        language: (path / f"val.{language}").read_text("utf-8").splitlines()[:COUNT]
        for language in ("en", "de")
    }
    return write_pair(folder, sides, "val")


def _two_articles(folder):
    """Of those that have several answers a question."""
    packed = require_shared("data/squad/dev-v1.1.multiref.json.gz").read_bytes()
    value = json.loads(gzip.decompress(packed))
    return write_json(folder, {**value, "data": value["data"][:2]}, "dev-v1.1.json")


def _narrativeqa(folder):
    path = require_shared("data/narrativeqa")
    shutil.copytree(path, folder / "release", dirs_exist_ok=True)
    shutil.copy(path / "documents.dummy.csv", folder / "release" / "documents.csv")
    # Each question is of another set.
    text = (path / "qaps.csv").read_text("utf-8")
    for name in ("test", "train"):
        text = text.replace(f",{name},", ",valid,")
    questions = folder / "release" / "qaps_valid.csv"
    questions.write_text(text, "utf-8")
    return questions


def _zipped(folder):
    """A file in an archive of SCROLLS."""
    with zipfile.ZipFile(folder / "quality.zip", "w") as archive:
        archive.writestr("quality/train.jsonl", "")
        lines = lines_of(scrolls_lines("quality", COUNT))
        archive.writestr("quality/validation.jsonl", lines)
    return folder / "quality.zip" / "validation.jsonl"


# Real text, for the most part put into SCROLLS's form; of the other two sets there is
# none, and their rows are the samples.
_SCROLLS = {
    "gov_report": "validation.slice.jsonl.gz",
    "summ_screen_fd": "validation.slice.jsonl.gz",
    "qmsum": "validation.derived.jsonl.gz",
    "qasper": "validation.slice.jsonl.gz",
    "quality": "validation.derived.jsonl.gz",
}

# Slices by the id of the row.
SLICES = {
    "wmt14_en_de": Row(
        "wmt14_en_de", _translations, ("direction=de-en", "detokenise=true")
    ),
    **{
        f"scrolls_{name}": Row(f"scrolls_{name}", first_lines(f"scrolls/{name}/{file}"))
        for name, file in _SCROLLS.items()
    },
    "scrolls_quality-zip": Row("scrolls_quality", _zipped),
    # Invented, in the form of the release.
    "contract_nli": Row(
        "contract_nli", whole("invented_samples/contract_nli/train.json")
    ),
    # Three questions, and the beginnings of the stories.
    "narrativeqa": Row("narrativeqa", _narrativeqa),
    "narrativeqa-summary": Row("narrativeqa", _narrativeqa, ("text=summary",)),
    "arxiv": Row("arxiv", whole("scientific_papers/arxiv/val.txt.gz")),
    "pubmed": Row("pubmed", whole("scientific_papers/pubmed/val.txt.gz")),
    "squality": Row("squality", first_lines("squality/dev.slice.jsonl.gz", 2)),
}
SLICES |= {
    "qmsum": Row("qmsum", first_lines("qmsum/val.slice.jsonl.gz", 1)),
    "qasper": Row("qasper", whole("qasper/qasper-train-v0.1.slice.json")),
    "hotpotqa_text": Row(
        "hotpotqa_text", whole("hotpotqa/hotpot_dev_distractor_v1.slice.json")
    ),
    "squad_distractors": Row(
        "squad_distractors", _two_articles, ("order=shuffled", "distractors=3")
    ),
    "quality": Row(
        "multiple_choice",
        first_lines("quality/quality.converted.htmlstripped.jsonl.gz", 1),
    ),
}
SAMPLES = {
    f"{name}-sample": Row(
        name, one.write, tuple(f"{option}={x}" for option, x in one.options.items())
    )
    for name, one in TEXT_SETS.items()
}
ROWS = SLICES | SAMPLES


# --- scores, worked out in another way ------------------------------------------------


def _words(text):
    kept = "".join(
        c for c in text.lower() if c not in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
    )
    return [word for word in kept.split() if word not in ("a", "an", "the")]


def _f1(text, reference):
    ours, theirs = _words(text), _words(reference)
    shared = (collections.Counter(ours) & collections.Counter(theirs)).total()
    return 2 * shared / (len(ours) + len(theirs)) if shared else 0.0


def _exact(text, reference):
    return float(_words(text) == _words(reference))


def _mean_of_best(likeness, texts, references):
    pairs = zip(texts, references, strict=True)
    return statistics.fmean(
        max(likeness(text, one) for one in several) for text, several in pairs
    )


def _rouge(texts, references):
    rouge_scorer = pytest.importorskip("rouge_score.rouge_scorer")
    kinds = ("rouge1", "rouge2", "rougeL")
    scorer = rouge_scorer.RougeScorer(kinds)
    return statistics.geometric_mean(
        [
            _mean_of_best(
                lambda text, one, kind=kind: scorer.score(one, text)[kind].fmeasure,
                texts,
                references,
            )
            # The geometric mean of the package takes no 0.
            or 1e-300
            for kind in kinds
        ]
    )


def _bleu(texts, references):
    sacrebleu = pytest.importorskip("sacrebleu")
    of_each = [list(several) for several in zip(*references, strict=True)]
    return sacrebleu.corpus_bleu(texts, of_each).score / 100


# By the metric that a data set is ranked by: (texts, references) -> score.
AGAIN = {
    "f1": lambda *given: _mean_of_best(_f1, *given),
    "answer_f1": lambda *given: _mean_of_best(_f1, *given),
    "exact_match": lambda *given: _mean_of_best(_exact, *given),
    # Of the numbers of options.
    "accuracy": lambda *given: _mean_of_best(operator.eq, *given),
    "geometric_mean": _rouge,
    "bleu": _bleu,
}


def _right(gold):
    """All right texts of a record, or the number of its right option."""
    return gold["references"] if "references" in gold else [gold["label"]]


def _texts(task, file):
    """{record id: text} of a prediction file, or the number of an option."""
    if not task.lines:
        return json.loads(file)
    # Those of Qasper.
    lines = map(json.loads, file.splitlines())
    return {x["question_id"]: x["predicted_answer"] for x in lines}


@pytest.mark.full(but=["wmt14_en_de", "text_to_text-sample"])
@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_from_official_files_to_the_score_of_the_prediction_file(row, tmp_path):
    task = find_task(row.data_set, "text_to_text").with_texts(row.options)
    file = pathlib.Path(row.write(tmp_path))
    records = list(task.read([file]))
    gold = {one["id"]: _right(one) for one in map(task.gold, records)}
    assert len(gold) == len(records) > 1
    tokenizer = sentence_pieces(t5_model())
    ends = {"eos_id": tokenizer.special_id("sentence"), "head_dim": 4}
    ends["pad_id"] = ends["decoder_start_id"] = tokenizer.special_id("pad")
    how = row.data_set, "text_to_text"
    cache = prepared(*how, file, tokenizer, LENGTHS, tmp_path, row.options)
    config = small_config(
        *(row.data_set, cache, tokenizer.vocab_size, sizes_of(*how, LENGTHS)),
        family="t5",
        model={**MODEL, **ends},
        data__format="text_to_text",
        data__input_options=row.options,
        data__validation_files=(str(file),),
        train__batch_size=8,
        **once(2),
    )
    run, out = tmp_path / "run", tmp_path / "dev"
    trained(config, run)
    scores = evaluated(run, file, out)
    written = _texts(task, (out / task.prediction_file).read_text())
    assert list(written) == list(gold) and all(
        type(x) is type(gold[name][0]) for name, x in written.items()
    )
    again = AGAIN[task.metric](list(written.values()), list(gold.values()))
    assert scores["metrics"][task.metric] == pytest.approx(again, abs=1e-9)
    if task.metric == "bleu":
        begin = "nrefs:1|case:mixed|eff:no|tok:13a"
        assert scores["signatures"]["bleu"].startswith(begin)
    # Tuples are lists there.
    options = json.loads(json.dumps(task.option_values))
    assert scores["task"] == row.data_set and scores["options"] == options
    lines = (run / "metrics.jsonl").read_text().splitlines()
    [last] = [x for x in map(json.loads, lines) if x["kind"] == "eval"]
    for key, value in scores["metrics"].items():
        assert last[f"official_{key}"] == pytest.approx(value, abs=1e-6)
    # Right texts in the same file are full marks.
    right = {name: references[-1] for name, references in gold.items()}
    golds = [task.gold(record) for record in records]
    full = task.score(golds, task.official(right)).metrics[task.metric]
    assert full == pytest.approx(1)


@pytest.mark.usefixtures("one_device")
def test_references_of_wmt_are_spelled_without_tokens_of_moses(tmp_path):
    pytest.importorskip("sacremoses")
    row = ROWS["wmt14_en_de"]
    task = find_task("wmt14_en_de").with_texts(row.options)
    file = _translations(tmp_path)
    references = file.read_text("utf-8").splitlines()
    spelled = {" ,": ",", " .": ".", " ;": ";", " &apos;s": "'s"}
    for tokens, text in spelled.items():
        references = [x.replace(tokens, text) for x in references]
    records = {record.id: record.target for record in task.read([file])}
    assert records == {f"val:{i + 1}": text for i, text in enumerate(references)}


@pytest.mark.parametrize("row", SAMPLES.values(), ids=SAMPLES)
def test_halves_of_right_texts_score_as_in_another_way(row, tmp_path):
    """A model of two steps writes nothing that is near a right text."""
    task = find_task(row.data_set, "text_to_text").with_texts(row.options)
    gold = [task.gold(record) for record in task.read([row.write(tmp_path)])]
    right = {x["id"]: x["references"][-1] for x in gold}
    half = {name: text[: len(text) // 2 + 1] for name, text in right.items()}
    again = AGAIN[task.metric](list(half.values()), [x["references"] for x in gold])
    score = task.score(gold, task.official(half)).metrics[task.metric]
    assert score == pytest.approx(again, abs=1e-9)
