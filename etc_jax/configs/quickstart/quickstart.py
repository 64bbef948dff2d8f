"""A small ETC, pre-trained with MLM + CPC on the documentation that Python brings.

    etc-jax train --config=quickstart --workdir=runs/quickstart

Made for a laptop without a network: `make quickstart` runs it, stops it half-way and
resumes it.
"""

from etc_jax import config as config_lib


def get_config(arg: str = ""):
    """The config.

    `:tiny` trains 20 steps, to see that everything works; `:no_cpc` masks words alone,
    for comparison.
    """
    chosen = config_lib.variants(arg, flags=("tiny", "no_cpc"))
    config = config_lib.default_config()
    config.model.update(
        vocab_size=4096,
        num_types=16,
        embed_dim=192,
        num_layers=3,
        num_heads=3,
        mlp_dim=768,
        radius=32,
        max_distance=12,
        num_labels=32,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
    )
    config.data.update(vocab_size=4096, long_length=512, global_length=64)
    config.optimizer.update(learning_rate=1e-3, weight_decay=0.01)
    config.schedule.update(name="linear", warmup_steps=60)
    config.train.update(
        num_steps=350,
        batch_size=8,
        log_every_steps=10,
        eval_every_steps=100,
    )
    config.checkpoint.every_steps = 100
    if "tiny" in chosen:
        config.train.update(num_steps=20, log_every_steps=5, eval_every_steps=20)
        config.schedule.warmup_steps = 0.25
    if "no_cpc" in chosen:
        config.objective.update(mlm_weight=1.0, cpc_weight=0.0)
    return config
