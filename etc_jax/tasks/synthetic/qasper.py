"""Qasper's file: invented papers, and a question about each fact that one tells.

    etc-jax synthetic --task=qasper --count=1000 --words=8000 --out=train.json

Papers are long documents (`long_documents`) in sections. The answer to a question is a
span of the paper, and its evidence the paragraph with the fact.
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

_SECTIONS = ("Introduction", "Market", "Market ::: Trades", "Conclusion")


def _paper(rng: random.Random, document: LongDocument) -> dict[str, Any]:
    sections = zip(_SECTIONS, document.sections(len(_SECTIONS)), strict=True)
    full_text = [
        {"section_name": name, "paragraphs": paragraphs}
        for name, paragraphs in sections
        if paragraphs
    ]
    asked = rng.sample(document.facts, len(document.facts))
    return {
        "id": document.id,
        "title": f"The market of {len(asked)} trades",
        "abstract": "We tell what some trades sell.",
        "full_text": full_text,
        "qas": [_question(document, i, fact) for i, fact in enumerate(asked)],
    }


def _question(document: LongDocument, number: int, fact: Fact) -> dict[str, Any]:
    [evidence] = (x for x in document.paragraphs if fact.statement in x)
    name = f"{document.id}-{number}"
    answer = {
        "unanswerable": False,
        "extractive_spans": [fact.goods],
        "yes_no": None,
        "free_form_answer": "",
        "evidence": [evidence],
        "highlighted_evidence": [fact.statement],
    }
    return {
        "question": fact.question,
        "question_id": name,
        "answers": [{"answer": answer, "annotation_id": f"{name}-0"}],
    }


records = documents(_paper, DocumentSizes, "qasper")


MAKER = registry.register("invented_items", "qasper")(
    Maker(records, DocumentSizes, key="id", around=("{", "}"))
)
