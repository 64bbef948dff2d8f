"""BLEU of a corpus as sacreBLEU has it (Papineni et al. 2002; Post 2018).

A score of all sentences together: n-grams and lengths are summed before anything is
divided, so that it is no mean over sentences.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.base import extras
from etc_jax.base.rules import choice
from etc_jax.scoring.references import check_references, check_several, written
from etc_jax.scoring.result import Scores

TOKENIZERS = ("13a", "intl", "char", "zh", "none")


class Bleu(NamedTuple):
    """What sacreBLEU finds.

    Attributes:
      score: 0..1; sacreBLEU itself prints it in per cent.
      precisions: of n-grams of 1 to 4 tokens, each in 0..1, smoothed as in the score.
      brevity_penalty: 0..1, a factor of the score.
      length: tokens of what was written.
      reference_length: tokens of the references that are nearest in length.
      signature: how the score was worked out, to be reported with it.
    """

    score: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    length: int
    reference_length: int
    signature: str


def corpus_bleu(
    texts: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> Bleu:
    """BLEU with exponential smoothing and without effective order.

    Args:
      texts: what was written, detokenised unless `tokenize` is "none".
      references: of each text, one or more.
      lowercase: whether case does not matter.
      tokenize: sacreBLEU's name for how text is cut into words, one of `TOKENIZERS`.

    Raises:
      ValueError: if there is no text, or one has no reference, or there is no such way
        to tell words apart.
      extras.MissingExtraError: if sacrebleu is not installed.
    """
    if not texts or len(texts) != len(references):
        raise ValueError(
            f"{len(texts)} texts with references for {len(references)}; expected as "
            "many of each, one or more"
        )
    for number, of_text in enumerate(references):
        check_several(of_text, f"references of text {number}")
    choice(TOKENIZERS).check(tokenize=tokenize)
    metrics = extras.needed("sacrebleu.metrics", extra="metrics", to="work out BLEU")
    metric = metrics.BLEU(
        lowercase=lowercase,
        tokenize=tokenize,
        smooth_method="exp",
        effective_order=False,
    )
    # It wants the first reference of every text, then the second one, and None where
    # there is none.
    streams = list(map(list, itertools.zip_longest(*references)))
    result = metric.corpus_score(list(texts), streams)
    return Bleu(
        # It comes out as 100.00000000000004.
        score=min(result.score / 100, 1.0),
        precisions=tuple(x / 100 for x in result.precisions),
        brevity_penalty=result.bp,
        length=result.sys_len,
        reference_length=result.ref_len,
        signature=str(metric.get_signature()),
    )


def score(gold: Sequence[Mapping[str, Any]], predictions: Mapping[str, str]) -> Scores:
    """`bleu` and `bleu_uncased` of all records together, and their signatures.

    Args:
      gold: records with `id` and `references`, one text or more.
      predictions: texts by record id; a record without one is an empty text.

    Raises:
      ValueError: if there is no record, or a value is not as it should be; names it.
      extras.MissingExtraError: if sacrebleu is not installed.
    """
    records = list(check_references(gold, "gold"))
    texts = written(records, predictions, "predictions")
    references = [of_record for _, of_record in records]
    bleus = {
        "bleu": corpus_bleu(texts, references),
        "bleu_uncased": corpus_bleu(texts, references, lowercase=True),
    }
    return Scores.of(
        {name: bleu.score for name, bleu in bleus.items()},
        [identity for identity, _ in records],
        {"text": predictions},
        {name: bleu.signature for name, bleu in bleus.items()},
    )
