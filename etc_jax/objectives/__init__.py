"""What a model learns: losses on arrays, and the jobs that the training loop runs."""

from etc_jax.objectives import (  # noqa: F401  (they register)
    causal_lm_job,
    causal_text_to_text,
    encoder_finetuning,
    encoder_multihop,
    finetuning_job,
    masked_lm_job,
    openkp,
    pretraining_job,
    sections,
)
