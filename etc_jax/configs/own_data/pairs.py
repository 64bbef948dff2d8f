"""An encoder-decoder on one's own pairs of texts: summaries, answers, translations.

    etc-jax train --config=pairs --workdir=runs/pairs \
        --config.checkpoint.init_from=led-base-16384 \
        --config.data.paths="('train.jsonl',)" \
        --config.data.validation_paths="('dev.jsonl',)"

Files have a JSON object a line with `input` and `target`. Inputs are cut to what the
model reads, targets to 512 tokens; `data.input_length` and `data.target_length` change
that. One of

    (none)    LED (Beltagy et al. 2020, section 7): 16,384 tokens, the first one global
    bart      BART (Lewis et al. 2020): 1,024 tokens
    t5        T5 v1.1: 512 tokens
    long_t5   LongT5 (Guo et al. 2022), with sums of blocks: 16,384 tokens
    reformer  Reformer (Kitaev et al. 2020), both sides reversible: 16,384 tokens. There
              are no weights to begin with

and

    large     the large model in place of the base one; of Reformer there is one size
    short     4 layers of 128 for 512 tokens: for a laptop, from random weights

Sizes and vocabulary are those of the model in `init_from`; from random weights,
`data.tokenizer` names the vocabulary.

BART and LED: AdamW, 3e-5 after 500 steps, then linearly down, label smoothing 0.1. T5
and LongT5: Adafactor, 1e-3 throughout (Raffel et al. 2020, section 3.1.3). Reformer:
AdamW, 1e-3 after 4,000 steps, then down with the root of the step. Batch size and the
number of steps are a choice, for they depend on the data.

Evaluations give the loss alone. Texts that are to be written and scored, such as by
ROUGE, are prepared first (`etc-jax prepare --task=text_to_text`) and learnt with
`--config=led`, `sled`, `bart_ls` or `long_t5`, whose settings are those of papers;
`sled:truncated` has the baselines of SLED's table 1, BART and T5 on 1,024 tokens.
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.models.family import sizes as model_sizes
from etc_jax.models.reformer.seq2seq import ReformerSeq2SeqConfig
from etc_jax.recipes.text_to_text import SHORT, SHORT_TOO

FAMILIES = ("bart", "led", "t5", "long_t5", "reformer")
# Names of sizes, without the size.
_SIZED = {"t5": "t5_v11", "long_t5": "long_t5_tglobal"}
_REFORMER = {"reformer": {"axial_shape": (16, 32), "max_target_length": 128}}


def _model(family: str, chosen: set[str]):
    """(its family's name in the library, the config)."""
    size = "large" if "large" in chosen else "base"
    if family == "reformer":
        name, model = "reformer_seq2seq", ReformerSeq2SeqConfig(vocab_size=32128)
    else:
        name, model = family, model_sizes()[f"{_SIZED.get(family, family)}_{size}"]
    changes = {"logits_chunk_length": 512}
    if "short" in chosen:
        return name, dataclasses.replace(
            model, **changes, **SHORT, **(SHORT_TOO | _REFORMER).get(family, {})
        )
    if family != "reformer":
        changes["remat_policy"] = "full"
    return name, dataclasses.replace(model, **changes, dtype="bfloat16")


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, FAMILIES, ("large", "short"))
    (family,) = chosen & set(FAMILIES) or {"led"}
    if {"reformer", "large"} <= chosen:
        raise ValueError("the variants reformer, large exclude each other")
    name, model = _model(family, chosen)
    config = config_lib.default_config(name, objective="seq2seq", source="pairs")
    config.model.update(dataclasses.asdict(model))
    if family in ("bart", "led"):
        config.optimizer.update(learning_rate=3e-5, b2=0.999, weight_decay=0.01)
        config.schedule.update(name="linear", warmup_steps=500)
        config.objective.label_smoothing = 0.1
    elif family == "reformer":
        config.optimizer.update(learning_rate=1e-3, b2=0.98)
        config.schedule.update(name="inverse_sqrt", warmup_steps=4000)
    else:
        config.optimizer.update(name="adafactor", learning_rate=1e-3)
        config.schedule.update(name="constant", warmup_steps=0)
    if family == "led":
        config.objective.global_tokens = 1
    if "short" in chosen:
        config.optimizer.learning_rate = 1e-3
        config.schedule.warmup_steps = 100
    config.train.update(num_steps=10_000, batch_size=32, eval_every_steps=1000)
    config.data.update(
        begin_token=family in ("bart", "led"),
        vocab_size=model.vocab_size,
        input_length=model.max_length,
        target_length=min(512, model.max_target_length),
    )
    return config
