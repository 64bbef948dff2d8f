"""QMSum's file: invented meetings, a query about all of one and one about each fact.

    etc-jax synthetic --task=qmsum --count=1000 --words=8000 --out=train.jsonl

Meetings are long documents (`long_documents`), of which a turn has a sentence. The
answer to the general query is the summary.
"""

from __future__ import annotations

import random
from typing import Any

from etc_jax.base import registry
from etc_jax.tasks.synthetic.long_documents import (
    DocumentSizes,
    Fact,
    LongDocument,
    documents,
)
from etc_jax.tasks.synthetic.maker import Maker

_SPEAKERS = ("Project Manager", "Marketing", "Industrial Designer", "User Interface")


def _meeting(rng: random.Random, document: LongDocument) -> dict[str, Any]:
    turns = document.sentences
    asked = rng.sample(document.facts, len(document.facts))
    return {
        "topic_list": [
            {"topic": "Trades", "relevant_text_span": _span(0, len(turns) - 1)}
        ],
        "general_query_list": [
            {
                "query": "Summarize the whole meeting.",
                "answer": " ".join(document.summary),
            }
        ],
        "specific_query_list": [_query(document, fact) for fact in asked],
        "meeting_transcripts": [
            {"speaker": rng.choice(_SPEAKERS), "content": turn} for turn in turns
        ],
    }


def _query(document: LongDocument, fact: Fact) -> dict[str, Any]:
    turn = document.sentences.index(fact.statement)
    return {
        "query": fact.question,
        "answer": fact.summary,
        "relevant_text_span": _span(turn, turn),
    }


def _span(first: int, last: int) -> list[list[str]]:
    """Numbers of turns are strings in the release."""
    return [[str(first), str(last)]]


records = documents(_meeting, DocumentSizes, "qmsum")


MAKER = registry.register("invented_items", "qmsum")(
    Maker(records, DocumentSizes, lines=True)
)
