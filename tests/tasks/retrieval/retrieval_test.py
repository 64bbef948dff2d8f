"""Retrieval: records, inputs, ranks, and all commands on one's own pairs."""

import csv
import dataclasses
import json
import pathlib

import finetuned_run
import numpy as np
import pytest
from multihop_samples import tokenizer
from small_run import prepared_here, scores_of
from written_samples import QUESTION, write_release

import etc_jax
from etc_jax import config as config_lib
from etc_jax.cli import convert, evaluate, predict
from etc_jax.configs.own_data import retrieval as retrieval_config
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.scoring import retrieval as scoring
from etc_jax.tasks import retrieval
from etc_jax.tasks.retrieval.decoding import official
from etc_jax.training import errors
from etc_jax.training.run import train_and_evaluate

TASK = retrieval.DATA_SET.in_format()
SIZES = SequenceSizes(12, 1)
VALUE = {"id": "a", "query": "who owned it?", "passage": "ann lee owned the mill ."}


def record(task=TASK, **changes):
    return task.parse({**VALUE, **changes}, lambda *note: None)


def with_negatives(number):
    return TASK.with_options({"negatives_column": "hard", "negatives": number})


# --- records --------------------------------------------------------------------------


def test_files_of_columns_and_of_squad_are_read(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("q,p,hard\nwho?,Ann.,Bob.\nwhy?,It was.,\n")
    columns = {"query_column": "q", "passage_column": "p"}
    task = TASK.with_options({**columns, "negatives_column": "hard"})
    first, second = task.read([path])
    assert (first.query, first.passage, first.negatives) == ("who?", "Ann.", ("Bob.",))
    assert (second.id, second.negatives) == ("a.csv:2", ())
    impossible = {**QUESTION, "id": "q2", "answers": [], "is_impossible": True}
    problems = Problems()
    file = write_release(tmp_path, [QUESTION, impossible])
    [found] = TASK.read([file], problems)
    assert found.query == QUESTION["question"] and found.passage == QUESTION["context"]
    # It has no answer in its paragraph: left out, and nothing is lost.
    assert problems.counts == {"question without an answer": 1} and not problems.lost


# --- inputs ---------------------------------------------------------------------------


def test_each_text_is_a_sequence_as_encode_makes_it():
    task = with_negatives(2)
    made = record(task, hard=["the mill burned"])
    [window] = task.features(made, tokenizer(), SIZES)
    pieces = tokenizer().pieces
    assert pieces(window.tokens)[:9] == [
        "[CLS]",
        *VALUE["passage"].split(),
        "[SEP]",
    ] + ["[PAD]"]
    query = window.extra["query"]
    assert pieces(query[query >= 0]) == [
        "[CLS]",
        "who",
        "owned",
        "it",
        "[UNK]",
        "[SEP]",
    ]
    first, second = window.extra["negatives"]
    assert pieces(first[first >= 0]) == ["[CLS]", "the", "mill", "burned", "[SEP]"]
    assert (second == -1).all() and query.shape == (64,)
    keys = window.labels["passage_keys"]
    assert keys[:2].any(axis=1).all() and not keys[2].any()
    [cut] = task.features(made, tokenizer(), SequenceSizes(5, 1))
    assert pieces(cut.tokens) == ["[CLS]", "ann", "lee", "owned", "[SEP]"]
    with pytest.raises(BadRecordError, match="'a': '\u0300' has no token"):
        TASK.features(record(passage="\u0300"), tokenizer(), SIZES)


def test_equal_texts_have_equal_keys():
    labels = [
        TASK.features(record(**x), tokenizer(), SIZES)[0].labels
        for x in ({}, {"query": "x"}, {"passage": "y"})
    ]
    passage, query = (
        [x[k].tolist() for x in labels] for k in ("passage_keys", "query_key")
    )
    assert passage[0] == passage[1] != passage[2]
    assert query[0] == query[2] != query[1]


def test_columns_shape_no_input():
    usual = TASK.shaping(SIZES)
    assert usual == {"negatives": 0, "query_length": 64}
    assert TASK.with_options({"query_column": "q"}).shaping(SIZES) == usual
    assert with_negatives(3).shaping(SIZES)["negatives"] == 3
    with pytest.raises(ValueError, match="query_length 2; expected 1 and 3"):
        TASK.with_options({"query_length": 2})


# --- ranks ----------------------------------------------------------------------------


def predictions_of(queries, passages, vectors):
    """Predictions of queries whose passages have these vectors."""
    found = {}
    for i, (query, passage) in enumerate(zip(queries, passages, strict=True)):
        made = record(id=str(i), query=query, passage=passage)
        rows = [vectors[query], vectors[passage], np.zeros((0, 2))]
        outputs = retrieval.decoding.Vectors(*(np.array([x], np.float32) for x in rows))
        found |= TASK.answers(outputs, TASK.features(made, tokenizer(), SIZES))
    return found


def test_a_rank_is_among_all_passages_each_once():
    vectors = {"a": (1, 0), "b": (0, 1), "p": (0.6, 0.8), "r": (0.8, 0.6), "s": (0, 1)}
    # a: r, p, s; b: s, p, r; the passage p is there twice.
    queries, passages = ["a", "b", "b", "a"], ["p", "p", "r", "s"]
    content = official(predictions_of(queries, passages, vectors))
    # For a: p and s are right, r comes before; for b: p and r, after s.
    assert [x["rank"] for x in content.values()] == [2, 2, 2, 2]
    assert [len(x["passages"]) for x in content.values()] == [3] * 4
    scores = TASK.score([{"id": str(i)} for i in range(4)], content)
    assert scores.metrics["mrr"] == 0.5 and scores.metrics["recall@1"] == 0
    assert scores.metrics["recall@5"] == 1


def test_equal_vectors_find_nothing():
    vectors = dict.fromkeys(["a", "b", "c", "p", "r", "s"], (1, 0))
    content = official(predictions_of("abc", "prs", vectors))
    assert [x["rank"] for x in content.values()] == [3, 3, 3]


def test_metrics_of_ranks_by_hand():
    found = scoring.score(["a", "b", "c"], {"a": 1, "b": 4, "c": None}).metrics
    assert found["mrr"] == pytest.approx((1 + 1 / 4) / 3)
    assert [found[f"recall@{k}"] for k in (1, 5)] == pytest.approx([1 / 3, 2 / 3])
    with pytest.raises(ValueError, match="rank of 'a' is 0"):
        scoring.score(["a"], {"a": 0})
    with pytest.raises(ValueError, match="at least one query"):
        scoring.score([], {})


def test_a_reader_sees_cosines_of_the_passages():
    task = with_negatives(1)
    made = record(task, hard=["the mill burned"])
    windows = task.features(made, tokenizer(), SIZES)
    rows = [[(1, 0)], [(0.6, 0.8)], [[(0.8, 0.6)]]]
    outputs = retrieval.decoding.Vectors(*(np.array(x, np.float32) for x in rows))
    [told] = task.explain(outputs, windows, None)
    assert told.answer == "the mill burned" and told.score == pytest.approx(0.8)
    scores = [d.passages[0].score for d in told.documents]
    assert scores == pytest.approx([0.6, 0.8])


# --- commands -------------------------------------------------------------------------


def pairs(number, seed):
    """(query, passage, hard negative): they share a word of two letters."""
    rng = np.random.default_rng(seed)
    for word in rng.choice(finetuned_run.PAIRS, number, replace=False):
        more = rng.choice(["the", "of", "in", "was", "born"], 4)
        yield f"which {word}", f"{word} {' '.join(more)}", f"{' '.join(more)} town"


# What is quick of it is in `tests/objectives/losses/contrastive_test.py`.
@pytest.mark.full
@pytest.mark.usefixtures("one_device")
@pytest.mark.parametrize(
    "family, pooling",
    [
        ("bert", "mean"),
        ("longformer", "global"),
        ("roberta", "cls"),
        ("big_bird", "mean"),
    ],
)
def test_from_a_csv_to_vectors(family, pooling, run):
    for name, seed in (("train", 0), ("dev", 1)):
        with open(f"{name}.csv", "w") as file:
            csv.writer(file).writerows([("q", "p", "hard"), *pairs(48, seed)])
    columns = ("--query_column=q", "--passage_column=p", "--negatives_column=hard")
    flags = ("--query_length=8", *columns)
    prepared_here(run, "retrieval", "train.csv", *flags, lengths=(16, 1))

    values = retrieval_config.get_config(f"prepared=prepared,dev=dev.csv,{family},tiny")
    values.objective.update(pooling=pooling, symmetric=family != "bert")
    values.train.eval_every_steps = values.checkpoint.every_steps = 80
    assert values.checkpoint.best_metric == "official_mrr"
    config = config_lib.from_config_dict(values)
    assert train_and_evaluate(config, "run").exit_code == errors.DONE

    run(evaluate, "--model=run", "--out=scored", "dev.csv")
    metrics = scores_of("scored")["metrics"]
    assert metrics["recall@5"] > 0.3  # by chance 0.1, as the words are others
    content = json.loads(pathlib.Path("scored/predictions.json").read_text())

    # The same vectors by themselves give the same scores.
    model = etc_jax.load("run")
    rows = list(pairs(48, 1))
    query, passage, hard = (model.encode(texts) for texts in zip(*rows, strict=True))
    np.testing.assert_allclose(np.linalg.norm(query, axis=1), 1, atol=1e-5)
    if family != "big_bird":  # whose last block depends on the padding
        scores = query @ np.concatenate([passage, hard]).T
        own = np.diagonal(scores)
        want = [content[f"dev.csv:{i + 1}"]["passages"][0][1] for i in range(48)]
        np.testing.assert_allclose(scores.max(axis=1), want, atol=2e-4)
        ranks = [content[f"dev.csv:{i + 1}"]["rank"] for i in range(48)]
        assert ((scores > own[:, None] + 1e-4).sum(axis=1) < ranks).all()

    run(convert, "--export=run", "--out=model")
    exported = etc_jax.load("model")
    assert exported.sentences.pooling == pooling
    np.testing.assert_allclose(
        exported.encode(["which ab"]), model.encode(["which ab"])
    )
    said = run(convert, "--to_hf=run", "--out=hf", code=2 * (pooling == "global"))
    if pooling == "global":
        assert "it can say mean and cls" in said
    else:
        again = etc_jax.load("hf")
        assert (again.sentences.pooling, again.max_length) == (pooling, 16)
        np.testing.assert_allclose(
            again.encode(["which ab"]), model.encode(["which ab"]), atol=1e-5
        )
    told = run(predict, "--model=run", "--json", "dev.csv").splitlines()
    told = [json.loads(x) for x in told]
    assert len(told) == 48 and told[0]["question"] == rows[0][0]
    assert dataclasses.asdict(exported.sentences) == dataclasses.asdict(model.sentences)
