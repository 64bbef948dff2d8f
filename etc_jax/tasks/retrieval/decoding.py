"""From vectors of queries and passages to ranks among all passages of the files.

A reader is shown how near the passages of a record are to its query.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from etc_jax.datasets.decoding import check_outputs, require_gold
from etc_jax.datasets.explained import Explained, ExplainedDocument, Passage, Wording
from etc_jax.scoring import retrieval as scoring
from etc_jax.scoring.result import Scores
from etc_jax.tasks.retrieval.inputs import RetrievalWindow
from etc_jax.tasks.retrieval.records import Record, key_of

# Passages of each query in the prediction file.
LISTED = 10
# Queries that are compared with all passages at once.
_ROWS = 512
_GOLD_DIM = 64
_FLOAT = "<f4"

WORDING = Wording(
    question="Query",
    answer="Nearest passage",
    support="",
    legend="The number is the cosine of a passage and the query. The nearest one is "
    "of the record's own; metrics rank those of all records.",
)

# What is kept of a window: `key` of the query, its `query`, and `passages` by key, the
# right one first; vectors as text. `has_passage` if there is a right one.
Encoded = dict[str, Any]


class Vectors(NamedTuple):
    """float32 vectors of length 1.

    Attributes:
      query: `[b, e]`.
      passage: `[b, e]`.
      negatives: `[b, negatives, e]`.
    """

    query: np.ndarray
    passage: np.ndarray
    negatives: np.ndarray


def encoded(outputs: Vectors, windows: Sequence[RetrievalWindow]) -> list[Encoded]:
    """What is kept of each window, as JSON takes it.

    Raises:
      ValueError: if the vectors are not of these windows, or not finite.
    """
    check_vectors(outputs, windows)
    rows = zip(windows, *outputs, strict=True)
    return [
        {
            "key": key_of(window.record.query),
            "query": _text(query),
            "has_passage": window.record.passage is not None,
            "passages": {
                key_of(text): _text(vector)
                for text, vector in _texts(window.record, passage, negatives)
            },
        }
        for window, query, passage, negatives in rows
    ]


def check_vectors(outputs: Vectors, windows: Sequence[RetrievalWindow]) -> None:
    """Raises ValueError unless there is a row of finite vectors for each window."""
    if not windows:
        return
    e, number = outputs.query.shape[-1], len(windows[0].labels["passage_keys"]) - 1
    shapes = {"query": (e,), "passage": (e,), "negatives": (number, e)}
    check_outputs(outputs._asdict(), windows, shapes)


def _texts(
    record: Record, passage: np.ndarray, negatives: np.ndarray
) -> Iterator[tuple[str, np.ndarray]]:
    """(text, vector) of each passage of a record."""
    if record.passage is not None:
        yield record.passage, passage
    yield from zip(record.negatives, negatives, strict=False)


def _text(vector: np.ndarray) -> str:
    return base64.b64encode(np.asarray(vector, _FLOAT).tobytes()).decode()


def _vectors(texts: Sequence[str]) -> np.ndarray:
    """float32 `[number, e]`."""
    data = b"".join(map(base64.b64decode, texts))
    return np.frombuffer(data, _FLOAT).reshape(len(texts), -1)


# --- for a reader ---------------------------------------------------------------------


def explain(
    outputs: Vectors, windows: Sequence[RetrievalWindow], setting: None = None
) -> list[Explained]:
    """For each window its passages with their scores, the nearest one as the answer.

    Raises:
      ValueError: if the vectors are not of these windows, or not finite.
    """
    del setting
    check_vectors(outputs, windows)
    explanations = []
    for window, query, passage, negatives in zip(windows, *outputs, strict=True):
        record = window.record
        texts, vectors = [*record.negatives[: len(negatives)]], [*negatives]
        if record.passage is not None:
            texts, vectors = [record.passage, *texts], [passage, *vectors]
        scores = [float(np.dot(query, vector)) for vector in vectors[: len(texts)]]
        best = int(np.argmax(scores)) if scores else -1
        documents = tuple(
            ExplainedDocument(
                Passage(f"Passage {i + 1}"),
                (
                    Passage(
                        text,
                        score=score,
                        is_support=i == best,
                        is_gold=None if record.passage is None else i == 0,
                    ),
                ),
                paragraphs=True,
            )
            for i, (text, score) in enumerate(zip(texts, scores, strict=True))
        )
        explanations.append(
            Explained(
                record.id,
                record.query,
                texts[best] if scores else "",
                documents,
                score=scores[best] if scores else None,
                reference=record.passage,
                wording=WORDING,
            )
        )
    return explanations


# --- ranks ----------------------------------------------------------------------------


def official(predictions: Mapping[str, Encoded | None]) -> dict[str, Any]:
    """The ranks of some records among the passages of all of them.

    Args:
      predictions: by record id; None for one that was no input.

    Returns:
      By record id: `rank` from 1 of the best right passage, None for none, and
      `passages`, [key, score] of the first ones. A passage that is right for one of
      several equal queries is right for all. One with the same score as a right one
      comes before it, so that vectors that are all the same find nothing.
    """
    answered = {name: p for name, p in predictions.items() if p is not None}
    nothing = {"rank": None, "passages": []}
    rankings: dict[str, Any] = {name: dict(nothing) for name in predictions}
    passages: dict[str, str] = {}
    right_of: dict[str, set[str]] = {}
    for p in answered.values():
        passages |= p["passages"]
        right = right_of.setdefault(p["key"], set())
        right |= {*list(p["passages"])[: int(p["has_passage"])]}
    keys = list(passages)
    if not keys:
        return rankings
    matrix = _vectors(list(passages.values()))
    column = {key: i for i, key in enumerate(keys)}
    names = list(answered)
    for start in range(0, len(names), _ROWS):
        part = names[start : start + _ROWS]
        scores = _vectors([answered[name]["query"] for name in part]) @ matrix.T
        for name, row in zip(part, scores, strict=True):
            right = [column[key] for key in right_of[answered[name]["key"]]]
            order = np.argsort(-row, kind="stable")[:LISTED]
            best = [[keys[i], float(row[i])] for i in order]
            rankings[name] = {"rank": _rank(row, right), "passages": best}
    return rankings


def _rank(scores: np.ndarray, right: Sequence[int]) -> int | None:
    """The rank from 1 of the best right one; None without one."""
    if not right:
        return None
    least = scores[list(right)].max()
    as_good = int((scores >= least).sum())
    return as_good - int((scores[list(right)] >= least).sum()) + 1


def official_gold(record: Record) -> dict[str, Any] | None:
    """What `score` needs of a record; None where no passage is known."""
    return None if record.passage is None else {"id": record.id}


def score(gold: Sequence[Mapping[str, Any]], rankings: Mapping[str, Any]) -> Scores:
    """See `scoring.retrieval.score`.

    Args:
      gold: of `official_gold`.
      rankings: of `official`.
    """
    ranks = {name: x["rank"] for name, x in rankings.items()}
    return scoring.score([x["id"] for x in gold], ranks)


def gold_outputs(windows: Sequence[RetrievalWindow]) -> Vectors:
    """Vectors of a model that knows which passage answers which query.

    Raises:
      ValueError: if a window has no gold answer.
    """
    require_gold(windows, official_gold)
    number = len(windows[0].labels["passage_keys"]) - 1 if windows else 0
    of_passages = [_drawn(window.record.passage) for window in windows]
    negatives = np.zeros((len(windows), number, _GOLD_DIM), np.float32)
    for row, window in zip(negatives, windows, strict=True):
        for i, text in enumerate(window.record.negatives[:number]):
            row[i] = _drawn(text)
    passages = np.array(of_passages, np.float32).reshape(len(windows), _GOLD_DIM)
    return Vectors(passages, passages, negatives)


def _drawn(text: str) -> np.ndarray:
    """A direction that equal texts share."""
    rng = np.random.default_rng(int(key_of(text), 16))
    vector = rng.normal(size=_GOLD_DIM)
    return vector / np.linalg.norm(vector)
