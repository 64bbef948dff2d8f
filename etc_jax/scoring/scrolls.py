"""SCROLLS: seven data sets of long texts, each with one score (Shaham et al. 2022).

ROUGE of summaries is without stemmer, and their score the geometric mean of the means
of ROUGE-1, ROUGE-2 and ROUGE-L; questions with free answers have the F1 of SQuAD, those
with options and classes its exact match. The best of several references counts. The
official script refuses missing and surplus ids, as `Scores.require_same_ids` does.

    score=texts.scorer(scrolls.METRICS["qmsum"])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from etc_jax.base.rules import choice
from etc_jax.scoring import files, texts

# In the order of the leaderboard.
AVERAGED = {
    "gov_report": "rouge",
    "summ_screen_fd": "rouge",
    "qmsum": "rouge",
    "narrative_qa": "f1",
    "qasper": "f1",
    "quality": "exact_match",
    "contract_nli": "exact_match",
}
"""The name in `texts.METRICS` of each data set that the average is of."""
METRICS = AVERAGED | {"quality_hard": "exact_match"}
"""The same of all that have a score; that of QuALITY's hard questions is only shown."""


def gold_of(rows: Sequence[Mapping[str, Any]], where: str) -> list[dict[str, Any]]:
    """Records with `id` and `references`: rows of equal id are one record.

    Args:
      rows: of a release file, with `id` and `output`.
      where: words for where they are from.

    Raises:
      ValueError: naming `where` and the row, if it has no output, as in test files.
    """
    references: dict[str, list[str]] = {}
    for row, at in files.identified(rows, "id", where):
        output = files.field(row, "output", str, at)
        references.setdefault(row["id"], []).append(output)
    return [{"id": name, "references": some} for name, some in references.items()]


def official_metrics(
    data_set: str, predictions: Sequence[str], references: Sequence[Sequence[str]]
) -> dict[str, float]:
    """What the official script prints: per cent, rounded to four decimals.

    The script cuts texts into sentences by nltk, which only rougeLsum depends on; here
    a sentence is a line.

    Args:
      data_set: one of `METRICS`.
      predictions: texts.
      references: of each text, one or more.

    Returns:
      The metrics, `num_predicted`, `mean_prediction_length_characters`, and
      `scrolls_score`, which only the data sets of the average have.

    Raises:
      ValueError: if there is no such data set or no text, or there are not as many of
        both.
      extras.MissingExtraError: if rouge-score is needed and not installed.
    """
    choice(METRICS).check(data_set=data_set)
    if len(predictions) != len(references):
        raise ValueError(
            f"{len(predictions)} predictions with references for {len(references)}; "
            "expected as many of each"
        )
    gold = [{"id": str(i), "references": some} for i, some in enumerate(references)]
    written = {str(i): text for i, text in enumerate(predictions)}
    metric = texts.METRICS[METRICS[data_set]]
    metrics = metric.score(gold, written).metrics
    prefix = f"{METRICS[data_set]}/" if len(metrics) > 1 else ""
    official = {prefix + name: 100 * value for name, value in metrics.items()}
    official["num_predicted"] = len(predictions)
    lengths = sum(map(len, predictions))
    official["mean_prediction_length_characters"] = lengths / len(predictions)
    official = {name: round(value, 4) for name, value in official.items()}
    if data_set in AVERAGED:
        official["scrolls_score"] = official[prefix + metric.headline]
    return official


def average(scores: Mapping[str, float]) -> float:
    """The score of the benchmark, the mean over the seven data sets of `AVERAGED`.

    Args:
      scores: by data set, all in the same unit; that of quality_hard is left out.

    Raises:
      ValueError: if one is missing, or is of no data set of SCROLLS.
    """
    for data_set in scores:
        choice(METRICS).check(data_set=data_set)
    if missing := [name for name in AVERAGED if name not in scores]:
        raise ValueError(
            f"no score of {', '.join(missing)}; the average of SCROLLS is over all of "
            f"{', '.join(AVERAGED)}"
        )
    return sum(scores[name] for name in AVERAGED) / len(AVERAGED)
