"""Longformer as a language model of bytes, in five stages (Beltagy et al. 2020).

    etc-jax train --config=longformer_charlm:stage1 \
        --workdir=runs/charlm1 --config.data.paths="('enwik8',)"
    etc-jax train --config=longformer_charlm:stage2 \
        --workdir=runs/charlm2 --config.data.paths="('enwik8',)" \
        --config.checkpoint.init_from=runs/charlm1

and so on to stage5, each from the one before; then, on the test part,

    python -m benchmarks overlapping_bits --model=runs/charlm5 --part=test

which predicts each byte once, in windows of 32,256 bytes of which the last 512 count.

The small model of the paper, 12 layers of 512, by its table 12. Windows grow from the
bottom layer to the top one; from stage to stage windows and sequences double (the last
sequences are of 23,040 bytes) and the learning rate halves. A layer's window is here
how many bytes a byte sees before it, so that model.attention_window, which counts both
sides, is twice that. Two heads of each upper layer see every second, third or fourth
byte. The paper tells the windows of the bottom and the top layer, 32 and 512 at first;
those between are chosen so that their mean is the 230 of its comparison. The large
model has 30 layers. The paper does not tell its windows: here each of the small model's
is that of two or three layers.

As in the paper's model, norms stand before the branches, and positions are products of
queries with maps of sines of offsets (Beltagy et al. 2020, section 4.1 and appendix;
not checked against the code). `short`, whose results are in docs/results, has norms
after the residuals and sines of absolute positions.

The paper reports, after all stages, 1.00 bits a byte on the test part of enwik8 and
1.10 on that of text8, and 16 days on four GPUs of 48 GB; 0.99 on that of enwik8 with
the large model. A step takes its rows in
parts of 16,384 bytes, or one row: on several devices divide train.accumulation_steps.

Variants:

    stage1, stage2, stage3, stage4, stage5
                        see above; without any, stage1
    short               4 layers of 128 for 1,024 bytes, 1,000 steps: for a laptop

    large               the model of 30 layers, with any of the stages

and, to be compared with each of these, as `etc-jax reproduce longformer.table4` does:

    fixed_window        the same window in all layers, of the mean width
    decreasing_window   the widest windows at the bottom
    no_dilation         all heads see every byte of their windows
"""

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from etc_jax import config as config_lib
from etc_jax.models.longformer.config import LongformerConfig

# Of the longest sequence that is evaluated.
MAX_LENGTH = 32_256
SCORED = 512
MICROBATCH_TOKENS = 16_384


class Size(NamedTuple):
    """A model.

    Attributes:
      fields: of `LongformerConfig`.
      windows: of each layer, in bytes before the one that looks.
      mean_window: of all layers, where they are alike.
      steps: from one byte of a window to the next, of the heads that skip some.
    """

    fields: dict[str, Any]
    windows: tuple[int, ...]
    mean_window: int
    steps: tuple[int, ...]


class Stage(NamedTuple):
    """A stage of training."""

    length: int
    batch_size: int
    num_steps: int


PAPER = Size(
    {
        "embed_dim": 512,
        "num_heads": 8,
        "mlp_dim": 2048,
        "dropout_rate": 0.2,
        "attention_dropout_rate": 0.0,
        "initializer_range": 0.044,
        "logits_chunk_length": 8192,
        "dtype": "bfloat16",
        "positions": "relative",
        "pre_norm": True,
    },
    windows=(32, 32, 64, 64, 128, 128, 256, 256, 256, 512, 512, 512),
    mean_window=230,
    steps=(1, 1, 1, 1, 1, 1, 2, 2, 3, 3, 4, 4),
)
SHORT = Size(
    {
        "embed_dim": 128,
        "num_heads": 4,
        "mlp_dim": 512,
        "dropout_rate": 0.0,
        "attention_dropout_rate": 0.0,
        "initializer_range": 0.088,
        "positions": "sinusoidal",
    },
    windows=(16, 32, 64, 128),
    mean_window=60,
    steps=(1, 1, 2, 3),
)
# So many layers have each window of the small model, one after the other.
LARGE_REPEATS = (3, 2) * 6
LARGE = PAPER._replace(
    windows=tuple(np.repeat(PAPER.windows, LARGE_REPEATS).tolist()),
    steps=tuple(np.repeat(PAPER.steps, LARGE_REPEATS).tolist()),
)
STAGES = {
    "stage1": Stage(2048, 32, 430_000),
    "stage2": Stage(4096, 32, 50_000),
    "stage3": Stage(8192, 16, 50_000),
    "stage4": Stage(16_384, 16, 35_000),
    "stage5": Stage(23_040, 16, 5_000),
}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(
        arg,
        (*STAGES, "short"),
        ("fixed_window", "decreasing_window"),
        flags=("no_dilation", "large"),
    )
    config = config_lib.default_config("longformer")
    config.objective.name = "causal_lm"
    config.data.update(source="bytes", vocab_size=256, scored_length=SCORED)
    config.optimizer.update(weight_decay=0.01, clip_norm=0.25)
    config.schedule.name = "constant"
    if "short" in chosen:
        model = _model(SHORT, 1, chosen)
        _train(config, Stage(1024, 4, 1000), learning_rate=1e-3)
        config.train.eval_every_steps = 250
    else:
        [number] = [i for i, name in enumerate(STAGES) if name in chosen] or [0]
        stage, growth = list(STAGES.values())[number], 2**number
        size = LARGE if "large" in chosen else PAPER
        model = _model(size, growth, chosen)
        _train(config, stage, learning_rate=2.5e-4 / growth)
        config.train.update(eval_every_steps=5000, eval_steps=100)
        config.train.accumulation_steps = min(
            stage.batch_size, stage.batch_size * stage.length // MICROBATCH_TOKENS
        )
        config.checkpoint.every_steps = 5000
        if number:
            # All there are; with them, a forgotten init_from is an error.
            config.checkpoint.init_from_only = ("encoder", "logits")
            config.checkpoint.init_from_changes = ("attention_window",)
    config.model.update(dataclasses.asdict(model))
    return config


def _model(size: Size, growth: int, chosen: set[str]) -> LongformerConfig:
    windows = size.windows
    if "fixed_window" in chosen:
        windows = (size.mean_window,) * len(windows)
    if "decreasing_window" in chosen:
        windows = windows[::-1]
    dilation = ()
    if "no_dilation" not in chosen:
        others = (1,) * (size.fields["num_heads"] - 2)
        dilation = tuple((step, step, *others) for step in size.steps)
    return LongformerConfig(
        **size.fields,
        vocab_size=256,
        num_layers=len(windows),
        max_length=MAX_LENGTH,
        attention_window=tuple(2 * growth * w for w in windows),
        attention_dilation=dilation,
        causal=True,
    )


def _train(config, stage: Stage, learning_rate: float) -> None:
    config.data.input_length = stage.length
    config.optimizer.learning_rate = learning_rate
    config.schedule.warmup_steps = min(stage.num_steps // 10, 10_000)
    config.train.update(num_steps=stage.num_steps, batch_size=stage.batch_size)
