"""Answers as one page for a browser: the documents with what an answer rests on.

The page stands alone: no script, nothing from elsewhere, and a policy that says so.
Every text of a record is escaped.
"""

from __future__ import annotations

import html
import string
from collections.abc import Iterator, Sequence

from tasks.explained import Candidate, Document, Explained, Passage, score_text

# Less than this is not worth a tint.
_FAINT = 0.05
_SHOWN_CANDIDATES = 8

_PAGE = string.Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<main>
$body
</main>
</body>
</html>
""")

_STYLE = """\
:root {
  --paper: #fdfcf9; --ink: #1d1c1a; --quiet: #6c6963; --line: #e3dfd6;
  --tint: 224 164 28; --mark: #ffd44d; --mark-ink: #1d1c1a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #171614; --ink: #e9e5dc; --quiet: #9b968b; --line: #34312c;
    --tint: 190 138 28; --mark: #f0bd36; --mark-ink: #171614;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1.0625rem/1.6 Charter, "Bitstream Charter", "Iowan Old Style", Georgia, serif;
}
main { max-width: 42rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; }
.label, .number, summary .count, footer {
  font: 0.75rem/1.4 system-ui, sans-serif; color: var(--quiet);
}
.label { letter-spacing: 0.06em; text-transform: uppercase; margin: 0 0 0.25rem; }
.label .text { text-transform: none; letter-spacing: 0; }
nav ol { margin: 0.5rem 0 0; padding-left: 1.5rem; }
nav a { color: inherit; text-decoration-color: var(--line); }
article { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: 1.75rem; }
main > article:first-child { border-top: 0; margin-top: 0; padding-top: 0; }
h2 { font-size: 1.5rem; line-height: 1.3; font-weight: 600; margin: 0 0 1.25rem; }
.answer { font-size: 1.25rem; line-height: 1.4; margin: 0 0 1.5rem; }
h2, p, li, summary, td { overflow-wrap: anywhere; }
h2, .answer, .passage, .text { unicode-bidi: isolate; }
mark {
  background: var(--mark); color: var(--mark-ink); border-radius: 0.15em;
  padding: 0.05em 0.15em; -webkit-box-decoration-break: clone;
  box-decoration-break: clone;
}
.passage {
  background: rgb(var(--tint) / calc(var(--p, 0) * 0.5)); border-radius: 0.15em;
  -webkit-box-decoration-break: clone; box-decoration-break: clone;
}
.support { padding: 0.1em 0.15em; }
.scored { --p: 0.4; }
.number { margin-left: 0.3em; white-space: nowrap; font-variant-numeric: tabular-nums; }
.candidates { list-style: none; margin: 0 0 1.75rem; padding: 0; }
.candidates li { margin-top: 0.35rem; padding: 0.1rem 0 0.2rem; position: relative; }
.candidates li::after {
  content: ""; position: absolute; left: 0; bottom: 0; height: 2px;
  width: calc(var(--p) * 100%); background: rgb(var(--tint));
}
details { border-top: 1px solid var(--line); padding: 0.7rem 0; }
summary { cursor: pointer; font-weight: 600; }
details p { margin: 0.4rem 0 0.3rem; }
footer { margin-top: 3rem; }
@media print { details { break-inside: avoid; } }
"""


def page(answers: Sequence[Explained], *, task: str) -> str:
    """The page of some answers, as HTML.

    Args:
      answers: in the order in which they shall stand.
      task: name of the data set, for the title.
    """
    parts = [] if len(answers) < 2 else [_contents(answers)]
    parts += [_article(number, a) for number, a in enumerate(answers, start=1)]
    parts.append(_legend(answers))
    count = "1 answer" if len(answers) == 1 else f"{len(answers)} answers"
    return _PAGE.substitute(
        title=escaped(f"{task}: {count}"), style=_STYLE, body="\n".join(parts)
    )


def escaped(text: str) -> str:
    """A text as HTML shows it, wherever it stands."""
    # JSON can hold halves of a character, which UTF-8 cannot.
    whole = text.encode("utf-8", "replace").decode("utf-8")
    return html.escape(whole.replace("\0", "\ufffd"), quote=True)


def _contents(answers: Sequence[Explained]) -> str:
    items = [
        f'<li><a class="text" href="#answer-{number}">{escaped(a.question)}</a></li>'
        for number, a in enumerate(answers, start=1)
    ]
    label = f'<p class="label">{len(answers)} questions</p>'
    return "\n".join([f"<nav>\n{label}\n<ol>", *items, "</ol>\n</nav>"])


def _article(number: int, told: Explained) -> str:
    answer = escaped(told.answer) if told.answer else "<em>none</em>"
    if told.score is not None:
        answer += _score(told.score)
    lines = [
        f'<article id="answer-{number}">',
        f'<p class="label">Question <span class="text">{escaped(told.id)}</span></p>',
        f"<h2>{escaped(told.question)}</h2>",
        '<p class="label">Answer</p>',
        f'<p class="answer">{answer}</p>',
    ]
    if told.candidates:
        lines += _candidates(told.candidates)
    lines += [_document(document) for document in told.documents]
    return "\n".join([*lines, "</article>"])


def _candidates(candidates: Sequence[Candidate]) -> Iterator[str]:
    yield f'<p class="label">Among {len(candidates)} candidates</p>'
    yield '<ol class="candidates">'
    for candidate in candidates[:_SHOWN_CANDIDATES]:
        yield (
            f'<li style="--p:{candidate.probability:.3f}">'
            f'<span class="text">{escaped(candidate.text)}</span>'
            f"{_number(candidate.probability)}</li>"
        )
    yield "</ol>"


def _document(document: Document) -> str:
    passages = [document.title, *document.passages]
    is_open = any(p.is_support or p.marks for p in passages)
    support = sum(p.is_support for p in document.passages)
    count = f'<span class="count"> {support} supporting</span>' if support else ""
    title = _passage(document.title, may_be_tinted=False)
    text = " ".join(_passage(p) for p in document.passages)
    return (
        f"<details{' open' if is_open else ''}>\n<summary>{title}{count}</summary>\n"
        f"<p>{text}</p>\n</details>"
    )


def _passage(passage: Passage, *, may_be_tinted: bool = True) -> str:
    text = marked(passage.text, passage.marks)
    if passage.is_support and passage.score is not None:
        names, number = "passage support scored", _score(passage.score)
        return f'<span class="{names}">{text}</span>{number}'
    probability = passage.probability
    if not may_be_tinted or probability is None or probability < _FAINT:
        return f'<span class="passage">{text}</span>'
    names = "passage support" if passage.is_support else "passage"
    number = _number(probability) if passage.is_support else ""
    return f'<span class="{names}" style="--p:{probability:.3f}">{text}</span>{number}'


def marked(text: str, marks: Sequence[tuple[int, int]]) -> str:
    """A text, escaped, with some of its characters in `<mark>`.

    Args:
      text: as the record has it.
      marks: (first, one past the last) character, ascending and apart.
    """
    parts, at = [], 0
    for start, stop in marks:
        inside = escaped(text[start:stop])
        parts += [escaped(text[at:start]), f"<mark>{inside}</mark>"]
        at = stop
    return "".join([*parts, escaped(text[at:])]).strip()


def _number(probability: float) -> str:
    return f'<span class="number">{probability:.0%}</span>'


def _score(score: float) -> str:
    return f'<span class="number">score {score_text(score)}</span>'


def _legend(answers: Sequence[Explained]) -> str:
    if any(a.score is not None for a in answers):
        told = (
            "Marked: the answer. Tinted: the passage that shows it. A higher score is "
            "surer; scores have no scale, and every question has a best answer."
        )
    elif any(a.candidates for a in answers):
        told = "Marked: where a document mentions the chosen candidate."
    else:
        told = (
            "Tinted: sentences by the probability that they support the answer, with "
            "a number those that are taken as supporting. Marked: the answer."
        )
    return f"<footer>{told}</footer>"
