"""Tiny form of Reformer's table of duplicated sequences."""

from __future__ import annotations

from collections.abc import Mapping

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row, find
from etc_jax.papers.tiny.steps import changes, trained

_TABLE = "reformer.table2"
# Eight chunks of 16, where the paper has 16 of 64.
_LENGTH, _STEPS = 128, 300


def _duplication(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """A run, and one of no steps for each attention of evaluation."""

    def run(variants: str, name: str, steps: int, fields: Mapping[str, object]) -> str:
        values = {"model.max_length": _LENGTH, "data.input_length": _LENGTH}
        # Rotations differ from seed to seed, as rows do.
        values |= {"model.hash_seed": seed, **fields}
        if "full" in variants.split(","):
            values["model.lsh_chunk_length"] = _LENGTH
        config = f"reformer_duplication:{variants},short"
        return trained(chain, name, config, seed, steps, *changes(values))

    ((_, config),) = row.start.values()
    attention, name = _variants(config), f"reformer/duplication_{_variants(config)}"
    fields = {"train.batch_size": 16, "optimizer.learning_rate": 2e-3}
    start = {"checkpoint.init_from": run(attention, name, _STEPS, fields)}
    measured = {}
    for column, metric in find(_TABLE).measured.items():
        out = run(_variants(row.runs[column]), f"{name}_by_{column}", 0, start)
        measured[column] = metric.at(chain.name_of(out), "evaluation")
    return measured


def _variants(config: str) -> str:
    return config.rpartition(":")[2]


STUDIES = {
    _TABLE: Study(
        f"Sequences 0w0w of {_LENGTH} symbols of 127 kinds, an eighth of the paper's "
        f"length; one layer of 64, 32 buckets, chunks of 16; {_STEPS} steps of 16 "
        "sequences. Percent of the symbols of the second w that are predicted, over "
        "512 new sequences.",
        _duplication,
    )
}
