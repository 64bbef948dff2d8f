"""Pre-training of an encoder-decoder on text with something missing, as a job."""

from __future__ import annotations

from collections.abc import Callable

from etils import epath

from etc_jax.base import registry
from etc_jax.config import Config
from etc_jax.data.text.denoised import DenoisedRows, Denoising, Marks, sentinels_of
from etc_jax.data.text.reader import RowBuilder
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.formats.text_to_text import end_id
from etc_jax.objectives.jobs import readers as reader_job, seq2seq as pairs_job
from etc_jax.objectives.jobs.readers import Readers
from etc_jax.objectives.sections import DenoisingConfig

OBJECTIVE = "denoising"


def task_of(asked: DenoisingConfig) -> Denoising:
    """What is missing, by the section of a config."""
    return Denoising(
        asked.kind,
        asked.spans,
        asked.permute_sentences,
        asked.gap_choice,
        asked.unique_tokens,
    )


def marks_of(tokenizer: Tokenizer, rows: int, *, begin_token: bool) -> Marks:
    """Ids that are no text, in a vocabulary.

    Args:
      tokenizer: the vocabulary.
      rows: of the model's token table, see `denoised.sentinels_of`.
      begin_token: texts begin with the first token of the vocabulary.

    Raises:
      ValueError: if the vocabulary lacks the first or the last token.
    """
    has_mask = tokenizer.special.mask is not None
    return Marks(
        tokenizer.special_id("cls") if begin_token else None,
        end_id(tokenizer),
        tokenizer.special_id("mask") if has_mask else None,
        sentinels_of(tokenizer, rows),
    )


@registry.register("reader", f"{OBJECTIVE}/text")
def _of_text(config: Config, folder: epath.Path) -> Readers:
    data, asked = config.data, config.objective
    task = task_of(asked)

    def rows(marks: Marks) -> DenoisedRows:
        sizes = {
            "input_length": data.input_length,
            "target_length": data.target_length,
        }
        return DenoisedRows(marks, task, **sizes)

    return of_marked_text(config, folder, rows)


def of_marked_text(
    config: Config, folder: epath.Path, rows_fn: Callable[[Marks], RowBuilder]
) -> Readers:
    """Windows of text that are put between a first and a last token.

    Args:
      config: of the run, with a section that is a `MissingTextConfig`.
      folder: see `readers.of_text`.
      rows_fn: of the ids that are no text -> how windows become rows.

    Raises:
      ImportError, OSError, ValueError: see `readers.of_text`.
    """
    begin_token = config.objective.begin_token

    def rows(tokenizer: Tokenizer) -> RowBuilder:
        pairs_job.check_end(config, tokenizer)
        size = config.model.vocab_size
        return rows_fn(marks_of(tokenizer, size, begin_token=begin_token))

    # Room for the first and the last token.
    length = config.data.input_length - 1 - begin_token
    return reader_job.of_text(config, folder, rows, length)


# Of texts with something missing, too, pairs are made.
registry.register("objective", OBJECTIVE)(pairs_job.make_job)
