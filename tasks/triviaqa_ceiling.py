"""What the best possible model would score on TriviaQA; see `tasks.ceiling`."""

from __future__ import annotations

import os
from collections.abc import Sequence

from etc_jax.data.tokenizer import Tokenizer
from etc_jax.scoring.triviaqa import normalize
from tasks import triviaqa
from tasks.ceiling_report import Ceiling, Loss
from tasks.multihop import Sizes
from tasks.records import BadRecordError, Problems


def triviaqa_ceiling(
    paths: Sequence[str | os.PathLike], tokenizer: Tokenizer, sizes: Sizes
) -> Ceiling:
    """The ceiling of TriviaQA files.

    Raises:
      ValueError: if there is no record, or one has no gold answer.
      OSError: if a file cannot be read.
    """
    problems, losses, gold = Problems(), [], []
    predictions: dict[str, str] = {}
    for record in triviaqa.read(paths, problems):
        gold.append(triviaqa.official_gold(record))
        try:
            windows = triviaqa.features(record, tokenizer, sizes)
        except BadRecordError as e:
            losses.append(Loss(record.id, str(e)))
            continue
        predictions |= triviaqa.decode(triviaqa.gold_outputs(windows), windows)
        answer = predictions[record.id]
        if normalize(answer) not in map(normalize, record.aliases):
            why = windows[0].unusable or f"tokens say {answer!r}"
            losses.append(Loss(record.id, f"{record.aliases[0]!r}: {why}"))
    return Ceiling(triviaqa.score(gold, predictions), tuple(losses), problems)
