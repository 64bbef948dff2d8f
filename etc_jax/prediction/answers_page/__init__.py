"""Answers as one page for a browser: a line each, with what it rests on folded below.

The page stands alone: nothing comes from elsewhere, and a policy says so, which lets
one script run, that of `script.py`. Every text of a record is escaped. Where gold
answers are known, each stands beside the answer, and the worst answers come first.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence

from etc_jax.datasets.explained import Explained
from etc_jax.prediction.answers_page import head, rows
from etc_jax.prediction.answers_page.article import Article, hues
from etc_jax.prediction.answers_page.entries import OPEN, Entry, in_order
from etc_jax.prediction.answers_page.script import DIGEST, SCRIPT
from etc_jax.prediction.answers_page.style import MOST_METRICS, PAGE, STYLE
from etc_jax.prediction.answers_page.text import escaped
from etc_jax.prediction.judging import Judged

# Characters of all answers of a page: what a browser opens in seconds.
MOST_CHARS = 20_000_000


def page(
    answers: Sequence[Explained],
    *,
    task: str,
    about: Mapping[str, str] | None = None,
    judged: Judged | None = None,
    most_chars: int = MOST_CHARS,
) -> str:
    """The page of some answers, as HTML.

    Args:
      answers: in the order of their records.
      task: name of the data set, for the title.
      about: further facts for the head by name, such as the model.
      judged: how right the answers are; None: that is not known.
      most_chars: of the answers' HTML; those that come last are left out, and the page
        says so. One is always there.
    """
    entries = in_order(answers, judged)
    metrics = _metrics(judged)
    articles = _articles(entries, judged, metrics, most_chars)
    count = "1 answer" if len(answers) == 1 else f"{len(answers)} answers"
    parts = [head.head(task, len(answers), about or {}, judged)]
    if len(articles) < len(entries):
        parts.append(_left_out(len(articles), entries, judged))
    if len(articles) > 1:
        shown = entries[: len(articles)]
        parts.append(
            rows.controls(shown, with_gold=judged is not None, metrics=metrics)
        )
        parts.append(rows.columns(shown, with_gold=judged is not None))
    kind = "records" if judged is None else "records judged"
    parts += [f'<div class="{kind}">', *articles, "</div>", _footer(entries, judged)]
    return PAGE.substitute(
        title=escaped(f"{task}: {count}"),
        style=STYLE,
        script=SCRIPT,
        digest=DIGEST,
        body="\n".join(parts),
    )


def is_page(path: str | os.PathLike) -> bool:
    """Whether a file is a page that was made here."""
    start = PAGE.template.partition("$")[0].encode()
    with open(path, "rb") as file:
        return file.read(len(start)) == start


def _metrics(judged: Judged | None) -> list[str]:
    """Names of the metrics that answers can be put in order by, the main one first."""
    if judged is None:
        return []
    several = len(judged.verdicts) > 1 and len(judged.scores.metrics) > 1
    every = head.in_order(judged.scores.metrics, judged.metric) if several else []
    return every[:MOST_METRICS]


def _articles(
    entries: Sequence[Entry],
    judged: Judged | None,
    metrics: Sequence[str],
    most_chars: int,
) -> list[str]:
    colours = hues([entry.item for entry in entries])
    articles, count = [], 0
    for entry in entries:
        text = _article(
            entry,
            judged,
            metrics,
            Article(entry.name, entry.item, colours).html(),
            is_open=len(entries) == 1,
        )
        count += len(text)
        if articles and count > most_chars:
            break
        articles.append(text)
    return articles


def _article(
    entry: Entry,
    judged: Judged | None,
    metrics: Sequence[str],
    body: str,
    *,
    is_open: bool,
) -> str:
    attributes = f' id="{entry.name}" data-state="{entry.state}"'
    if entry.certainty is not None:
        attributes += f' data-sure="{entry.certainty:.6g}"'
    metrics_of_record = ""
    if judged is not None:
        item = entry.item
        pair = head.pair_of(judged.confusion, item.reference, item.answer)
        attributes += f' data-pair="{pair}"' if pair else ""
        if entry.verdict is not None:
            metrics_of_record = head.of_record(entry.verdict.metrics, judged.metric)
            shares = [entry.verdict.metrics.get(name, math.nan) for name in metrics]
            if shares:
                attributes += f' data-metrics="{" ".join(f"{x:.6g}" for x in shares)}"'
    row = rows.row(entry, with_gold=judged is not None, metrics=metrics)
    where = f"Record {entry.number}"
    if not entry.item.wording.headed_by_id:
        where += f' <span class="text">{escaped(entry.item.id)}</span>'
    return (
        f"<article{attributes}>\n<details{' open' if is_open else ''}>\n"
        f'<summary>\n{row}\n</summary>\n<div class="body">\n'
        f'<p class="label">{where}</p>\n{metrics_of_record}\n{body}\n</div>\n'
        "</details>\n</article>"
    )


def _left_out(shown: int, entries: Sequence[Entry], judged: Judged | None) -> str:
    which = "first" if judged is None else "worst"
    return (
        f'<p class="note">This page has the {shown:,} {which} of {len(entries):,} '
        "answers: a browser would take long to open all. The numbers above are of all "
        "of them. To see the others, give the command fewer records at a time; --json "
        "prints every answer.</p>"
    )


def _footer(entries: Sequence[Entry], judged: Judged | None) -> str:
    lines = list(dict.fromkeys(entry.item.wording.legend for entry in entries))
    if judged is not None:
        lines.append(
            "An answer is right if the official metrics of its record alone say so "
            f"({judged.metric}, if that is of single records), and partly right if "
            "they are between 0 and 100%."
        )
        if any(entry.state == OPEN for entry in entries):
            lines.append(
                "Not judged: records without a gold answer. Whether a model should "
                "have given none, one record alone does not say."
            )
    text = "\n".join(f"<p>{escaped(line)}</p>" for line in lines if line)
    return f"<footer>\n{text}\n</footer>"
