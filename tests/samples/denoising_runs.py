"""Small runs that denoise a text of made-up words, whose vocabulary is learnt."""

import numpy as np
import tiny_text

from etc_jax import config as config_lib

ROWS, INPUT, TARGET = 4, 64, 32
SENTINELS = 24
FIRST = tiny_text.VOCAB_SIZE
# [SEP] of the vocabulary.
END = 102


def values_of(home, family, name="denoising"):
    """A `ConfigDict` that reads `rows.jsonl` of a folder; without a model's sizes."""
    values = config_lib.default_config(family, objective=name, source="jsonl")
    # What comes after the vocabulary are sentinels.
    values.model.update(vocab_size=FIRST + SENTINELS, eos_id=END)
    values.data.update(
        paths=(str(home / "rows.jsonl"),),
        text_field="body",
        validation_fraction=0.4,
        cache_dir=str(home / "cache"),
        vocab_size=FIRST,
        max_sentence_tokens=48,
        input_length=INPUT,
        target_length=TARGET,
    )
    values.optimizer.learning_rate = 1e-2
    values.schedule.warmup_steps = 2
    values.train.batch_size = ROWS
    return values


def check_batches(job):
    """Batches fit their model, and each row is a function of step and row alone."""
    rows = np.arange(ROWS)
    batch = job.train_batch(0, rows)
    assert job.check_batch(batch) == []
    job.train_batch(3, rows)
    for name, array in job.train_batch(0, rows).items():
        np.testing.assert_array_equal(array, batch[name])
    # The rows of one process are those of the whole batch.
    for name, array in job.train_batch(0, rows[1:3]).items():
        np.testing.assert_array_equal(array, batch[name][1:3])
    return batch
