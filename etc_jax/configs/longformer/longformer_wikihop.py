"""Longformer on WikiHop (Beltagy et al. 2020, section 6).

    etc-jax grow --from=longformer-base-4096 \
        --tokens='[q],[/q],[ent],[/ent]' --out=models/longformer_wikihop
    for split in train dev; do
      etc-jax prepare --task=wikihop --format=sequence \
          --tokenizer=models/longformer_wikihop \
          --out=caches/wikihop_lf_$split qangaroo_v1.1/wikihop/$split.json
    done
    etc-jax train --config=longformer_wikihop \
        --workdir=runs/longformer_wikihop \
        --config.checkpoint.init_from=models/longformer_wikihop \
        --config.data.paths="('caches/wikihop_lf_train',)" \
        --config.data.validation_paths="('caches/wikihop_lf_dev',)" \
        --config.data.validation_files="('qangaroo_v1.1/wikihop/dev.json',)"
    etc-jax evaluate --model=runs/longformer_wikihop \
        --out=runs/longformer_wikihop/dev qangaroo_v1.1/wikihop/dev.json

Query and candidates are global, and stand before each 4,096 tokens of the documents.
Accuracy in the paper: of the base model 75.0 on the development set (72.4 for RoBERTa
with windows of 512), of the large one 81.9 on the test set. Not trained here at this
size. Variants:

    windows=NUMBER  inputs of the training set that `etc-jax prepare` counted;
                    without it one for each of the 43,738 records
    large           longformer-large-4096
    roberta         the baseline of the paper's table 7: RoBERTa over windows of 512
                    tokens (--input_length=512 for etc-jax prepare); init_from a RoBERTa
                    that was converted and grown
    short           4 layers of 128 for 512 tokens, windows of 64, without a model to
                    start from: for invented records on a laptop, see below
    from_scratch    no model to start from

    etc-jax train --config=longformer_mlm:short --workdir=runs/mlm
    etc-jax grow --from=runs/mlm \
        --tokens='[q],[/q],[ent],[/ent]' --out=models/short
    etc-jax synthetic --task=wikihop --count=4000 --contexts=5 --candidates=5 \
        --facts=2 --out=train.json
    etc-jax synthetic --task=wikihop --count=200 --start=4000 --contexts=5 \
        --candidates=5 --facts=2 --out=dev.json

make a vocabulary, in models/short, and records. Learning rate 3e-5, 15 epochs, batches
of 32 and 200 steps of warm-up are the paper's (Beltagy et al. 2020, appendix); rate,
warm-up, b2 = 0.98 and the weight decay of 0.01 are also the defaults of the authors'
scripts/wikihop.py. The large model's are not given and are taken to be the same. A
record of several inputs is learnt input by input; in the paper its rows are averaged in
training too.
"""

from etc_jax import config as config_lib, recipes

SETTING = recipes.FinetuningRecipe(
    "wikihop",
    num_examples=43_738,
    epochs=15,
    batch_size=32,
    learning_rate=3e-5,
    warmup_steps=200,
)


def get_config(arg: str = ""):
    """The config of some variants; see the module."""
    names, setting = recipes.given_windows(arg, SETTING)
    sizes = ("large", "roberta", "short")
    chosen = config_lib.variants(names, sizes, flags=("from_scratch",))
    config = recipes.longformer(
        setting,
        chosen,
        global_length=512,
        short_global_length=128,
        best_metric="accuracy" if "short" in chosen else "official_accuracy",
        short_steps=2000,
        added_tokens=4,
    )
    if "short" not in chosen:
        config.optimizer.b2 = 0.98
    return config
