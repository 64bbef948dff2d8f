"""BERT-base over sliding windows on Natural Questions (ETC paper, table 2).

    etc-jax convert --lift=bert-base-uncased --out=models/bert_base \
        --config=bert_base_nq --positions=copy --types=copy \
        --activation=source
    etc-jax prepare --task=natural_questions --out=caches/nq_bert_train \
        --flat --long_length=512 --global_length=1 --tokenizer=bert-base-uncased \
        nq-train-*.jsonl.gz
    etc-jax prepare --task=natural_questions --out=caches/nq_bert_dev --flat \
        --long_length=512 --global_length=1 --tokenizer=bert-base-uncased \
        nq-dev-*.jsonl.gz
    etc-jax train --config=bert_base_nq:windows=NUMBER \
        --workdir=runs/nq_bert --config.checkpoint.init_from=models/bert_base \
        --config.data.paths="('caches/nq_bert_train',)" \
        --config.data.validation_paths="('caches/nq_bert_dev',)" \
        --config.data.validation_files="('nq-dev-00.jsonl.gz', 'nq-dev-01.jsonl.gz',
            'nq-dev-02.jsonl.gz', 'nq-dev-03.jsonl.gz', 'nq-dev-04.jsonl.gz')"
    etc-jax evaluate --model=runs/nq_bert --out=runs/nq_bert/dev \
        nq-dev-*.jsonl.gz

The baseline of the table: 0.634 / 0.475 long / short answer F1 on the development set.
The encoder of ETC does here what BERT's does: every token of a window of 512 sees every
other, positions are absolute, there are no labels, and all projections are one. What is
left of the global tokens is a [CLS] that sees the first token and is seen by it alone.
Windows are 128 tokens apart; most have no answer, and the paper
does not tell how many of these to train on (`--null_share` of etc-jax prepare).

The settings are ETC's, as the paper tells none for this row. Variants:

    (none)          windows=NUMBER: those of the training cache; without it, one for
                    each of the 307,373 questions
    from_scratch    not in the paper: no pre-training
    tiny            small, from nothing, for a laptop: 512 long tokens, 80 steps
"""

from etc_jax import config as config_lib, recipes
from etc_jax.models.etc import config as etc_config

LENGTH = 512

SETTING = recipes.FinetuningRecipe(
    "natural_questions",
    num_examples=307_373,
    epochs=3,
    batch_size=64,
    learning_rate=5e-5,
)


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    names, setting = recipes.given_windows(arg, SETTING)
    chosen = config_lib.variants(names, flags=recipes.ETC_STARTS)
    model = etc_config.base_shared(
        radius=LENGTH,
        max_distance=0,
        num_labels=None,
        max_positions=LENGTH,
        activation="gelu_exact",
        hard_l2g=True,
        dtype="bfloat16",
        remat_policy="attention",
    )
    config = setting.config(model, long_length=LENGTH, global_length=1)
    config.data.input_options = ("flat=true",)
    config.checkpoint.update(best_metric="official_average-f1", best_is="highest")
    return recipes.etc_started(config, chosen)


def get_sweep(arg: str = ""):
    """The paper's grid of settings; see `recipes.sweep`."""
    _, setting = recipes.given_windows(arg, SETTING)
    return recipes.sweep(setting, learning_rate=(3e-5, 5e-5), epochs=(3, 5))
