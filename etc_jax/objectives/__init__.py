"""What a model learns: losses on arrays, and the jobs that the training loop runs."""

from etc_jax.objectives import (  # noqa: F401  (they register)
    model_denoising_section,
    sections,
)
from etc_jax.objectives.jobs import (  # noqa: F401
    causal_lm,
    denoising,
    finetuning,
    masked_lm,
    model_denoising,
    pretraining,
    seq2seq,
)
from etc_jax.objectives.learners import (  # noqa: F401
    causal_text_to_text,
    encoder_choices,
    encoder_finetuning,
    encoder_multihop,
    etc_finetuning,
    openkp,
    retrieval,
    text_to_text,
)
