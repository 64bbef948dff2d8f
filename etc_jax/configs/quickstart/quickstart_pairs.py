"""A very small BART on invented pairs of texts: words, and the same words backwards.

    etc-jax train --config=quickstart_pairs --workdir=runs/mine \
        --config.data.paths="('caches/train',)" \
        --config.data.validation_paths="('caches/dev',)"

The caches are of `etc-jax prepare --task=text_to_text`, with the quickstart's
tokenizer: the README has the commands. An evaluation writes by beam search.
"""

from etc_jax import config as config_lib
from etc_jax.configs.quickstart import quickstart

# Small enough to learn from scratch in minutes on a CPU.
MODEL = {
    "embed_dim": 128,
    "num_heads": 4,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "mlp_dim": 256,
    "max_length": 64,
    "dropout_rate": 0.0,
    # That of BART is for widths of 768: narrow layers would hardly begin to learn.
    "initializer_range": 0.1,
    # Those of the quickstart's tokenizer, BERT's: a text begins with [CLS] and ends
    # with [SEP].
    "pad_id": 0,
    "decoder_start_id": 101,
    "eos_id": 102,
    "forced_bos_id": None,
    "forced_eos_id": 102,
}


def get_config(arg: str = ""):
    """The config. `:tiny` trains 20 steps, to see that everything works."""
    chosen = config_lib.variants(arg, flags=("tiny",))
    config = config_lib.default_config(
        "bart", objective="text_to_text", source="windows"
    )
    vocab_size = quickstart.get_config().model.vocab_size
    config.model.update(MODEL, vocab_size=vocab_size)
    config.objective.generation.num_beams = 4
    config.data.update(vocab_size=vocab_size, input_length=32, target_length=32)
    config.optimizer.update(learning_rate=1e-3, b2=0.98)
    config.schedule.warmup_steps = 50
    config.train.update(
        num_steps=800,
        batch_size=64,
        log_every_steps=50,
        eval_every_steps=200,
        eval_steps=8,
    )
    config.checkpoint.update(every_steps=400, keep=1)
    if "tiny" in chosen:
        config.train.update(num_steps=20, log_every_steps=5, eval_every_steps=10)
        config.schedule.warmup_steps = 5
    return config
