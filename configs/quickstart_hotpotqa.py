"""The model of `configs/quickstart.py` on invented questions over three documents.

    python -m etc_jax.train --config=configs/quickstart_hotpotqa.py \
        --workdir=runs/mine \
        --config.checkpoint.init_from=runs/quickstart \
        --config.data.paths="('runs/quickstart/hotpotqa/train_1920',)" \
        --config.data.held_back_paths="('runs/quickstart/hotpotqa/dev_512',)"

`make quickstart` makes the data (launch/quickstart_hotpotqa.py),
and runs this and the same `:from_scratch`, which has no pre-training.
"""

from configs import quickstart
from etc_jax import config as config_lib


def get_config(arg: str = ""):
    """The config.

    `:tiny` trains 20 steps, to see that everything works; `:from_scratch` takes no
    parameters from another run.
    """
    chosen = config_lib.variants(arg, flags=("tiny", "from_scratch"))
    config = config_lib.default_config()
    config.model.update(quickstart.get_config().model.to_dict())
    config.objective.name = "hotpotqa"
    config.data.update(
        source="windows",
        vocab_size=config.model.vocab_size,
        long_length=160,
        global_length=44,
    )
    config.optimizer.update(learning_rate=1e-3, b2=0.98, weight_decay=0.01)
    config.schedule.update(name="linear", warmup_steps=20)
    config.train.update(
        num_steps=60,
        batch_size=32,
        log_every_steps=10,
        eval_every_steps=20,
        eval_steps=8,
    )
    config.checkpoint.update(every_steps=20, keep=1, init_from_only=("encoder",))
    if "tiny" in chosen:
        config.train.update(num_steps=20, log_every_steps=5, eval_every_steps=10)
        config.schedule.warmup_steps = 5
    if "from_scratch" in chosen:
        config.checkpoint.init_from_only = ()
    return config
