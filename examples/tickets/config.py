"""A very small Longformer on tickets; `:etc` for a very small ETC.

The commands are in examples/README.md.
"""

from etc_jax import config as config_lib

SMALL = {
    "vocab_size": 240,
    "embed_dim": 64,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 128,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    "initializer_range": 0.1,
}


def get_config(arg: str = ""):
    """The config."""
    family = "etc" if config_lib.variants(arg, flags=("etc",)) else "longformer"
    config = config_lib.default_config(family)
    config.model.update(SMALL)
    config.model.update(
        {"radius": 16, "max_distance": 12, "num_labels": 32}
        if family == "etc"
        else {"max_length": 64, "attention_window": (16,)}
    )
    config.objective.name = "tickets.urgency"
    config.data.update(
        source="windows",
        paths=(f"made/train_{family}",),
        validation_paths=(f"made/dev_{family}",),
        validation_files=("made/dev.jsonl",),
        vocab_size=240,
    )
    lengths = {"etc": {"long_length": 64, "global_length": 8}}
    lengths["longformer"] = {"input_length": 64, "global_length": 1}
    config.data.update(lengths[family])
    config.optimizer.learning_rate = 1e-3
    config.schedule.warmup_steps = 20
    config.train.update(
        num_steps=200, batch_size=32, log_every_steps=20, eval_every_steps=50
    )
    config.checkpoint.update(every_steps=50, keep=1)
    return config
