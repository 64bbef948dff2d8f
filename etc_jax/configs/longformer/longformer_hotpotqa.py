"""Longformer on HotpotQA, distractor setting (Beltagy et al. 2020, section 6).

    etc-jax grow --from=longformer-base-4096 \
        --tokens='[q],[/q],<t>,</t>,[s]' --out=models/longformer_hotpotqa
    for file in train_v1.1 dev_distractor_v1; do
      etc-jax prepare --task=hotpotqa --format=sequence \
          --tokenizer=models/longformer_hotpotqa \
          --out=caches/hotpotqa_lf_$file hotpot_$file.json
    done
    etc-jax train --config=longformer_hotpotqa \
        --workdir=runs/longformer_hotpotqa \
        --config.checkpoint.init_from=models/longformer_hotpotqa \
        --config.data.paths="('caches/hotpotqa_lf_train_v1.1',)" \
        --config.data.validation_paths="('caches/hotpotqa_lf_dev_distractor_v1',)" \
        --config.data.validation_files="('hotpot_dev_distractor_v1.json',)"
    etc-jax evaluate --model=runs/longformer_hotpotqa \
        --out=runs/longformer_hotpotqa/dev hotpot_dev_distractor_v1.json

A question and ten paragraphs, 4,096 tokens together; the question, the beginnings of
paragraphs and the ends of sentences are global. Joint F1 in the paper: of the base
model 64.4 on the development set (63.5 for RoBERTa with windows of 512), of the large
one 73.2 on the test set. Not trained here at this size. Variants:

    large           longformer-large-4096
    stage2          the second of two stages, see below
    short           4 layers of 128 for 512 tokens, windows of 64, without a model to
                    start from: for invented questions on a laptop, see the end
    from_scratch    no model to start from

The paper's model has two stages, which bring 4.2 points of joint F1 (Beltagy et al.
2020, appendix; not checked against the code): the first finds the paragraphs, the
second reads what is left. With the run above for the first one:

    for file in train_v1.1 dev_distractor_v1; do
      python -m etc_jax.tasks.hotpotqa.select --model=runs/longformer_hotpotqa \
          --out=kept_$file.json hotpot_$file.json
      etc-jax prepare --task=hotpotqa --format=sequence --input_length=1024 \
          --tokenizer=models/longformer_hotpotqa \
          --out=caches/hotpotqa_kept_$file kept_$file.json
    done
    etc-jax train --config=longformer_hotpotqa:stage2 \
        --workdir=runs/longformer_hotpotqa2 \
        --config.checkpoint.init_from=models/longformer_hotpotqa \
        --config.data.paths="('caches/hotpotqa_kept_train_v1.1',)" \
        --config.data.validation_paths="('caches/hotpotqa_kept_dev_distractor_v1',)" \
        --config.data.validation_files="('kept_dev_distractor_v1.json',)"
    etc-jax evaluate --model=runs/longformer_hotpotqa2 \
        --out=runs/longformer_hotpotqa2/dev kept_dev_distractor_v1.json

Five paragraphs are kept and 1,024 tokens read, and the second stage has the settings of
the first: these are choices. Supporting facts in lost paragraphs stay in the files, so
that the score is the official one. For the invented questions:

    etc-jax train --config=longformer_mlm:short --workdir=runs/mlm
    etc-jax grow --from=runs/mlm \
        --tokens='[q],[/q],<t>,</t>,[s]' --out=models/short
    etc-jax synthetic --task=hotpotqa --count=4000 --contexts=5 --facts=2 \
        --out=train.json
    etc-jax synthetic --task=hotpotqa --count=200 --start=4000 --contexts=5 \
        --facts=2 --out=dev.json

make a vocabulary, in models/short, and questions. The number of steps is that of 90,447
questions; `etc-jax prepare` says how many have an answer in their input.
Learning rate 5e-5, 5 epochs, batches of 32 and 1,000 steps of warm-up are the paper's
(Beltagy et al. 2020, appendix; not checked against the code, which is not released; the
large model's are not given and are taken to be the same). How they weighed the parts of
the loss is not given, and here they are summed.
"""

from etc_jax import config as config_lib, recipes

SETTING = recipes.FinetuningRecipe(
    "hotpotqa",
    num_examples=90_447,
    epochs=5,
    batch_size=32,
    learning_rate=5e-5,
    warmup_steps=1_000,
)

FLAGS = ("stage2", "from_scratch")
STAGE2_LENGTH = 1024


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    chosen = config_lib.variants(arg, ("large", "short"), flags=FLAGS)
    config = recipes.longformer(
        SETTING,
        chosen,
        global_length=256,
        short_global_length=128,
        best_metric="loss" if "short" in chosen else "official_joint_f1",
        short_steps=2000,
        added_tokens=5,
    )
    if "stage2" in chosen:
        config.data.input_length = min(STAGE2_LENGTH, config.data.input_length)
    return config
