"""Longformer on coreference (Beltagy et al. 2020, table 8; Joshi et al. 2019).

    python -m etc_jax.convert --hf=longformer-base-4096 --out=models/longformer
    python -m tasks.prepare --task=coreference --tokenizer=longformer-base-4096 \
        --out=caches/coref_train train.english.v4_gold_conll
    python -m tasks.prepare --task=coreference --tokenizer=longformer-base-4096 \
        --out=caches/coref_dev development.english.v4_gold_conll
    python -m etc_jax.train --config=configs/longformer_coreference.py \
        --workdir=runs/coref --config.checkpoint.init_from=models/longformer \
        --config.data.paths="('caches/coref_train',)" \
        --config.data.held_back_paths="('caches/coref_dev',)"
    python -m etc_jax.evaluate --model=runs/coref --out=runs/coref/dev \
        development.english.v4_gold_conll

OntoNotes 5 with the columns of CoNLL-2012, which is under a licence, or LitBank, which
is free: `:litbank`, and `--singletons` for `tasks.prepare`. In the paper, of the base
model on OntoNotes: average F1 78.6 (RoBERTa in parts of 512 tokens 78.4). Not trained
here at this size. No token is global. Epochs, batch and learning rate are a guess
within what is usual: the papers have a rate of its own for the head, and higher-order
inference, speakers and genre besides, which are not here. Variants:

    ontonotes  2,802 documents, 30 epochs, the default
    litbank    80 documents (of 100, the others for evaluation), 60 epochs; what is
               mentioned once is an entity
    short      2 layers of 64 for 512 tokens, windows of 64, without a model to start
               from, to see that everything works
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax import recipes
from etc_jax.models.encoder_config import LongformerConfig

ONTONOTES = recipes.Finetuning(
    "coreference", num_examples=2_802, epochs=30, batch_size=1, learning_rate=3e-5
)
SETTINGS = {
    "ontonotes": ONTONOTES,
    "litbank": dataclasses.replace(ONTONOTES, num_examples=80, epochs=60),
}
SHORT = {
    "vocab_size": 8192,
    "embed_dim": 64,
    "num_layers": 2,
    "num_heads": 2,
    "mlp_dim": 128,
    "max_length": 512,
    "attention_window": (64,),
    "dropout_rate": 0.0,
    "initializer_range": 0.1,
}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, tuple(SETTINGS), flags=("short",))
    name = next((n for n in SETTINGS if n in chosen), "ontonotes")
    short = "short" in chosen
    large = {"dtype": "bfloat16", "remat_policy": "attention"}
    model = LongformerConfig(**(SHORT if short else large))
    config = SETTINGS[name].config(
        model, long_length=model.max_length, global_length=1, family="longformer"
    )
    config.objective.singletons = name == "litbank"
    if config.objective.singletons:
        config.data.input_options = ("singletons=true",)
    config.optimizer.weight_decay = 0.01
    config.optimizer.clip_norm = 1.0
    config.checkpoint.update(best_metric="antecedent_accuracy", best_is="highest")
    if short:
        config.objective.update(ffnn_dim=128, head_dropout_rate=0.0, span_tokens=10)
        options = config.data.input_options
        more = ("candidates=4096", "span_tokens=10")
        config.data.input_options = tuple(sorted((*options, *more)))
        config.optimizer.learning_rate = 1e-3
        config.schedule.warmup_steps = 20
        config.train.update(
            num_steps=400, batch_size=8, log_every_steps=20, eval_every_steps=100
        )
        config.checkpoint.update(every_steps=100, init_from_only=())
    return config
