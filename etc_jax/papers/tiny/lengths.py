"""Tiny forms of tables of lengths: counted of invented records in official form."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.lengths import add_stats
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row

_COUNTS = {"train": 200, "dev": 50}
# Data set -> the file of its records in a release; of those that are one file, its name
# ends so.
_IN_FOLDERS = {
    "imdb": "train",
    "triviaqa": "qa/wikipedia-train.json",
    "coreference": "train.english.v4_gold_conll",
}
_ENDS = {
    "hotpotqa": "json",
    "wikihop": "json",
    "natural_questions": "jsonl.gz",
    "openkp": "jsonl",
}


def _items(chain: Chain, data: str, part: str, seed: int) -> str:
    """Invented records; those of a part come from another seed's series."""
    number = 2 * seed + (part == "dev")
    name = f"lengths/items/{data}_{part}_seed{seed}"
    flags = f"--task={data}", f"--count={_COUNTS[part]}", f"--seed={number}"
    if data in _IN_FOLDERS:
        folder = chain.do("synthetic", name, *flags, "--split=train")
        return f"{folder}/{_IN_FOLDERS[data]}"
    return chain.do("synthetic", f"{name}.{_ENDS[data]}", *flags)


def _lengths(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """What is invented of the row's data sets; no other one has a figure."""
    every = {*_IN_FOLDERS, *_ENDS}
    lengths = {k: x for k, x in row.lengths.items() if x[0] in every}
    form = [x for x in row.stats if x.startswith("--format=")]

    def files(data: str) -> tuple[str, ...]:
        return tuple(_items(chain, data, part, seed) for part in _COUNTS)

    def flags(data: str) -> list[str]:
        vocabulary = chain.do(
            "prepare",
            f"lengths/vocabulary/{data}_seed{seed}",
            *(f"--task={data}", "--vocab_size=1000", files(data)[0]),
        )
        return [f"--task={data}", *form, f"--tokenizer={vocabulary}"]

    return add_stats(chain, dataclasses.replace(row, lengths=lengths), flags, files)


_ABOUT = (
    "Invented records in the form of the official files, as many as `training` and "
    "`dev` say (200 and 50), in a vocabulary of 1,000 that is learned from them. They "
    "are made short: this runs the commands, and says nothing about real lengths."
)
STUDIES = {
    "etc.table1": Study(_ABOUT, _lengths),
    "longformer.table6": Study(_ABOUT, _lengths),
}
