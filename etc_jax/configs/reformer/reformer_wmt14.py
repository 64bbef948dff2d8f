"""Reversible Transformers on WMT14 English-German (Kitaev et al. 2020, table 4).

    etc-jax prepare --task=wmt14_en_de --tokenizer=spiece.model \
        --input_length=128 --target_length=128 --out=prepared/train ...
    etc-jax train --config=reformer_wmt14 --workdir=runs/wmt14 \
        --config.data.paths="('prepared/train',)" \
        --config.data.validation_paths="('prepared/dev',)"
    etc-jax generate --model=runs/wmt14 --inputs=newstest2014.en \
        --num_beams=4 --length_penalty=0.6 --dialect=t5x --num_tokens=146

BLEU of newstest2014 in the paper, which has not been trained here: as printed first,
then by sacreBLEU, uncased and cased. Variants:

    (none)    base, 100,000 steps                          27.6   27.4   26.9
    500k      base, 500,000 steps, no weight sharing       28.0   27.9   27.4
    big       big, 300,000 steps, no weight sharing        29.1   28.9   28.4
    short     2 layers of 64 for 32 tokens, 500 steps: for a laptop

From the Reformer's paper: both stacks are reversible; LSH attention is not used, as the
sentences of the test set are shorter than 128 tokens (section 5), so each token sees
all others; the numbers of steps; what is not shared (table 4), which is the two token
tables and the matrix of the logits. It follows Vaswani et al. 2017 otherwise.

From Vaswani et al. 2017: 6 + 6 layers of width 512, feed-forward 2048, 8 heads, dropout
0.1, or 1024, 4096, 16 and 0.3 (table 3); sinusoidal positions, and rows of the token
table times the root of the width (3.4, 3.5); where tables are shared, the logits have
them too (3.4); Adam with 0.9, 0.98 and 1e-9, a peak of 1 / sqrt(width * 4,000) after
4,000 steps, then down with the root of the step (5.3); dropout of each half and of
embeddings (5.4); label smoothing 0.1; 37,000 pieces in one vocabulary for both
languages; batches of about 25,000 tokens of each language (5.1), here 832 pairs of
about 30; beams and length penalty (6.1).

Of trax, the paper's code: norms before each half, no biases of projections, the mean of
the streams at the end. Its reformer_wmt_ende.gin has a warm-up of 8,000 steps, which
are not those of Vaswani et al., and 33,300 pieces; its big model has twice the learning
rate of this formula and dropout of 0.1 within the feed-forward half. Dropout there is
0.3 here, as elsewhere in the big model.

A choice: weights begin with a standard deviation of 1 / sqrt(width); gradients are
clipped to 1; bfloat16. Sines stand before cosines, which is another order of features
and no more. `objective.name` may be another data set of texts to be written, such as
text_to_text.
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.models.reformer.seq2seq import ReformerSeq2SeqConfig

DATA_SET = "wmt14_en_de"
# Tokens of a sentence, in training and at most.
LENGTH, LONGEST = 128, 256
WARMUP_STEPS = 4000
BASE = ReformerSeq2SeqConfig(
    vocab_size=37_000,
    embed_dim=512,
    num_layers=6,
    num_decoder_layers=6,
    num_heads=8,
    mlp_dim=2048,
    dropout_rate=0.1,
    max_length=LONGEST,
    max_target_length=LONGEST,
    positions="sinusoidal",
    axial_shape=None,
    # A sequence of one chunk is attended whole.
    pattern=("local",),
    decoder_pattern=("local",),
    local_chunk_length=LONGEST,
    initializer_range=512**-0.5,
    logits_chunk_length=32,
    dtype="bfloat16",
)
UNSHARED = {"shared_table": False, "tied_logits": False}
BIG = {
    "embed_dim": 1024,
    "num_heads": 16,
    "mlp_dim": 4096,
    "dropout_rate": 0.3,
    "initializer_range": 1024**-0.5,
}
SHORT = {
    "vocab_size": 1024,
    "embed_dim": 64,
    "num_layers": 2,
    "num_decoder_layers": 2,
    "num_heads": 4,
    "mlp_dim": 128,
    "initializer_range": 64**-0.5,
    "dtype": "float32",
}
# What a variant changes of the model, and its steps.
VARIANTS = {
    "": ({}, 100_000),
    "500k": (UNSHARED, 500_000),
    "big": ({**UNSHARED, **BIG}, 300_000),
    "short": (SHORT, 500),
}


def get_config(arg: str = ""):
    """The config of a variant; see the module."""
    chosen = config_lib.variants(arg, ("500k", "big", "short"))
    (name,) = chosen or {""}
    changes, num_steps = VARIANTS[name]
    model = dataclasses.replace(BASE, **changes)
    warmup = 100 if name == "short" else WARMUP_STEPS
    config = config_lib.default_config("reformer_seq2seq", source="windows")
    config.model.update(dataclasses.asdict(model))
    config.objective.update(name=DATA_SET, label_smoothing=0.1)
    config.data.update(
        format="text_to_text",
        vocab_size=model.vocab_size,
        input_length=32 if name == "short" else LENGTH,
        target_length=32 if name == "short" else LENGTH,
    )
    config.optimizer.update(
        name="adamw",
        learning_rate=(model.embed_dim * warmup) ** -0.5,
        b1=0.9,
        b2=0.98,
        eps=1e-9,
        weight_decay=0.0,
    )
    config.schedule.update(name="inverse_sqrt", warmup_steps=warmup)
    config.train.update(
        num_steps=num_steps,
        batch_size=32 if name == "short" else 832,
        log_every_steps=100,
        eval_every_steps=100 if name == "short" else 5000,
    )
    return config
