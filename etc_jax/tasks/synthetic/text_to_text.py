"""Pairs of texts: a question with documents, and its answer in words.

The worlds and questions are those of `tasks.synthetic.hotpotqa`; the question stands
before the documents, so that an input which is cut keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from etc_jax.base import registry
from etc_jax.tasks.synthetic import hotpotqa
from etc_jax.tasks.synthetic.maker import Maker


def records(
    count: int,
    *,
    seed: int,
    sizes: hotpotqa.HotpotQaSizes | None = None,
    start: int = 0,
) -> Iterator[dict[str, Any]]:
    """Yields records `start .. start + count - 1` of an endless series.

    A record depends on seed, sizes and its number alone.
    """
    for item in hotpotqa.records(count, seed=seed, sizes=sizes, start=start):
        documents = (
            f"{title}: {''.join(sentences).strip()}"
            for title, sentences in item["context"]
        )
        yield {
            "id": item["_id"],
            "input": "\n".join([item["question"], *documents]),
            "target": item["answer"],
        }


MAKER = registry.register("invented_items", "text_to_text")(
    Maker(records, hotpotqa.HotpotQaSizes, lines=True)
)
