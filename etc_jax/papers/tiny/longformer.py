"""Tiny forms of Longformer's tables of windows and of positions."""

from __future__ import annotations

import pydoc_data.topics
from collections.abc import Mapping

from etc_jax.papers.chain import Chain, Measured
from etc_jax.papers.study import Study
from etc_jax.papers.table import Row, find, variants_of
from etc_jax.papers.tiny.steps import changes, trained

# Prose that comes with Python: 0.7 MB, as literals of its source, so 46 % are spaces.
_TEXT = {"data.paths": (pydoc_data.topics.__file__,)}
_SIZES = {"model.embed_dim": 64, "model.mlp_dim": 128, "optimizer.clip_norm": 1.0}


# --- windows --------------------------------------------------------------------------


def _windows(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """The config of the row, short."""
    config = row.runs["text8"].replace("stage1", "short")
    name = f"longformer/{config.replace(':', '_').replace(',', '_')}"
    fields = {"train.batch_size": 2, "optimizer.learning_rate": 3e-3}
    flags = changes(_TEXT | _SIZES | fields)
    run = trained(chain, name, config, seed, 300, *flags)
    metric = find("longformer.table4").measured["dev_bpc"]
    return {"dev_bpc": metric.at(chain.name_of(run), "evaluation")}


# --- positions ------------------------------------------------------------------------

# Bytes of the RoBERTa and of the Longformer, as their short configs have them: among
# more a small RoBERTa takes millions of bytes to find that the next ones tell most.
_SHORT, _LONG = 32, 512
_MODEL = _SIZES | {"model.num_layers": 2, "model.initializer_range": 0.05}
_TOKENS = 2048  # of a step, at every length
_SHORT_STEPS = 800
# The paper's 65K steps are so many, and its 2K are a quarter of them.
_STEPS = 300


def _roberta(chain: Chain) -> str:
    """A RoBERTa of bytes, of one seed."""
    fields = {
        **_MODEL,
        "train.batch_size": _TOKENS // _SHORT,
        "optimizer.learning_rate": 5e-3,
    }
    config, flags = "longformer_mlm:short,roberta,bytes", changes(_TEXT | fields)
    return trained(chain, "longformer/roberta", config, 0, _SHORT_STEPS, *flags)


def _positions(chain: Chain, row: Row, seed: int) -> Mapping[str, Measured]:
    """The RoBERTa, or what it is made of; as it is, or after more steps."""
    start, length, name = _roberta(chain), _SHORT, "longformer/roberta"
    command, *words = row.start["texts"]
    if command == "extend":
        words = [x for x in words if x.startswith("--positions=")]
        name = f"longformer/{'new' if words else 'copied'}_positions"
        length = _LONG
        start = chain.do(
            command,
            f"{name}_seed{seed}",
            *(f"--from={start}", "--to=longformer", f"--seed={seed}"),
            *(f"--max_length={length}", f"--window={_SHORT}", *words),
        )
    variants = variants_of(row.runs["texts"])
    steps = 0 if "as_it_is" in variants else _STEPS
    variants = [*(x for x in variants if x != "65k"), "short", "bytes"]
    fields = {
        **_MODEL,
        **({"model.attention_window": (_SHORT,)} if length == _LONG else {}),
        "train.batch_size": _TOKENS // length,
        "checkpoint.init_from": start,
    }
    run = trained(
        chain,
        f"{name}_{'_'.join(variants)}",
        f"longformer_mlm:{','.join(variants)}",
        seed,
        steps,
        *changes(_TEXT | fields),
    )
    metric = find("longformer.table5").measured["base"]
    step = row.step and steps // 4
    return {"base": metric.at(chain.name_of(run), "evaluation", step)}


STUDIES = {
    "longformer.table4": Study(
        "Bytes of the documentation that comes with Python (pydoc_data.topics, 46 % of "
        "which are spaces), 5 % held back; 4 layers of 64 whose windows are 16, 32, 64 "
        "and 128 bytes, or 60; 300 steps of 2 x 1,024 bytes. Bits compare with each "
        "other alone.",
        _windows,
    ),
    "longformer.table5": Study(
        "Masked bytes of the documentation that comes with Python (pydoc_data.topics, "
        "46 % of which are spaces), 5 % held back. A RoBERTa of 2 layers of 64 for "
        f"{_SHORT} bytes, of one seed and {_SHORT_STEPS} steps, is made a Longformer "
        f"of {_LONG} positions with windows of {_SHORT}. The paper's 65K steps are "
        f"{_STEPS} here, its 2K are {_STEPS // 4}, of {_TOKENS:,} bytes. Seeds are of "
        "what begins at random, masks and order. Bits compare with each other alone.",
        _positions,
    ),
}
