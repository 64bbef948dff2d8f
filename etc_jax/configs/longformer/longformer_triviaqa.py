"""Longformer on TriviaQA, the Wikipedia track (Beltagy et al. 2020, section 6).

    etc-jax convert --hf=longformer-base-4096 --out=models/longformer
    for split in train dev; do
      etc-jax prepare --task=triviaqa --tokenizer=longformer-base-4096 \
          --out=caches/triviaqa_$split triviaqa-rc/qa/wikipedia-$split.json
    done
    etc-jax train --config=longformer_triviaqa \
        --workdir=runs/triviaqa --config.checkpoint.init_from=models/longformer \
        --config.data.paths="('caches/triviaqa_train',)" \
        --config.data.validation_paths="('caches/triviaqa_dev',)" \
        --config.data.validation_files="('triviaqa-rc/qa/wikipedia-dev.json',)"
    etc-jax evaluate --model=runs/triviaqa --out=runs/triviaqa/dev \
        triviaqa-rc/qa/wikipedia-dev.json

A question and its documents, 4,096 tokens together; the question is global. F1 on the
development set in the paper, of the base model: 75.2, and 74.3 for RoBERTa with windows
of 512. Not trained here at this size. Variants:

    large           longformer-large-4096; F1 on the test set in the paper: 77.3
    short           4 layers of 128 for 512 tokens, windows of 64, without a model to
                    start from: for invented questions on a laptop, see below
    from_scratch    no model to start from

    etc-jax synthetic --task=triviaqa --count=4000 --split=train --out=made
    etc-jax synthetic --task=triviaqa --count=200 --split=dev --start=4000 --out=made

The number of steps is that of 61,888 questions; `etc-jax prepare` says how
many have an answer in their input. Learning rate 3e-5, 5 epochs, batches of 32 and
1,000 steps of warm-up are the paper's (Beltagy et al. 2020, appendix); the authors'
scripts/cheatsheet.txt has the same rate and warm-up with 4 epochs, for both sizes. Adam
without weight decay and its epsilon of 1e-8 are those of scripts/triviaqa.py. """

from etc_jax import config as config_lib, recipes

SETTING = recipes.FinetuningRecipe(
    "triviaqa",
    num_examples=61_888,
    epochs=5,
    batch_size=32,
    learning_rate=3e-5,
    warmup_steps=1_000,
)
SHORT = recipes.SHORT_LONGFORMER | {"mlp_dim": 512}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, ("large", "short"), flags=("from_scratch",))
    config = recipes.longformer(
        SETTING,
        chosen,
        global_length=128,
        short_global_length=32,
        best_metric="span_accuracy" if "short" in chosen else "official_f1",
        short_steps=1000,
        short_model=SHORT,
    )
    if "short" not in chosen:
        config.optimizer.update(weight_decay=0.0, eps=1e-8)
    return config
