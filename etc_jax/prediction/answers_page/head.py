"""The head of a page: what answered, its scores, and which labels it confused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from etc_jax.prediction.answers_page.text import escaped, percent
from etc_jax.prediction.judging import Judged
from etc_jax.scoring.classification import Confusion

# Metrics that are shown at once; the others are folded.
_FEW_METRICS = 6
# Labels of a matrix that can be read; of more, the pairs that are confused most.
_MOST_LABELS = 30
_MOST_PAIRS = 30


def head(task: str, count: int, about: Mapping[str, str], judged: Judged | None) -> str:
    """The head.

    Args:
      task: name of the data set.
      count: of all answers.
      about: further facts by name, such as the model.
      judged: see `judging.judged`.
    """
    records = f"{count:,}"
    if judged is not None and (
        with_gold := sum(v is not None for v in judged.verdicts)
    ):
        records += (
            "" if with_gold == count else f", {with_gold:,} of them with a gold answer"
        )
    facts = {**about, "Records": records}
    lines = ["<header>", f"<h1>{escaped(task)}</h1>", '<dl class="facts">']
    lines += [
        f"<div><dt>{escaped(k)}</dt><dd>{escaped(x)}</dd></div>"
        for k, x in facts.items()
    ]
    lines.append("</dl>")
    if judged is not None:
        lines += _scores(judged)
    return "\n".join([*lines, "</header>"])


def _scores(judged: Judged) -> Iterator[str]:
    metrics = judged.scores.metrics
    yield _folded(metrics, judged.metric, "scores main")
    if judged.confusion is not None and len(judged.verdicts) > 1:
        yield from _confusion(judged.confusion)


def _metrics(metrics: Mapping[str, float], names: list[str]) -> str:
    return "".join(
        f"<div><dt>{escaped(name)}</dt><dd>{percent(metrics[name])}</dd></div>"
        for name in names
    )


def in_order(metrics: Iterable[str], metric: str) -> list[str]:
    """Names of metrics, the main one first."""
    return sorted(metrics, key=lambda name: name != metric)


def of_record(metrics: Mapping[str, float], metric: str) -> str:
    """The metrics of one record by itself, the main one first."""
    return _folded(metrics, metric, "own")


def _folded(metrics: Mapping[str, float], metric: str, kind: str) -> str:
    order = in_order(metrics, metric)
    shown = f'<dl class="{kind}">{_metrics(metrics, order[:_FEW_METRICS])}</dl>'
    if rest := order[_FEW_METRICS:]:
        shown += (
            f'<details class="metrics"><summary>{len(rest)} more metrics</summary>'
            f'<dl class="{kind}">{_metrics(metrics, rest)}</dl></details>'
        )
    return shown


# --- labels ---------------------------------------------------------------------------


def pair_of(confusion: Confusion | None, gold: str | None, predicted: str) -> str:
    """What a line has so that a cell of the matrix finds it; "" outside of a matrix."""
    labels = () if confusion is None else confusion.labels
    if gold not in labels or predicted not in labels:
        return ""
    return f"{labels.index(gold)} {labels.index(predicted)}"


def _confusion(confusion: Confusion) -> Iterator[str]:
    labels, counts = confusion
    if len(labels) > _MOST_LABELS:
        yield from _most_confused(confusion)
        return
    columns = "".join(f'<th scope="col">{escaped(x)}</th>' for x in labels)
    yield (
        '<p class="quiet" id="matrix">How often each label was predicted for each gold '
        "one. A number chooses its answers.</p>"
    )
    yield '<div class="matrix" role="group" aria-labelledby="matrix" tabindex="0">'
    yield '<table aria-labelledby="matrix">'
    corner = '<th scope="col">Gold&nbsp;↓ Predicted&nbsp;→</th>'
    yield f"<thead><tr>{corner}{columns}</tr></thead>\n<tbody>"
    for i, (label, row) in enumerate(zip(labels, counts, strict=True)):
        cells = "".join(_cell(count, sum(row), i, j) for j, count in enumerate(row))
        yield f'<tr><th scope="row">{escaped(label)}</th>{cells}</tr>'
    yield "</tbody></table></div>"


def _cell(count: int, total: int, i: int, j: int) -> str:
    kind = "hit" if i == j else "miss"
    share = count / total if total else 0.0
    shown = _chooser(count, i, j) if count else "0"
    return f'<td class="{kind}" style="--p:{share:.3f}">{shown}</td>'


def _chooser(count: int, i: int, j: int) -> str:
    pair = f'data-pair="{i} {j}" aria-pressed="false"'
    return f'<button type="button" {pair}>{count:,}</button>'


def _most_confused(confusion: Confusion) -> Iterator[str]:
    """The wrong pairs that are the most frequent, as a list."""
    labels, counts = confusion
    pairs = [
        (counts[i][j], i, j)
        for i in range(len(labels))
        for j in range(len(labels))
        if i != j and counts[i][j]
    ]
    pairs.sort(key=lambda pair: (-pair[0], *pair[1:]))
    yield f'<p class="label">Confused most, of {len(labels)} labels</p>'
    yield '<table class="pairs"><thead><tr><th scope="col">Gold</th>'
    yield '<th scope="col">Predicted</th><th scope="col">Count</th></tr></thead><tbody>'
    for count, i, j in pairs[:_MOST_PAIRS]:
        gold, predicted = escaped(labels[i]), escaped(labels[j])
        cells = (gold, predicted, _chooser(count, i, j))
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    yield "</tbody></table>"
