"""Longformer on coreference (Beltagy et al. 2020, table 7; Joshi et al. 2019).

    etc-jax convert --hf=longformer-base-4096 --out=models/longformer
    etc-jax prepare --task=coreference --tokenizer=longformer-base-4096 \
        --out=caches/coref_train train.english.v4_gold_conll
    etc-jax prepare --task=coreference --tokenizer=longformer-base-4096 \
        --out=caches/coref_dev development.english.v4_gold_conll
    etc-jax train --config=longformer_coreference \
        --workdir=runs/coref --config.checkpoint.init_from=models/longformer \
        --config.data.paths="('caches/coref_train',)" \
        --config.data.validation_paths="('caches/coref_dev',)" \
        --config.data.validation_files="('development.english.v4_gold_conll',)"
    etc-jax evaluate --model=runs/coref --out=runs/coref/dev \
        development.english.v4_gold_conll

OntoNotes 5 with the columns of CoNLL-2012, which is under a licence, or LitBank, which
is free: `:litbank`, and `--singletons` for `etc-jax prepare`. In the paper, of the base
model on OntoNotes: average F1 78.6 (RoBERTa in parts of 512 tokens 78.4). Not trained
here at this size. No token is global. The encoder learns at 1e-5, the head at 1e-4
(Beltagy et al. 2020, appendix; not checked against the code), by `optimizer.groups`.
Epochs, batch and a warm-up of a tenth are a choice. The papers have higher-order
inference, speakers and genre besides, which are not here. Variants:

    ontonotes  2,802 documents, 30 epochs, the default
    litbank    80 documents (of 100, the others for evaluation), 60 epochs; what is
               mentioned once is an entity
    roberta    the baseline of that table: RoBERTa over parts of 512 tokens
               of a text of 4,096; init_from a RoBERTa that was converted
    short      4 layers of 128 for 512 tokens, windows of 64, without a model to start
               from, to see that everything works
"""

import dataclasses

from etc_jax import config as config_lib, recipes

ONTONOTES = recipes.FinetuningRecipe(
    "coreference", num_examples=2_802, epochs=30, batch_size=1, learning_rate=1e-4
)
SETTINGS = {
    "ontonotes": ONTONOTES,
    "litbank": dataclasses.replace(ONTONOTES, num_examples=80, epochs=60),
}
# Of the learning rate.
ENCODER_FACTOR = 0.1
# Of a mention, and places for all of them.
SHORT_OPTIONS = ("candidates=4096", "span_tokens=10")


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, tuple(SETTINGS), ("roberta", "short"))
    name = next((n for n in SETTINGS if n in chosen), "ontonotes")
    config = recipes.longformer(
        SETTINGS[name],
        chosen,
        global_length=1,
        short_global_length=1,
        best_metric="antecedent_accuracy" if "short" in chosen else "official_conll_f1",
        short_steps=400,
    )
    config.optimizer.clip_norm = 1.0
    options = SHORT_OPTIONS if "short" in chosen else ()
    if name == "litbank":
        options = (*options, "singletons=true")
    if "roberta" in chosen:
        config.data.input_length = 4096
        options = (*options, f"part_length={recipes.ROBERTA_LENGTH}")
    config.data.input_options = options
    if "short" not in chosen:
        config.optimizer.groups = (("encoder/.*", ENCODER_FACTOR),)
    else:
        config.objective.update(ffnn_dim=128, head_dropout_rate=0.0)
        config.train.batch_size = 8
    return config
