"""SLED: BART or T5 on inputs of 16,384 tokens, by overlapping windows of the encoder.

    etc-jax prepare --task=scrolls_qasper --tokenizer=bart-base --begin_token \
        --prefix_length=64 --input_length=16384 --target_length=128 --every_target \
        --out=prepared/qasper qasper.zip/train.jsonl
    etc-jax train --workdir=runs/qasper \
        --config=sled:scrolls_qasper,prepared=prepared/qasper,from=bart-base,dev=qasper.zip/validation.jsonl
    etc-jax evaluate --model=runs/qasper --out=runs/qasper/dev \
        qasper.zip/validation.jsonl

Ivgi et al. 2022, section 5.1 and appendix C: 16,384 tokens in windows of 256, half of
them context, AdamW as it comes, weight decay 0.01, linear, a tenth of the steps to warm
up, the epochs of SCROLLS, and the best checkpoint on development data. `get_sweep` has
the paper's nine runs of each data set: learning rate 2e-5, 5e-5 or 1e-4, 8, 16 or 32
inputs at once; without a sweep it is the middle one. Not in the paper, but in the
authors' code: epochs in numbers, places of a prefix (64; 160 for the options of
QuALITY; none in summarisation), the longest texts that are written. Neither says how
they are written: without beams here. Gradients are clipped to 1, as their trainer does
by default.

One data set (its training inputs, epochs):

    scrolls_gov_report (17,457, 10), scrolls_summ_screen_fd (3,673, 10), scrolls_qmsum
    (1,257, 20), scrolls_qasper (2,567, 20), scrolls_narrative_qa (55,003, 2),
    scrolls_quality (2,523, 20), scrolls_contract_nli (7,191, 20): table 1, where BART
    base has an average of 35.4 on the test sets, LED base 33.6. Several right texts are
    learnt one by one, by `--every_target`
    squad_distractors (87,599, 3): figure 3, F1 87.6 (of which --order the text does not
                say); with `truncated` and --order=alone 88.1
    hotpotqa_text (90,447, 9): two paragraphs, figure 4, in windows of 128, F1 76.5;
                with `truncated` 78.6
    text_to_text one's own texts, as without a name: `etc-jax prepare
                --task=text_to_text --measure=rouge`, with the other flags above; 10
                epochs are a choice
    pairs       these without `prepare`, from JSON lines (`data.paths`,
                `data.validation_paths`): the loss of evaluations alone is known

The number of inputs is that of the prepared folder. Values are prepared=, dev=,
validation=, from=, epochs= (`recipes/text_to_text.py`). Without more it is the base
BART; variants are

    t5           T5 v1.1 in place of BART: prepared without --begin_token
    large        the large model in place of the base one
    truncated    the baselines of table 1: the first 1,024 tokens, read whole, with the
                 same nine runs; prepared with --input_length=1024 and no
                 --prefix_length
    short        4 layers of 128, windows of 64 and inputs of 1,024 tokens: for a laptop
    tiny         short, for 20 steps: to see that everything works

    one_token    windows of one token behind the prefix (section 4.3, c = 1)
    no_prefix    windows without the prefix, which is a window of its own (section 4.3)
    drop_prefix  the decoder does not read the prefix (section 4.3)
    no_overlap   windows without context (section 5.4, table 2, alpha = 0)

Other windows and lengths (figures 5 and 6, table 2) are
`--config.model.sled.window=128`, `--config.data.input_length=4096` with
`--config.model.sled.input_length=4096`, `--config.model.sled.padding_share=0.05`.
"""

import dataclasses

from etc_jax import recipes
from etc_jax.datasets.pairs import PairOptions
from etc_jax.models.sled.config import SledConfig
from etc_jax.recipes import text_to_text

WINDOW = 256
# Section 4.2: two paragraphs are in windows of their own.
WINDOWS = {"hotpotqa_text": 128}
# Data sets of section 4.
QUESTIONS = ("squad_distractors", "hotpotqa_text")
ABLATIONS = {
    "one_token": {"window": 1},
    "no_prefix": {"prefix_in_windows": False},
    "drop_prefix": {"prefix_in_memory": False},
    "no_overlap": {"padding_share": 0.0},
}
TRUNCATED = 1024
ADAM = {"b1": 0.9, "b2": 0.999, "eps": 1e-8, "weight_decay": 0.01}


def _of(inputs: int, epochs: int, prefix_length: int = 64, target_length: int = 128):
    return text_to_text.WritingRecipe(
        task="",
        num_examples=inputs,
        epochs=epochs,
        batch_size=16,
        learning_rate=5e-5,
        warmup_steps=0.1,
        target_length=target_length,
        reading=PairOptions(begin_token=True, prefix_length=prefix_length),
        generation=(("num_tokens", target_length), ("num_beams", 1)),
    )


SETTINGS = text_to_text.by_name(
    text_to_text=_of(10_000, 10),
    scrolls_gov_report=_of(17_457, 10, 0, 1024),
    scrolls_summ_screen_fd=_of(3_673, 10, 0, 1024),
    scrolls_qmsum=_of(1_257, 20, 64, 1024),
    scrolls_qasper=_of(2_567, 20),
    scrolls_narrative_qa=_of(55_003, 2),
    scrolls_quality=_of(2_523, 20, 160),
    scrolls_contract_nli=_of(7_191, 20, 64, 8),
    squad_distractors=_of(87_599, 3),
    hotpotqa_text=_of(90_447, 9),
)


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = _choose(arg)
    backbone = "t5_v11" if "t5" in chosen.variants else "bart"
    size = "large" if "large" in chosen.variants else "base"
    family, model = chosen.model(f"{backbone}_{size}")
    setting = chosen.setting
    if "truncated" not in chosen.variants:
        window = WINDOWS.get(setting.task, WINDOW)
        sled = SledConfig(
            window=64 if chosen.short else window,
            prefix_length=setting.reading.prefix_length,
            input_length=setting.input_length,
            # Of a long input some at a time, which bounds memory.
            windows_at_once=16,
        )
        for name in chosen.variants & ABLATIONS.keys():
            sled = dataclasses.replace(sled, **ABLATIONS[name])
        model = dataclasses.replace(model, sled=sled)
    return text_to_text.config_of(chosen, family, model, **ADAM)


def get_sweep(arg: str = ""):
    """The nine runs of appendix C; see `recipes.sweep`."""
    return nine_runs(_choose(arg).setting)


def nine_runs(setting: text_to_text.WritingRecipe):
    """Those of a setting, also of the paper's other models."""
    rates, batches = (2e-5, 5e-5, 1e-4), (8, 16, 32)
    return recipes.sweep(setting, learning_rate=rates, batch_size=batches)


def _choose(arg: str) -> text_to_text.Chosen:
    exclusive = [("truncated", name) for name in ABLATIONS]
    flags = ("t5", "large", "truncated", *ABLATIONS)
    return text_to_text.choose(arg, SETTINGS, *exclusive, flags=flags, changed=_changed)


def _changed(setting, variants):
    reading = setting.reading
    if "t5" in variants:
        reading = dataclasses.replace(reading, begin_token=False)
    if "truncated" in variants:
        reading = dataclasses.replace(reading, prefix_length=0)
        setting = dataclasses.replace(setting, input_length=TRUNCATED)
    return dataclasses.replace(setting, reading=reading)
