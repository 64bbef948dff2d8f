"""Pre-training of an encoder-decoder: to write what is missing from long texts.

    etc-jax extend --from=models/bart --to=bart_ls \
        --max_length=16384 --out=models/bart_ls
    etc-jax train --config=denoising --workdir=runs/denoising \
        --config.checkpoint.init_from=models/bart_ls \
        --config.data.source=cache --config.data.paths="('CACHE',)" \
        --config.data.validation_paths="('VALIDATION',)"

Xiong et al. 2022, sections 2.3 and 3.4 and appendix A: the large BART-LS, 256 texts of
16,384 tokens at once, of which 1,024 are missing, learning rate 1e-4 after 500 steps,
then down by a polynomial, whose power it does not give (1 here, fairseq's), weight
decay 0.01, seed 42; the released model took 100,000 steps. Not in the paper, but in the
authors' code: Adam's 0.9, 0.98 and 1e-6, gradients clipped to 0.1, and the mean lengths
of spans, of which each text has one: 4, 8 or 12 tokens.
Documents of any length are concatenated at random, in another order in each epoch, and
cut where a text is full. Sentinels are the 341 rows of the table after BART's
vocabulary, unless the vocabulary has <extra_id_0> and so on.
Variants, of which the paper's table 3 has base models (ROUGE-1 on QMSum, F1 on Qasper
after fine-tuning):

    base       the base model: 37.0 and 35.4 (35.9 and 30.6 without pre-training)
    average5   spans of 5 tokens on average: 37.0 and 34.6
    8k         8,192 tokens, an eighth of them missing, 512 at once; with average5 36.7
               and 32.9
    fixed3     spans of 3 tokens on average, the other choice of the authors' code
    gaps       principal sentences in place of spans (Zhang et al. 2020): 37.4 and 34.4
    model_based
               of candidate spans with 5,120 tokens, the fifth that a masked language
               model predicts worst: 37.0 and 32.5. This generator, 6 layers with
               windows of 512 and without dropout, is trained along, from random weights
               unless objective.generator_init_from is given. The paper does not say how
               long its spans are: they are as above
    frozen_generator
               model_based with a generator that is not trained; it needs a trained one:

    etc-jax extend --from=distilroberta-base --to=longformer \
        --max_length=16384 --format=native --out=models/generator
    etc-jax train --config=denoising:base,frozen_generator \
        --workdir=runs/model_based --config.checkpoint.init_from=models/bart_ls \
        --config.objective.generator_init_from=models/generator

The corpora of table 2, with base models after 20,000 steps (ROUGE-1 on QMSum, F1 on
Qasper, exact match on QuALITY, F1 on NarrativeQA; without pre-training 35.9, 30.6, 32.9
and 20.4), are files for

        --config.data.source=jsonl --config.data.paths="('FILES',)" \
        --config.data.tokenizer=models/bart --config.train.num_steps=20000

    C4, concatenated at random: 36.3, 32.8, 32.8 and 21.6; its files as they are
    long documents (books, news, stories, dialogues): 34.7, 29.9, 31.3 and 21.2; with
        --config.data.packing=best_fit and the file of
        etc-jax corpora long --min_length=8192 --tokenizer=models/bart \
            --out=long.jsonl.gz FILES
    C4 with similar documents linked: 35.7, 32.1, 32.8 and 21.3; by TF-IDF here, and
        each document in one text; in the paper by Contriever's vectors, and in two
        texts at most (appendix A); with --config.data.packing=best_fit, which keeps
        linked documents together, and the file of
        etc-jax corpora link --length=16382 --tokenizer=models/bart \
            --format=jsonl --out=linked.jsonl.gz FILES

and other tasks of the papers they are from:

    led        LED on 16,384 tokens with the task above; its authors begin with BART's
               weights and do not pre-train it (Beltagy et al. 2020, section 7)
    t5         T5 v1.1 on 512 tokens, 15 % of them missing, in spans of 3, Adafactor
               (Raffel et al. 2020, section 3.1.4); 2,048 at once
    bart       BART on 1,024 tokens: 30 % are infilled, in spans of a Poisson
               distribution of mean 3, and sentences come in another order (Lewis et al.
               2020, section 2.2)

    short      4 layers of 128 and texts of 512 tokens, of the documentation of Python,
               with a vocabulary learnt from it: for a laptop
    tiny       short, for 20 steps: to see that everything works
"""

import dataclasses

from etc_jax import config as config_lib, recipes
from etc_jax.models.family import sizes as model_sizes
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.recipes.text_to_text import SHORT

# As many spans of 3 as 1,024 tokens make.
SENTINELS = 341
SEED = 42
# Families with BART's vocabulary, which has no sentinels.
_BY_BART = ("bart_ls", "led")
_SHORT_TOO = {
    "bart_ls": {"block_size": 128, "pooling_layers": 2, "max_target_length": 256},
    "led": {"attention_window": (64,), "max_target_length": 256},
    "t5": {"head_dim": 32},
    "bart": {},
}
_TASKS = {
    "": {"share": 0.0625, "span_lengths": "mixed"},
    "average5": {"span_lengths": "fixed", "mean_span_length": 5.0},
    "fixed3": {"span_lengths": "fixed", "mean_span_length": 3.0},
    "8k": {"share": 0.125},
    "gaps": {"kind": "gap_sentences"},
    "model_based": {"generator_weight": 1.0},
    "frozen_generator": {"generator_weight": 0.0},
    "t5": {"share": 0.15, "span_lengths": "fixed", "mean_span_length": 3.0},
    "bart": {"kind": "infilling", "share": 0.3, "mean_span_length": 3.0},
}


def _model(chosen: set[str], short: bool):
    """(family, config, tokens of a text)."""
    size = "base" if short or "base" in chosen else "large"
    families = ("t5", "bart", "led")
    family = next((name for name in families if name in chosen), "bart_ls")
    model = model_sizes()[f"{'t5_v11' if family == 't5' else family}_{size}"]
    changes = {"dtype": "bfloat16", "remat_policy": "full"}
    if short:
        changes = SHORT | _SHORT_TOO[family]
    elif family in _BY_BART:
        changes["vocab_size"] = model.vocab_size + SENTINELS
    model = dataclasses.replace(model, **changes, logits_chunk_length=512)
    return family, model, 8192 if "8k" in chosen else model.max_length


def _generator(data, short: bool) -> LongformerConfig:
    """The model that chooses what is missing from the texts of the section `data`."""
    changes = {"vocab_size": data.vocab_size, "max_length": data.input_length}
    if short:
        return LongformerConfig(**recipes.SHORT_LONGFORMER | changes)
    return LongformerConfig(
        **changes,
        num_layers=6,
        dropout_rate=0.0,
        attention_dropout_rate=0.0,
        logits_chunk_length=512,
        dtype="bfloat16",
        remat_policy="full",
    )


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    by_model = ("model_based", "frozen_generator")
    kinds = ("average5", "fixed3", "gaps", *by_model, "led", "t5", "bart")
    # The other models read fewer tokens.
    only_long = (("8k", other) for other in ("led", "t5", "bart", "short", "tiny"))
    flags = ("base", "8k", "short", "tiny")
    chosen = config_lib.variants(arg, kinds, *only_long, flags=flags)
    short = bool(chosen & {"short", "tiny"})
    family, model, length = _model(chosen, short)
    objective = "model_denoising" if chosen & {*by_model} else "denoising"
    config = config_lib.default_config(family, objective=objective, source="builtin")
    config.model.update(dataclasses.asdict(model))
    for name in ("", *_TASKS.keys() & chosen):
        config.objective.update(_TASKS[name])
    config.objective.begin_token = family != "t5"
    whole = "bart" in chosen or "gaps" in chosen
    config.data.update(
        packing="concatenated",
        min_sentences=1,
        vocab_size=model.vocab_size - SENTINELS * (family in _BY_BART),
        input_length=length,
        target_length=min(length if whole else 1024, model.max_target_length),
    )
    config.train.update(
        num_steps=100_000, batch_size=256 * 16384 // length, eval_every_steps=1000
    )
    if family == "t5":
        config.optimizer.update(name="adafactor", learning_rate=1e-2)
        config.schedule.update(name="inverse_sqrt", warmup_steps=10_000)
        config.train.batch_size = 2048
    else:
        config.optimizer.update(
            learning_rate=1e-4, b2=0.98, eps=1e-6, weight_decay=0.01, clip_norm=0.1
        )
        config.schedule.update(name="linear", warmup_steps=500)
    if family in _BY_BART:
        config.train.seed = SEED
    if short:
        _shorten(config, tiny="tiny" in chosen)
    if objective == "model_denoising":
        generator = _generator(config.data, short)
        config.objective.generator.update(dataclasses.asdict(generator))
    return config


def _shorten(config, *, tiny: bool) -> None:
    """For a laptop: a vocabulary of the built-in text, with sentinels after it."""
    words = 4096
    config.model.update(vocab_size=words + 128, pad_id=0, eos_id=102)
    config.model.decoder_start_id = 101
    config.data.update(
        vocab_size=words, target_length=min(256, config.data.target_length)
    )
    config.optimizer.update(learning_rate=1e-3, clip_norm=1.0)
    config.schedule.warmup_steps = 100
    config.train.update(num_steps=1000, batch_size=16, eval_every_steps=250)
    if tiny:
        config.train.update(
            num_steps=20, batch_size=4, eval_every_steps=10, log_every_steps=5
        )
        config.schedule.warmup_steps = 5
        config.checkpoint.every_steps = 10
