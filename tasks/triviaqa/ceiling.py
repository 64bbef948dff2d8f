"""What the best possible model would score on TriviaQA; see `tasks.ceiling`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from etc_jax.data.tokenizer import Tokenizer
from etc_jax.formats.structured import Sizes
from etc_jax.scoring.triviaqa import normalize
from tasks import triviaqa
from tasks.ceiling_report import Ceiling, ceiling_of


def triviaqa_ceiling(
    paths: Sequence[str | os.PathLike], tokenizer: Tokenizer, sizes: Sizes
) -> Ceiling:
    """The ceiling of TriviaQA files.

    Raises:
      ValueError: if there is no record, or one has no gold answer.
      OSError: if a file cannot be read.
    """
    return ceiling_of(
        triviaqa.TASK, triviaqa.gold_outputs, paths, tokenizer, sizes, _losses
    )


def _losses(windows: Sequence[triviaqa.TriviaqaWindow], answer: str) -> Iterator[str]:
    [window] = windows
    names = window.record.aliases
    if normalize(answer) not in map(normalize, names):
        yield f"{names[0]!r}: {window.unusable or f'tokens say {answer!r}'}"
