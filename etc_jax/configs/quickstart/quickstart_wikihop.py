"""A very small ETC on invented questions of WikiHop's form, with structure or flat.

    etc-jax train --config=quickstart_wikihop \
        --workdir=runs/mine \
        --config.data.paths="('runs/quickstart/questions/train',)" \
        --config.data.validation_paths="('runs/quickstart/questions/dev',)"

`make quickstart` makes the data, and runs this and the same `:flat`.
"""

from etc_jax import config as config_lib
from etc_jax.configs.quickstart import quickstart

# Small enough to learn from scratch in minutes on a CPU.
MODEL = {
    "num_types": 16,
    "embed_dim": 64,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 128,
    "radius": 16,
    "max_distance": 12,
    "num_labels": 32,
    "dropout_rate": 0.0,
    "attention_dropout_rate": 0.0,
    # That of BERT is for widths of 768: narrow layers would hardly begin to learn.
    "initializer_range": 0.1,
}


def get_config(arg: str = ""):
    """The config.

    `:flat` is the ablation without structure (paper, section 4.2): one sequence, in
    which no word is linked to what it belongs to. `:tiny` trains 20 steps, to see that
    everything works.
    """
    chosen = config_lib.variants(arg, flags=("tiny", "flat"))
    config = config_lib.default_config()
    config.model.update(
        MODEL,
        vocab_size=quickstart.get_config().model.vocab_size,
        # The dense form is the quickest for inputs as short as these.
        attention="dense",
    )
    config.objective.name = "wikihop"
    config.data.update(
        source="windows",
        flat="flat" in chosen,
        vocab_size=config.model.vocab_size,
        long_length=256,
        global_length=40,
    )
    config.optimizer.update(learning_rate=1e-3, b2=0.98)
    config.schedule.warmup_steps = 20
    config.train.update(
        num_steps=200,
        batch_size=32,
        log_every_steps=10,
        eval_every_steps=25,
        eval_steps=8,
    )
    config.checkpoint.update(every_steps=100, keep=1)
    if "tiny" in chosen:
        config.train.update(num_steps=20, log_every_steps=5, eval_every_steps=10)
        config.schedule.warmup_steps = 5
    return config
