"""Tiny forms of tables of lengths: counted of invented records in official form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.lengths import add_stats
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row
from etc_jax.papers.tiny.steps import DEV, TRAIN, invented

_COUNTS = {TRAIN: 200, DEV: 50}
# Data set -> how its file ends.
_FILES = {
    "hotpotqa": ".json",
    "wikihop": ".json",
    "natural_questions": ".jsonl.gz",
    "openkp": ".jsonl",
}
# Those whose release is a folder -> what stands in that.
_FOLDERS = {
    "imdb": "train",
    "triviaqa": "qa/wikipedia-train.json",
    "coreference": "train.english.v4_gold_conll",
}


def _records(chain: Chain, data: str) -> tuple[str, ...]:
    """Files to learn from, and of development."""
    name, flags, end, inside = f"lengths/{data}", [f"--task={data}"], "", ""
    if data in _FILES:
        end = _FILES[data]
    else:
        flags.append("--split=train")
        inside = f"/{_FOLDERS[data]}"
    return tuple(
        invented(chain, name, part, count, *flags, end=end) + inside
        for part, count in _COUNTS.items()
    )


def _lengths(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """Of the data sets whose records can be invented; others have no figure."""
    invented = {*_FILES, *_FOLDERS}
    form = [x for x in row.stats if x.startswith("--format=")]
    lengths = {k: x for k, x in row.lengths.items() if x[0] in invented}

    def flags(data: str) -> list[str]:
        train, _ = _records(chain, data)
        words = f"--task={data}", "--vocab_size=1000", train
        vocabulary = chain.do("prepare", f"lengths/{data}/vocabulary", *words)
        return [data, *form, f"--tokenizer={vocabulary}"]

    row = dataclasses.replace(row, lengths=lengths)
    return add_stats(chain, row, flags, lambda data: _records(chain, data))


_ABOUT = (
    "Invented records in the form of the official files, 200 to learn from and 50 of "
    "development, the same for all seeds, in a vocabulary of 1,000 learned from them. "
    "They are made short: this runs the commands, and says nothing about real lengths."
)
STUDIES = {
    "etc.table1": Study(_ABOUT, _lengths),
    "longformer.table6": Study(_ABOUT, _lengths),
}
