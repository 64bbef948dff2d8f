"""What a model learns: losses on arrays, and the jobs that the training loop runs."""

from etc_jax.objectives import (  # noqa: F401  (they register)
    finetuning_job,
    inputs,
    openkp,
    pretraining_job,
)
