"""Tags of words for readers, and files with the predictions in them."""

import gzip
import json

import multihop_samples
import numpy as np
import pytest

from etc_jax.datasets.decoding import with_records
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.prediction.answers_page import page
from etc_jax.tasks.token_classification import DATA_SET
from etc_jax.tasks.token_classification.decoding import tag_runs
from etc_jax.tasks.token_classification.explained import (
    pool_entities,
    pool_plain,
)
from etc_jax.tasks.token_classification.inputs import features
from etc_jax.tasks.token_classification.records import TokenClassificationOptions, parse

LABELS = ("B-per", "B-t", "I-per", "O")
OPTIONS = TokenClassificationOptions(labels=LABELS, scheme="iob2")
VALUE = {
    "id": "r",
    "tokens": [["Ann", "Lee", "<b>"], ["Ton"]],
    "tags": [["B-per", "I-per", "O"], ["B-t"]],
}


def explained(value, *tags, pool_fn=pool_entities):
    """Of a record whose words are given some tags."""
    record = parse(value, lambda *note: None, options=OPTIONS)
    windows = features(record, multihop_samples.tokenizer(), SequenceSizes(24, 1))
    logits = np.zeros((1, 24, len(LABELS)))
    for place, tag in zip(windows[0].first_pieces, tags, strict=True):
        logits[0, place, LABELS.index(tag)] = 1
    return pool_fn(with_records(tag_runs)(logits, windows))


def test_entities_stand_beside_the_gold_ones():
    told = explained(VALUE, "B-per", "O", "O", "B-t")
    assert told.answer == "Ann (per), Ton (t)"
    assert told.reference == "Ann Lee (per), Ton (t)"
    assert told.prediction == [["B-per", "O", "O"], ["B-t"]]
    predicted, gold = told.documents
    assert predicted.passages[0].marks == ((0, 3),)
    assert gold.passages[0].marks == ((0, 7),)
    # What the other side has not is told apart.
    assert (predicted.passages[0].doubted, gold.passages[0].doubted) == (
        (True,),
        (True,),
    )
    assert predicted.passages[1].doubted == (False,)
    html = page([told], task="t")
    for name, look in (("Ann", "doubted"), ("Ann Lee", "doubted"), ("Ton", "")):
        kind, hue = ("t", 180) if name == "Ton" else ("per", 0)
        classes = f"kind {look}".strip()
        mark = f'class="{classes}" style="--hue:{hue}">{name}<sup class="rank">{kind}<'
        assert html.count(mark) == (2 if name == "Ton" else 1), name
    assert "Lee &lt;b&gt;" in html
    assert "Reference" not in html and html.count('<p class="label">') == 3


def test_plain_tags_are_shown_with_each_word():
    told = explained(VALUE, "O", "B-t", "O", "O", pool_fn=pool_plain)
    assert told.documents[0].passages[0].names == ("O", "B-t", "O")
    assert told.answer.startswith("Ann (O), Lee (B-t), <b> (O)")


def test_a_text_is_answered_with_spans_of_characters():
    pytest.importorskip("nupunkt")
    value = {"id": "r", "text": " Ann  Lee came."}
    told = explained(value, "B-per", "I-per", "O", "O")
    assert told.prediction == [[1, 9, "per"]] and told.reference is None
    assert len(told.documents) == 1


# --- files with predictions -----------------------------------------------------------


def in_input_layout(path, content, **options):
    task = DATA_SET.in_format().with_options(options)
    return "".join(task.in_input_layout(path, content))


def test_columns_have_one_more_and_all_else_stays(tmp_path):
    path = tmp_path / "a.conll.gz"
    text = (
        "-DOCSTART- X O\n\nAnn\tX\tO\r\n# a = b\nLee O O\n\n\n-DOCSTART- X O\n\nit O O"
    )
    path.write_bytes(gzip.compress(text.encode()))
    content = [{"id": "a.conll.gz:1", "tags": [["B-per", "I-per"]]}]
    want = (
        "-DOCSTART- X O\n\nAnn\tX\tO\tB-per\n# a = b\nLee O O I-per\n\n\n"
        "-DOCSTART- X O\n\nit O O _\n"
    )
    assert in_input_layout(path, content) == want
    # Sentences are records: others have the tags then.
    content = [{"id": f"a.conll.gz:{i}", "tags": [[x] * 2]} for i, x in ((1, "x"),)]
    content += [{"id": "a.conll.gz:2", "tags": [["y"]]}]
    got = in_input_layout(path, content, unit="sentence").splitlines()
    assert [line[-1] for line in (got[2], got[4], got[-1])] == ["x", "x", "y"]


def test_lines_of_json_have_what_they_had_and_the_tags(tmp_path):
    pytest.importorskip("nupunkt")
    values = [
        {"id": "a", "tokens": ["Ann", "Lee"], "more": [1]},
        {"id": "b", "tokens": [["Ann"], [], ["Ton"]]},
        {"id": "c", "text": "Ann Lee came.", "spans": []},
        {"id": "d", "tokens": ["x"]},
        {"id": "a", "tokens": ["y"]},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f"{json.dumps(x)}\n" for x in values) + "{\n")
    content = [
        {"id": "a", "tags": [["B-per", "I-per"]]},
        {"id": "b", "tags": [["O"], ["B-t"]]},
        {"id": "c", "tags": [["B-per", "I-per", "O", "O"]]},
        {"id": "d", "tags": []},
    ]
    got = [json.loads(line) for line in in_input_layout(path, content).splitlines()]
    more = [
        {"predicted_tags": ["B-per", "I-per"]},
        {"predicted_tags": [["O"], [], ["B-t"]]},
        {"predicted_spans": [[0, 7, "per"]]},
        {"predicted_tags": []},
        {},
    ]
    assert got == [{**a, **b} for a, b in zip(values, more, strict=True)]
