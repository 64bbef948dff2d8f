"""Tiny forms of Reformer's tables of duplicated sequences and of translation."""

from __future__ import annotations

from collections.abc import Mapping

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row, find, variants_of
from etc_jax.papers.tiny.steps import changes, scored, trained

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


# --- translation ----------------------------------------------------------------------

_TRANSLATION = "reformer.table4"
_WORDS = 256  # 106 special tokens, and every word of both languages
# Of the paper's steps, to one here: 100K are 200.
_STEPS_EACH = 500
_UNSHARED = {"model.shared_table": False, "model.tied_logits": False}
_BIG = {
    **{"model.embed_dim": 128, "model.mlp_dim": 256, "model.num_heads": 8},
    "model.initializer_range": 128**-0.5,
}
# Variant of the config -> thousands of steps in the paper, and what it changes.
_SIZES = {"": (100, {}), "500k": (500, _UNSHARED), "big": (300, _UNSHARED | _BIG)}


def _translation(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured] | None:
    """A run on invented pairs."""
    if not row.runs:
        return None
    files = {"train": 20_000, "newstest2013": 500, "newstest2014": 500}
    folders = (
        chain.do(
            *("synthetic", f"reformer/{split}", "--task=wmt14_en_de"),
            *(f"--split={split}", f"--count={count}", f"--seed={number}"),
        )
        for number, (split, count) in enumerate(files.items())
    )
    train, dev, test = (
        f"{folder}/{split}.en" for folder, split in zip(folders, files, strict=True)
    )
    read = "--task=wmt14_en_de", "--input_length=32", "--target_length=32"
    learn = f"--vocab_size={_WORDS}", "--whole_words", "--cased"
    inputs = chain.do("prepare", "reformer/inputs", *read, *learn, train)
    checked = chain.do(
        "prepare", "reformer/dev_inputs", *read, f"--tokenizer={inputs}", dev
    )
    (variant,) = variants_of(row.runs["wmt14_en_de"]) or [""]
    thousands, fields = _SIZES[variant]
    fields = fields | {
        **{"data.paths": (inputs,), "data.validation_paths": (checked,)},
        **{"model.vocab_size": _WORDS, "data.vocab_size": _WORDS},
        **{"train.batch_size": 64, "optimizer.learning_rate": 2e-3},
    }
    steps = thousands * 1000 // _STEPS_EACH
    name = f"reformer/translation_{variant or 'base'}"
    flags = changes(fields)
    run = trained(chain, name, "reformer_wmt14:short", seed, steps, *flags)
    return scored(chain, run, _TRANSLATION, "wmt14_en_de", test)


STUDIES = {
    _TABLE: Study(
        f"Sequences 0w0w of {_LENGTH} symbols of 127 kinds, an eighth of the paper's "
        f"length; one layer of 64, 32 buckets, chunks of 16; {_STEPS} steps of 16 "
        "sequences. Percent of the symbols of the second w that are predicted, over "
        "512 new sequences.",
        _duplication,
    ),
    _TRANSLATION: Study(
        "20,000 invented sentences and their German, of 150 words in all, in WMT's "
        "files: verbs at the end, articles and adjectives by gender and case. 2 + 2 "
        f"layers of 64, or of 128 (big); {_STEPS_EACH} of the paper's steps are one of "
        "64 pairs. BLEU of 500 other sentences, by beam search.",
        _translation,
    ),
}
