"""Longformer on TriviaQA, the Wikipedia track (Beltagy et al. 2020, section 6).

    python -m etc_jax.convert --hf=longformer-base-4096 --out=models/longformer
    for split in train dev; do
      python -m tasks.prepare --task=triviaqa --tokenizer=longformer-base-4096 \
          --out=caches/triviaqa_$split triviaqa-rc/qa/wikipedia-$split.json
    done
    python -m etc_jax.train --config=configs/longformer_triviaqa.py \
        --workdir=runs/triviaqa --config.checkpoint.init_from=models/longformer \
        --config.data.paths="('caches/triviaqa_train',)" \
        --config.data.held_back_paths="('caches/triviaqa_dev',)"
    python -m etc_jax.evaluate --model=runs/triviaqa --out=runs/triviaqa/dev \
        triviaqa-rc/qa/wikipedia-dev.json

A question and its documents, 4,096 tokens together; the question is global. F1 on the
development set in the paper, of the base model: 75.2, and 74.3 for RoBERTa with windows
of 512. Not trained here at this size. Variants:

    short           4 layers of 128 for 512 tokens, windows of 64, without a model to
                    start from: for invented questions on a laptop, see below
    from_scratch    no model to start from

    python -m tasks.synthetic.triviaqa --count=4000 --split=train --out=made
    python -m tasks.synthetic.triviaqa --count=200 --split=dev --start=4000 --out=made

The number of steps is that of 61,888 questions; `python -m tasks.prepare` says how many
have an answer in their input. Learning rate, epochs and batch are those that are told
of the authors' runs, unchecked.
"""

from etc_jax import config as config_lib
from etc_jax import recipes

SETTING = recipes.Finetuning(
    "triviaqa", num_examples=61_888, epochs=5, batch_size=32, learning_rate=3e-5
)
SHORT = recipes.SHORT_LONGFORMER | {"mlp_dim": 512}


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    return recipes.longformer(
        SETTING,
        config_lib.variants(arg, flags=("short", "from_scratch")),
        global_length=128,
        short_global_length=32,
        best_metric="span_accuracy",
        short_steps=1000,
        short_model=SHORT,
    )
