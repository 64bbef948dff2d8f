"""LED: BART with sliding windows and global tokens, on inputs of 16,384 tokens.

    etc-jax prepare --task=scrolls_qasper --tokenizer=led-base-16384 --begin_token \
        --prefix_length=64 --input_length=16384 --target_length=128 --every_target \
        --out=prepared/qasper qasper.zip/train.jsonl
    etc-jax train --workdir=runs/qasper \
        --config=led:scrolls_qasper,prepared=prepared/qasper,from=led-base-16384,dev=qasper.zip/validation.jsonl
    etc-jax evaluate --model=runs/qasper --out=runs/qasper/dev \
        qasper.zip/validation.jsonl

Two papers have runs of it. SLED's LED (Ivgi et al. 2022, sections 4 and 5.1) has SLED's
own settings, data sets and nine runs (`configs/text_to_text/sled.py`, and the same
prepared folders), windows of 256, of 128 in HotpotQA, and the tokens of the question as
global ones: they have the first 64 places of an input, and what is padding there is not
global. Without a question the first token is (the authors of LED; not in SLED's paper).
LED base has an average of 33.6 on SCROLLS' test sets. The model to begin with may have
other windows, as the released one has; a forgotten one is an error.

Longformer's LED (Beltagy et al. 2020, table 11) has windows of 1,024 and one global
token; of arXiv with 16,384 tokens the large model has ROUGE 46.63 / 19.62 / 41.83, with
4,096 tokens 44.40 / 17.94 / 39.76. Its settings are not in the paper: AdamW, 3e-5 after
a tenth of the steps, 10 epochs of 32 inputs, four beams and no trigram twice are a
choice, also for the other data sets of BART-LS's tables 4 and 6, whose figures of LED
are of several authors.

One data set:

    scrolls_gov_report, scrolls_summ_screen_fd, scrolls_qmsum, scrolls_qasper,
    scrolls_narrative_qa, scrolls_quality, scrolls_contract_nli, squad_distractors,
    hotpotqa_text
                  as of SLED
    arxiv, pubmed, booksum, gov_report, qmsum
                  as of Longformer; their inputs are counted in `bart_ls.py`
    text_to_text  one's own texts, as without a name
    pairs         the same without `prepare`, from JSON lines (`data.paths`,
                  `data.validation_paths`): the loss of evaluations alone is known

Values are prepared=, dev=, validation=, from=, epochs= (`recipes/text_to_text.py`).
Variants:

    large       the large model in place of the base one
    local       no token is global: the row LED-L of SLED's figures 3 and 4
    one_global  the first token alone is global: LED-SCROLLS (appendix B)
    short       4 layers of 128, windows of 64 and inputs of 1,024 tokens: for a laptop
    tiny        short, for 20 steps: to see that everything works
"""

import dataclasses

from etc_jax.configs.text_to_text import bart_ls, sled
from etc_jax.datasets.pairs import PairOptions
from etc_jax.recipes import text_to_text


def _choice(task: str, target_length: int) -> text_to_text.WritingRecipe:
    of_paper = bart_ls.SETTINGS[task]
    return text_to_text.WritingRecipe(
        task=task,
        num_examples=of_paper.num_examples,
        epochs=10,
        batch_size=32,
        learning_rate=3e-5,
        target_length=target_length,
        reading=PairOptions(begin_token=True),
        generation=(
            ("num_tokens", target_length),
            ("num_beams", 4),
            ("no_repeat_ngram", 3),
        ),
    )


OF_SLED = {k: x for k, x in sled.SETTINGS.items() if k != text_to_text.OWN}
SETTINGS = OF_SLED | {
    "text_to_text": _choice("text_to_text", 512),
    "arxiv": _choice("arxiv", 512),
    "pubmed": _choice("pubmed", 512),
    "booksum": _choice("booksum", 1024),
    "gov_report": _choice("gov_report", 1024),
    "qmsum": _choice("qmsum", 256),
}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = _choose(arg)
    size = "large" if "large" in chosen.variants else "base"
    family, model = chosen.model(f"led_{size}")
    task, prefix = chosen.setting.task, chosen.setting.reading.prefix_length
    of_sled = task in OF_SLED and not chosen.short
    if of_sled:
        window = sled.WINDOWS.get(task, sled.WINDOW)
        model = dataclasses.replace(model, attention_window=(window,))
    config = text_to_text.config_of(chosen, family, model, **sled.ADAM)
    if of_sled:
        # The released model that it begins with has windows of 1,024.
        config.checkpoint.init_from_changes = ("attention_window",)
    if "local" not in chosen.variants:
        question = 0 if "one_global" in chosen.variants else prefix
        config.objective.global_tokens = question or 1
    return config


def get_sweep(arg: str = ""):
    """SLED's nine runs of a data set of its paper; see `recipes.sweep`.

    Raises:
      ValueError: if the paper has no such data set.
    """
    setting = _choose(arg).setting
    if setting.task not in OF_SLED:
        raise ValueError(
            f"no paper has a sweep of a LED on {setting.task!r}; there are those of "
            f"{', '.join(OF_SLED)}"
        )
    return sled.nine_runs(setting)


def _choose(arg: str) -> text_to_text.Chosen:
    kinds = ("local", "one_global")
    return text_to_text.choose(arg, SETTINGS, kinds, flags=("large",))
