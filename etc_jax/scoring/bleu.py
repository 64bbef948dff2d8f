"""BLEU of a corpus as sacreBLEU has it (Papineni et al. 2002; Post 2018).

Papers on WMT14 (Vaswani et al. 2017; Kitaev et al. 2020) report that of Moses' tokens,
compounds cut at their hyphens, or both: they are not to be compared.

A score of all sentences together: n-grams and lengths are summed before anything is
divided, so that it is no mean over sentences.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from etc_jax.base import extras
from etc_jax.base.rules import choice
from etc_jax.scoring.references import check_references, check_several, written
from etc_jax.scoring.result import Scores

TOKENIZERS = ("13a", "intl", "char", "zh", "none")
_HYPHEN = re.compile(r"(\S)-(\S)")


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
        # It warns of text that is tokenised already, which is meant so.
        force=tokenize == "none",
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


def moses_tokens(text: str, language: str) -> str:
    """A text as WMT14's tokenised BLEU has it, tokens with a space between.

    They are those of Moses' tokenizer.perl, and compounds are cut at their hyphens
    (`rich ##AT##-##AT## text`), as in get_ende_bleu.sh of tensor2tensor.

    Args:
      text: detokenised.
      language: of the text, such as "de".

    Raises:
      extras.MissingExtraError: if sacremoses is not installed.
    """
    tokens = _moses(language).tokenize(text, return_str=True, escape=False)
    return _HYPHEN.sub(r"\1 ##AT##-##AT## \2", tokens)


@functools.cache
def _moses(language: str):
    moses = extras.needed(
        "sacremoses", extra="metrics", to="work out the BLEU of Moses' tokens"
    )
    return moses.MosesTokenizer(lang=language)


def score(
    gold: Sequence[Mapping[str, Any]],
    predictions: Mapping[str, str],
    *,
    language: str | None = None,
) -> Scores:
    """`bleu` and `bleu_uncased` of all records together, and their signatures.

    Args:
      gold: records with `id` and `references`, one text or more.
      predictions: texts by record id; a record without one is an empty text.
      language: of the texts, for `bleu_tokenised` besides, that of `moses_tokens`;
        None: without.

    Raises:
      ValueError: if there is no record, or a value is not as it should be; names it.
      extras.MissingExtraError: if sacrebleu is not installed, or sacremoses where
        there is a language.
    """
    records = list(check_references(gold, "gold"))
    texts = written(records, predictions, "predictions")
    references = [of_record for _, of_record in records]
    bleus = {
        "bleu": corpus_bleu(texts, references),
        "bleu_uncased": corpus_bleu(texts, references, lowercase=True),
    }
    if language is not None:
        tokens = functools.partial(moses_tokens, language=language)
        bleus["bleu_tokenised"] = corpus_bleu(
            [*map(tokens, texts)],
            [[*map(tokens, of_record)] for of_record in references],
            tokenize="none",
        )
    return Scores.of(
        {name: bleu.score for name, bleu in bleus.items()},
        [identity for identity, _ in records],
        {"text": predictions},
        {name: bleu.signature for name, bleu in bleus.items()},
    )
