"""LongT5 with sums of blocks, on inputs of 16,384 tokens (Guo et al. 2022).

    etc-jax prepare --task=scrolls_qasper --tokenizer=long-t5-tglobal-base \
        --input_length=16384 --target_length=128 --every_target \
        --out=prepared/qasper qasper.zip/train.jsonl
    etc-jax train --workdir=runs/qasper \
        --config=long_t5:scrolls_qasper,prepared=prepared/qasper,from=long-t5-tglobal-base,dev=qasper.zip/validation.jsonl
    etc-jax evaluate --model=runs/qasper --out=runs/qasper/dev \
        qasper.zip/validation.jsonl

Other papers compare with it and give no settings: BART-LS's tables 4 and 7, SLED's
table 1. Adafactor, 1e-3 throughout and 128 inputs at once are T5's (Raffel et al. 2020,
section 3.1.3), as is no decay of the weights; the base model reads 4,096 tokens of a
paper that it sums up, larger ones 16,384 (Guo et al. 2022). A choice: epochs, which are
SCROLLS's or 8; texts are written without beams. A question is the beginning of its
input.

One data set, with figures of BART-LS's tables, ROUGE-1 / -2 / -L with a stemmer, or the
score of SCROLLS's test set:

    arxiv       large 48.3 / 21.6 / 44.1, xl 48.4 / 21.9 / 44.3
    pubmed      large 50.0 / 24.7 / 46.5, xl 50.2 / 24.8 / 46.7
    scrolls_qasper        base 46.6, large 53.3, xl 53.1
    scrolls_narrative_qa  base 23.0, large 27.2, xl 29.3
    scrolls_quality       base 37.9, large 40.6, xl 46.0
    scrolls_gov_report, scrolls_summ_screen_fd, scrolls_qmsum, scrolls_contract_nli
    text_to_text  one's own texts, as without a name
    pairs         the same without `prepare`, from JSON lines (`data.paths`,
                  `data.validation_paths`): the loss of evaluations alone is known

Values are prepared=, dev=, validation=, from=, epochs= (`recipes/text_to_text.py`).
Without more it is the base model; variants are

    large       0.8 billion parameters
    xl          3 billion
    short       4 layers of 128 for inputs of 1,024 tokens: for a laptop
    tiny        short, for 20 steps: to see that everything works
"""

import dataclasses

from etc_jax.configs.text_to_text import bart_ls, sled
from etc_jax.datasets.pairs import PairOptions
from etc_jax.recipes import text_to_text

# Of the base model.
PAPERS = ("arxiv", "pubmed")
PAPER_LENGTH = 4096


def _of(setting: text_to_text.WritingRecipe, **changes) -> text_to_text.WritingRecipe:
    setting = dataclasses.replace(setting, **changes)
    return dataclasses.replace(
        setting,
        batch_size=128,
        learning_rate=1e-3,
        optimizer="adafactor",
        warmup_steps=0,
        seed=0,
        reading=PairOptions(),
        generation=(("num_tokens", setting.target_length), ("num_beams", 1)),
    )


SETTINGS = {k: _of(x) for k, x in sled.SETTINGS.items() if k not in sled.QUESTIONS}
SETTINGS |= {k: _of(bart_ls.SETTINGS[k], target_length=512) for k in PAPERS}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    sizes = ("large", "xl")
    chosen = text_to_text.choose(arg, SETTINGS, sizes, changed=_changed)
    size = next(iter(chosen.variants & {*sizes}), "base")
    family, model = chosen.model(f"long_t5_tglobal_{size}")
    config = text_to_text.config_of(chosen, family, model, weight_decay=0.0)
    config.schedule.update(name="constant")
    return config


def _changed(setting, variants):
    if setting.task in PAPERS and not variants & {"large", "xl"}:
        return dataclasses.replace(setting, input_length=PAPER_LENGTH)
    return setting
