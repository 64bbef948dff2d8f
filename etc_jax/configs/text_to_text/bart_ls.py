"""BART-LS: a BART for 16,384 tokens, with attention in blocks and to averages.

    etc-jax convert --fairseq=model_100k.pt --out=models/bart_ls
    etc-jax train --config=bart_ls --workdir=runs/bart_ls \
        --config.checkpoint.init_from=models/bart_ls \
        --config.data.tokenizer=bart-large \
        --config.data.paths="('train.jsonl',)" \
        --config.data.validation_paths="('dev.jsonl',)"

Xiong et al. 2022, section 3.1 and table 8: Adam, 64 inputs at once, 200 steps to warm
up, then linearly down, label smoothing 0.1; the paper looks for the best learning rate
of a grid for each data set, 3e-5 to 4e-4. A `prefix` of a pair, such as its question,
is repeated at the start of each block of 1,024 tokens, cut to 64.

Without more this is the large model of the paper. Its table 1 compares base models that
were not trained on long texts, each of which is a variant here:

    base        attention in blocks and, in the last layers, to averages: ROUGE-1 61.0
                on GovReport and 35.9 on QMSum, F1 30.6 on Qasper
    base,blocks    blocks alone: 60.5, 35.2, 28.0
    base,overlap   blocks that overlap: 60.6, 34.8, 28.0
    base,globals   64 global tokens in each block: 60.3, 35.4, 29.8

and

    r3f         predictions that noise on the input leaves alone (Aghajanyan et al.
                2021), as in the authors' runs on QMSum and, if wanted, on questions: a
                step takes twice as long. The weight, 1, is the 0.01 of their code for
                targets of 100 tokens, about those of QMSum (`objectives/r3f.py`);
                `objective.r3f.weight` is less where answers are short
    short       4 layers of 128, blocks of 128 and inputs of 1,024 tokens: for a laptop
    tiny        short, for 20 steps: to see that everything works
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.configs.own_data import pairs
from etc_jax.models.family import sizes as model_sizes

_ROWS = {
    "blocks": {"pooling_layers": 0},
    "overlap": {"pooling_layers": 0, "overlap": True},
    "globals": {"pooling_layers": 0, "num_globals": 64},
}
_SHORT = pairs.SHORT | {
    "max_length": 1024,
    "max_target_length": 128,
    "block_size": 128,
    "pooling_layers": 2,
}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    flags = ("base", "r3f", "short", "tiny")
    chosen = config_lib.variants(arg, tuple(_ROWS), flags=flags)
    model = model_sizes()["bart_ls_base" if "base" in chosen else "bart_ls_large"]
    short = bool(chosen & {"short", "tiny"})
    changes = dict(_SHORT) if short else {"dtype": "bfloat16", "remat_policy": "full"}
    for name in chosen & _ROWS.keys():
        changes |= _ROWS[name]
    if short and "globals" in chosen:
        changes["num_globals"] = 8
    model = dataclasses.replace(model, **changes, logits_chunk_length=512)
    config = config_lib.default_config("bart_ls", objective="seq2seq", source="pairs")
    config.model.update(dataclasses.asdict(model))
    config.objective.update(packed=False, label_smoothing=0.1)
    if "r3f" in chosen:
        config.objective.r3f.weight = 1.0
    config.data.update(
        begin_token=True,
        vocab_size=model.vocab_size,
        input_length=model.max_length,
        target_length=min(1024, model.max_target_length),
        prefix_length=16 if short else 64,
        prefix_every=model.block_size,
    )
    config.optimizer.update(
        learning_rate=1e-3 if short else 1e-4, b2=0.999, eps=1e-6, weight_decay=0.01
    )
    config.schedule.update(name="linear", warmup_steps=200)
    config.train.update(num_steps=10_000, batch_size=64, eval_every_steps=1000)
    if "tiny" in chosen:
        pairs.make_tiny(config)
    return config
