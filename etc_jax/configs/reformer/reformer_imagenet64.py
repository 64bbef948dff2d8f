"""Reformer as a model of images of 64 x 64 pixels (trax, reformer_imagenet64.gin).

    etc-jax train --config=reformer_imagenet64 \
        --workdir=runs/imagenet64 --config.data.paths="('train.npy',)" \
        --config.data.validation_paths="('valid.npy',)"

The files hold uint8 `[images, 64, 64, 3]`; an image is the row of its 12,288 bytes.
`bits` of the evaluation are bits a dimension.

The numbers are those of the gin file as it last was (2021): 6 LSH layers of 1024 with 8
heads of 64, feed-forward 4096 with the approximate gelu, positions of 384 for the row,
384 for the column and 256 for the channel; attention dropout 0.2, no other; Adam (0.9,
0.98, 1e-9) without weight decay; a peak of 3.5e-4 (0.03125 / sqrt(8000)) after 8,000
steps, then with the root of the step; 500,000 steps of 8 images. Gradients are clipped
to 1, which trax does not do.
"""

import dataclasses

from etc_jax import config as config_lib
from etc_jax.models.reformer.config import imagenet64


def get_config(arg: str = ""):
    """The config; it has no variants."""
    config_lib.variants(arg)
    config = config_lib.default_config("reformer")
    changes = {"dtype": "bfloat16", "mlp_chunk_length": 4096}
    changes["logits_chunk_length"] = 4096
    config.model.update(dataclasses.asdict(imagenet64(**changes)))
    config.objective.name = "causal_lm"
    config.data.update(source="byte_images", vocab_size=256, input_length=12288)
    config.optimizer.update(
        learning_rate=0.03125 * 8000**-0.5,
        b1=0.9,
        b2=0.98,
        eps=1e-9,
        weight_decay=0.0,
    )
    config.schedule.update(name="inverse_sqrt", warmup_steps=8000)
    config.train.update(num_steps=500_000, batch_size=8, eval_every_steps=1000)
    return config
