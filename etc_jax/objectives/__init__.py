"""What a model learns: losses on arrays, and the jobs that the training loop runs."""

from etc_jax.objectives import pretraining_job  # noqa: F401  (registers the job)
