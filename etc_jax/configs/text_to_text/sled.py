"""SLED: BART or T5 on inputs of 16,384 tokens, by overlapping windows of the encoder.

    etc-jax train --config=sled --workdir=runs/sled \
        --config.checkpoint.init_from=bart-base \
        --config.data.paths="('train.jsonl',)" \
        --config.data.validation_paths="('dev.jsonl',)"

Ivgi et al. 2022, section 5.1 and appendix C: windows of 256 tokens, half of them
context, behind a prefix of 64 (`prefix` of a pair, such as its question); AdamW as it
comes, weight decay 0.01, linear, a tenth of the steps to warm up. The paper takes the
best of nine runs: learning rate 2e-5, 5e-5 or 1e-4, 8, 16 or 32 inputs at once. It
gives no figure for a run on one's own pairs. Without more this is the base BART;
variants are

    t5           T5 v1.1 in place of BART
    large        the large model in place of the base one
    short        4 layers of 128, windows of 64 and inputs of 1,024 tokens: for a laptop
    tiny         short, for 20 steps: to see that everything works

    one_token    windows of one token behind the prefix (section 4.3, c = 1)
    no_prefix    windows without the prefix, which is a window of its own (section 4.3)
    drop_prefix  the decoder does not read the prefix (section 4.3)
    no_overlap   windows without context (section 5.4, table 2)
"""

from etc_jax import config as config_lib
from etc_jax.configs.own_data import pairs

_ABLATIONS = {
    "one_token": {"window": 1},
    "no_prefix": {"prefix_in_windows": False},
    "drop_prefix": {"prefix_in_memory": False},
    "no_overlap": {"padding_share": 0.0},
}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    flags = ("t5", "large", "short", "tiny", *_ABLATIONS)
    chosen = config_lib.variants(arg, flags=flags)
    short = bool(chosen & {"short", "tiny"})
    backbone = ["t5" if "t5" in chosen else "bart", *chosen & {"large"}]
    config = pairs.get_config(",".join([*backbone, *["short"] * short]))
    window, prefix, length = (64, 16, 1024) if short else (256, 64, 16384)
    config.model.sled.update(
        window=window,
        prefix_length=prefix,
        input_length=length,
        # Of a long input some at a time, which bounds memory.
        windows_at_once=16,
    )
    for name in chosen & _ABLATIONS.keys():
        config.model.sled.update(_ABLATIONS[name])
    config.data.update(input_length=length, prefix_length=prefix)
    config.objective.update(packed=False, label_smoothing=0.0)
    config.optimizer.update(
        name="adamw", learning_rate=5e-5, b1=0.9, b2=0.999, eps=1e-8, weight_decay=0.01
    )
    config.train.update(num_steps=10_000, batch_size=16)
    config.schedule.update(name="linear", warmup_steps=1000)
    if short:
        config.optimizer.learning_rate = 1e-3
        config.schedule.warmup_steps = 100
    if "tiny" in chosen:
        pairs.make_tiny(config)
    return config
