"""BART-LS: a BART for 16,384 tokens, with attention in blocks and to averages.

    etc-jax convert --fairseq=model_100k.pt --out=bart_ls
    etc-jax prepare --task=gov_report --tokenizer=bart-large --begin_token \
        --input_length=16384 --target_length=1024 --out=train \
        split_ids/crs_train.ids split_ids/gao_train.ids
    etc-jax train --workdir=run \
        --config.data.validation_files="('split_ids/crs_valid.ids',
            'split_ids/gao_valid.ids')" \
        --config=bart_ls:gov_report,prepared=train,from=bart_ls,dev=split_ids/crs_valid.ids
    etc-jax evaluate --model=run --out=run/dev \
        split_ids/crs_valid.ids split_ids/gao_valid.ids

Xiong et al. 2022, section 3.1 and tables 8 and 9. By data set: learning rate, batch,
epochs, dropout and warm-up (`GRIDS`, all of whose runs `get_sweep` has), and how texts
are written (`WRITING`). Adam (0.9, 0.999, 1e-6), polynomial decay, 16,384 tokens, R3F
(Aghajanyan et al. 2021), with which a step takes twice as long. Which run of a grid was
the best the paper does not say: without a sweep it is the middle learning rate, a
dropout of 0.1, the smallest batch and a warm-up of 200 steps. Not in the paper: the
power of the decay (1, fairseq's), the weight of R3F (1 in summarisation and 0.1 where
answers are short, after the 0.01 of the authors' code for each token of a target:
`objectives/r3f.py`), no decay of the weights, gradients clipped to 1. The seed, 42, is
that of its pre-training (appendix A).

A question is repeated, whole, at the start of each block of 1,024 tokens (section 3.1):
`etc-jax prepare` with --begin_token --prefix_every=1024; without a question,
--begin_token alone.

One data set; its inputs are counted in `INPUTS`:

    gov_report, scrolls_gov_report           62.0 / 30.9 / 59.2 (table 4)
    booksum                                  38.5 / 10.3 / 36.4
    arxiv                                    50.2 / 22.1 / 45.4
    pubmed                                   50.3 / 24.3 / 46.3
    summ_screen_tms                          - / 17.2 / 50.0 (table 5)
    summ_screen_fd, scrolls_summ_screen_fd   - / 10.7 / 33.5
    qmsum, scrolls_qmsum                     37.9 / 12.1 / 33.1 (table 6)
    qasper, scrolls_qasper                   F1 48.7 (table 7, test set of SCROLLS)
    narrativeqa, scrolls_narrative_qa        26.2
    multiple_choice, scrolls_quality         37.8: QuALITY
    text_to_text  one's own texts, as without a name; the settings of QMSum, but for 10
                  epochs, and without R3F
    pairs         the same without `prepare`, from JSON lines (`data.paths`,
                  `data.validation_paths`): the loss of evaluations alone is known

ROUGE-1, -2 and -L there are files2rouge's, with a stemmer; scores here are SCROLLS's,
without.

Values are prepared=, dev=, validation=, from=, epochs= (`recipes/text_to_text.py`).
Without more this is the large model of the paper. Its table 1 compares base models that
were not trained on long texts, each of which is a variant here:

    base        attention in blocks and, in the last layers, to averages: ROUGE-1 61.0
                on GovReport and 35.9 on QMSum, F1 30.6 on Qasper
    base,blocks    blocks alone: 60.5, 35.2, 28.0
    base,overlap   blocks that overlap: 60.6, 34.8, 28.0
    base,globals   64 global tokens in each block: 60.3, 35.4, 29.8

(the last three begin with a model of `etc-jax extend --pooling_layers=0`, and
`--overlap` or `--num_globals=64`) and

    r3f         R3F for one's own texts too
    short       4 layers of 128, blocks of 128 and inputs of 1,024 tokens: for a laptop
    tiny        short, for 20 steps: to see that everything works
"""

import dataclasses
from typing import NamedTuple

from etc_jax import recipes
from etc_jax.datasets.pairs import PairOptions
from etc_jax.recipes import text_to_text

BLOCK = 1024
SEED = 42
WARMUP_STEPS, DROPOUT_RATE = 200, 0.1


class Grid(NamedTuple):
    """A row of table 8: values of which each is tried with each."""

    learning_rate: tuple[float, ...]
    batch_size: tuple[int, ...]
    epochs: int
    warmup_steps: tuple[int, ...] = (WARMUP_STEPS,)
    dropout_rate: tuple[float, ...] = (0.0, DROPOUT_RATE)


class Written(NamedTuple):
    """A row of table 9."""

    num_tokens: int
    min_tokens: int | None
    length_penalty: float
    num_beams: int = 4
    no_repeat_ngram: int = 3


GRIDS = {
    "arXiv": Grid((1e-4, 3e-4, 4e-4), (128,), 8),
    "GovReport": Grid((5e-5, 3e-4, 4e-4), (128,), 70),
    "PubMed, BookSum": Grid((3e-4, 4e-4), (64,), 60),
    "SummScreen": Grid((5e-5, 3e-5, 1e-4), (64,), 130, (200, 500, 1000)),
    "Qasper, QMSum, QuALITY": Grid((1e-4, 5e-5, 3e-5), (32, 64), 150, (100, 200)),
    "NarrativeQA": Grid((5e-5, 3e-5), (64,), 8),
}
WRITING = {
    "arXiv": Written(300, 50, 5.0),
    "GovReport": Written(740, 50, 4.0),
    "PubMed": Written(400, 40, 4.0),
    "BookSum": Written(550, 20, 4.0),
    "SummScreen-FD": Written(300, 50, 4.0),
    "SummScreen-TVM": Written(640, 50, 5.0),
    "Qasper": Written(80, None, 1.0),
    "NarrativeQA": Written(20, None, 3.0),
    "QMSum": Written(256, 40, 4.0),
    "QuALITY": Written(50, None, 3.0),
}
# Data set -> (inputs to learn from, its row of table 9).
INPUTS = {
    "gov_report": (17_517, "GovReport"),
    "scrolls_gov_report": (17_457, "GovReport"),
    "booksum": (9_713, "BookSum"),
    "arxiv": (203_037, "arXiv"),
    "pubmed": (119_924, "PubMed"),
    "summ_screen_tms": (18_915, "SummScreen-TVM"),
    "summ_screen_fd": (3_673, "SummScreen-FD"),
    "scrolls_summ_screen_fd": (3_673, "SummScreen-FD"),
    "qmsum": (1_257, "QMSum"),
    "scrolls_qmsum": (1_257, "QMSum"),
    "qasper": (2_593, "Qasper"),
    "scrolls_qasper": (2_567, "Qasper"),
    "narrativeqa": (32_747, "NarrativeQA"),
    "scrolls_narrative_qa": (55_003, "NarrativeQA"),
    "multiple_choice": (2_523, "QuALITY"),
    "scrolls_quality": (2_523, "QuALITY"),
    "text_to_text": (10_000, "QMSum"),
}
ANSWERS = ("Qasper", "NarrativeQA", "QuALITY")
R3F_WEIGHT, R3F_WEIGHT_OF_ANSWERS = 1.0, 0.1


def _grid(task: str) -> Grid:
    name = INPUTS[task][1].partition("-")[0]
    return next(grid for row, grid in GRIDS.items() if name in row.split(", "))


def _of(task: str) -> text_to_text.WritingRecipe:
    (inputs, row), grid = INPUTS[task], _grid(task)
    rates, writing = sorted(grid.learning_rate), WRITING[row]._asdict()
    asks = row in (*ANSWERS, "QMSum")
    return text_to_text.WritingRecipe(
        task=task,
        num_examples=inputs,
        epochs=grid.epochs,
        batch_size=grid.batch_size[0],
        learning_rate=rates[len(rates) // 2],
        warmup_steps=WARMUP_STEPS,
        seed=SEED,
        dropout_rate=DROPOUT_RATE,
        # Targets are learnt whole: those of summaries as far as the decoder writes.
        target_length=128 if row in ANSWERS else 1024,
        reading=PairOptions(begin_token=True, prefix_every=BLOCK if asks else 0),
        generation=tuple((k, x) for k, x in writing.items() if x is not None),
    )


SETTINGS = {task: _of(task) for task in INPUTS}
SETTINGS["text_to_text"] = dataclasses.replace(SETTINGS["text_to_text"], epochs=10)
# Of table 1, and flags of `etc-jax extend` of the same names.
ROWS = {
    "blocks": {"pooling_layers": 0},
    "overlap": {"pooling_layers": 0, "overlap": True},
    "globals": {"pooling_layers": 0, "num_globals": 64},
}
SHORT_GLOBALS = 8


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = _choose(arg)
    family, model = chosen.model(
        "bart_ls_base" if "base" in chosen.variants else "bart_ls_large"
    )
    for name in chosen.variants & ROWS.keys():
        model = dataclasses.replace(model, **ROWS[name])
    if chosen.short and "globals" in chosen.variants:
        model = dataclasses.replace(model, num_globals=SHORT_GLOBALS)
    adam = {"b1": 0.9, "b2": 0.999, "eps": 1e-6, "weight_decay": 0.0}
    config = text_to_text.config_of(chosen, family, model, **adam)
    config.schedule.name = "polynomial"
    task = chosen.setting.task
    if task != text_to_text.OWN or "r3f" in chosen.variants:
        answers = INPUTS[task][1] in ANSWERS
        config.objective.r3f.weight = R3F_WEIGHT_OF_ANSWERS if answers else R3F_WEIGHT
    return config


def get_sweep(arg: str = ""):
    """The grid of table 8; see `recipes.sweep`."""
    setting = _choose(arg).setting
    grid = _grid(setting.task)._asdict()
    del grid["epochs"]
    return recipes.sweep(setting, **grid)


def _choose(arg: str) -> text_to_text.Chosen:
    flags = ("base", "r3f")
    return text_to_text.choose(arg, SETTINGS, tuple(ROWS), flags=flags)
