"""The frame and the looks of a page of answers."""

import string

PAGE = string.Template("""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-$digest'">
<title>$title</title>
<style>
$style</style>
</head>
<body>
<main>
$body
</main>
<script>$script</script>
</body>
</html>
""")

# --p is a probability. Tints stay pale, so that marks stand out of them. Of a drawing
# --wide, --high, --x, --y, --w, --h and --f (font) are pixels of the web page, and
# --unit is what one of them is here.
_BASE = """\
:root {
  --paper: #fdfcf9; --ink: #1d1c1a; --quiet: #66635d; --line: #e3dfd6;
  --under: #b5afa2; --tint: 224 164 28; --most: 0.3;
  --mark: #ffc61a; --mark-ink: #1d1c1a;
  --right: #17693a; --partly: #7a5200; --wrong: #a8261b; --field: #fff;
  --sans: system-ui, sans-serif;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #171614; --ink: #e9e5dc; --quiet: #a39e93; --line: #34312c;
    --under: #6b665c; --tint: 190 138 28; --most: 0.35;
    --mark: #f0bd36; --mark-ink: #171614;
    --right: #7dce9b; --partly: #e3bb62; --wrong: #ff9d90; --field: #201f1c;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1.0625rem/1.6 Charter, "Bitstream Charter", "Iowan Old Style", Georgia, serif;
}
main { max-width: 78.5rem; margin: 0 auto; padding: 2rem 1.25rem 5rem; }
.label, .number, .count, .more, .tag, .note, .columns, .id, footer {
  font: 0.8125rem/1.4 var(--sans); color: var(--quiet);
}
.label { letter-spacing: 0.06em; text-transform: uppercase; margin: 0 0 0.25rem; }
.label .text { text-transform: none; letter-spacing: 0; }
a { color: inherit; text-decoration: underline 1px var(--under); }
a { text-underline-offset: 0.15em; }
a:hover, a:focus-visible { text-decoration-color: currentcolor; }
h1, h2, p, li, summary, td, dd, .cell { overflow-wrap: anywhere; }
th { overflow-wrap: break-word; }
h2, .answer, .passage, .text { unicode-bidi: isolate; }
:target { outline: 2px solid rgb(var(--tint)); outline-offset: 2px; }
.number { font-variant-numeric: tabular-nums; }
.right { color: var(--right); }
.partly { color: var(--partly); }
.wrong { color: var(--wrong); }
footer { margin-top: 3rem; max-width: 42rem; }
footer p { margin: 0.5rem 0 0; }
"""

_HEAD = """\
h1 { font-size: 1.5rem; line-height: 1.3; font-weight: 600; margin: 0 0 0.5rem; }
dl, dd { margin: 0; }
dt { color: var(--quiet); }
.facts, .scores, .own, .matrix, .pairs, .controls, header summary {
  font: 0.875rem/1.4 var(--sans);
}
.facts, .scores, .own { display: flex; flex-wrap: wrap; gap: 0.25rem 1.5rem; }
.facts > div, .own > div { display: flex; flex-wrap: wrap; gap: 0 0.4rem; }
.scores { margin: 1rem 0; gap: 0.75rem 2rem; }
.scores dd { font-size: 1.25rem; font-variant-numeric: tabular-nums; }
.scores.main > :first-child dd { font-weight: 700; }
.own { margin: 0 0 1rem; }
header .metrics { padding: 0; }
header .metrics:not([open]) { margin-bottom: 0.75rem; }
header summary { color: var(--quiet); }
.note {
  border-left: 3px solid rgb(var(--tint)); padding: 0.25rem 0.75rem; margin: 1rem 0;
  color: inherit; max-width: 42rem;
}
.matrix { overflow: auto; max-height: 80vh; margin: 0.25rem 0 1rem; }
.quiet { font: 0.875rem/1.4 var(--sans); color: var(--quiet); margin: 0; }
table { border-collapse: collapse; }
th, td { padding: 0.25rem 0.6rem; border: 1px solid var(--line); text-align: right; }
th { font-weight: 400; max-width: 9rem; min-width: 3.5rem; }
.pairs th, .pairs td { text-align: left; }
td { background: rgb(var(--tint) / calc(var(--p, 0) * var(--most))); }
td.hit { outline: 1px solid var(--under); outline-offset: -1px; }
td button, .found button {
  font: inherit; color: inherit; background: none; border: 0; padding: 0;
  text-decoration: underline 1px var(--under); cursor: pointer;
}
td button { min-width: 1.5rem; min-height: 1.5rem; text-align: inherit; }
button[aria-pressed="true"] { outline: 2px solid currentcolor; outline-offset: 2px; }
"""

_ROWS = """\
.controls {
  display: flex; flex-wrap: wrap; gap: 0.6rem 1.5rem; align-items: center;
  border-top: 1px solid var(--line); margin-top: 1.5rem; padding: 0.75rem 0;
}
.controls[hidden], article[hidden] { display: none; }
.states {
  border: 0; margin: 0; padding: 0; display: flex; flex-wrap: wrap; gap: 0.25rem 1rem;
}
legend { float: left; padding: 0; color: var(--quiet); }
.states b { font-weight: 400; color: var(--quiet); }
.controls input[type="search"], .controls select {
  font: inherit; color: inherit; background: var(--field); max-width: 100%;
  border: 1px solid var(--under); border-radius: 0.25rem; padding: 0.25rem 0.5rem;
}
::placeholder { color: var(--quiet); opacity: 1; }
.found { margin: 0; color: var(--quiet); }
.records > article {
  border-top: 1px solid var(--line);
  content-visibility: auto; contain-intrinsic-size: auto 3.5rem;
}
article > details { border: 0; padding: 0; }
article > details > summary, .columns {
  display: grid; gap: 0 1.25rem; align-items: baseline; position: relative;
  padding: 0.55rem 0 0.55rem 1.1rem; text-indent: 0; font-weight: 400;
  grid-template-columns: minmax(0, 3fr) minmax(0, 2fr) 5.5rem;
}
.judged > article > details > summary, .columns.judged {
  grid-template-columns: 7rem minmax(0, 3fr) minmax(0, 2fr) minmax(0, 2fr) 5.5rem;
}
.columns { padding-bottom: 0.25rem; }
.columns > :last-child { text-align: right; }
article > details > summary::before {
  content: "▸"; position: absolute; left: 0; color: var(--quiet);
  font: 1rem/1.45 var(--sans); top: 0.55rem;
}
article > details[open] > summary::before { content: "▾"; }
article > details > summary::-webkit-details-marker { display: none; }
h2 { font-size: 1rem; font-weight: 600; margin: 0; }
h2.snippet { font-weight: 400; }
.cell, h2 { line-height: 1.45; }
.cell .text, h2 {
  display: -webkit-box; -webkit-box-orient: vertical; -webkit-line-clamp: 2;
  line-clamp: 2; overflow: hidden;
}
[open] > summary .text { -webkit-line-clamp: 6; line-clamp: 6; }
[open] > summary h2.snippet, [open]:has(.sides) > summary .text {
  -webkit-line-clamp: 2; line-clamp: 2;
}
.of {
  position: absolute; width: 1px; height: 1px; overflow: hidden;
  clip-path: inset(50%);
}
.by { display: none; font-weight: 400; color: var(--quiet); }
.sure { font: 0.875rem/1.45 var(--sans); text-align: right; }
.state { font: 600 0.875rem/1.45 var(--sans); }
.open { color: var(--quiet); }
@media (max-width: 47.99rem) {
  .columns { display: none; }
  article > details > summary, .judged > article > details > summary {
    grid-template-columns: auto 1fr; gap: 0.1rem 1rem;
  }
  .of {
    position: static; width: auto; height: auto; clip-path: none;
    font: 0.8125rem/1.4 var(--sans); color: var(--quiet);
  }
  summary h2 { order: 1; grid-column: 1 / -1; }
  .said, .gold { order: 2; grid-column: 1 / -1; display: flex; gap: 0.4rem; }
  .said, .gold { align-items: baseline; }
  .said .of, .gold .of { flex: 0 0 4.25rem; }
  .sure { grid-column: 2; }
  .sure .text { display: inline; }
}
"""

_ARTICLE = """\
.body { padding: 0.5rem 0 2rem 1.1rem; }
.body > * { max-width: 42rem; }
.body > .sides, .body > .drawing, .body > .own { max-width: 100%; }
.pair { display: flex; flex-wrap: wrap; gap: 0 3rem; }
.pair > div { min-width: 0; }
.answer { font-size: 1.25rem; line-height: 1.4; margin: 0 0 1.25rem; }
.sides {
  display: grid; gap: 1.5rem 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(15rem, 100%), 1fr));
}
.sides > div { max-height: 70vh; overflow: auto; }
.sides .answer { font-size: inherit; line-height: inherit; white-space: pre-wrap; }
.sides p { margin: 0 0 0.6rem; }
.body .sides details { border: 0; padding: 0; margin: 0 0 0.6rem; }
.body .sides details > summary { font: 0.8125rem/1.4 var(--sans); color: var(--quiet); }
mark {
  background: var(--mark); color: var(--mark-ink); border-radius: 0.15em;
  padding: 0.05em 0.15em; -webkit-box-decoration-break: clone;
  box-decoration-break: clone;
}
.sides mark:not(.kind) {
  background: rgb(var(--tint) / var(--most)); color: inherit; padding: 0.05em 0;
}
.sides mark .rank { font-weight: 400; margin: 0 0.1em; }
.sides a { text-decoration: none; }
.sides a:hover mark, .sides a:focus-visible mark {
  text-decoration: underline; text-underline-offset: 0.15em;
}
.sides .answer + .answer { border-top: 1px solid var(--line); padding-top: 0.6rem; }
::highlight(searched) { background: var(--mark); color: var(--mark-ink); }
mark.kind { background: hsl(var(--hue) 75% 80%); }
mark.doubted { box-shadow: inset 0 -2px currentcolor; }
.rank {
  font: 700 0.6875rem/1 var(--sans); vertical-align: super; margin-left: 0.2em;
}
.tag {
  color: var(--right); border: 1px solid currentcolor; border-radius: 0.2rem;
  padding: 0 0.25rem; font-size: 0.6875rem; vertical-align: 0.1em; white-space: nowrap;
}
.passage {
  background: rgb(var(--tint) / calc(var(--p, 0) * var(--most)));
  border-radius: 0.15em; -webkit-box-decoration-break: clone;
  box-decoration-break: clone;
}
.support { padding: 0.1em 0.15em; }
.wanted { text-decoration: underline 2px dotted var(--right); }
.wanted { text-underline-offset: 0.2em; }
p.passage { margin: 0.6rem 0; white-space: pre-wrap; tab-size: 4; }
p.support, p.wanted { padding: 0.4rem 0.75rem; margin-inline: -0.75rem; }
p.support { border-left: 3px solid rgb(var(--tint)); }
p.wanted { text-decoration: none; border-right: 3px dotted var(--right); }
p.support > .number { display: block; color: inherit; }
.scored { --p: 1; }
mark, .passage { scroll-margin: 30vh 0; }
.candidates, .places { margin: 0 0 1.75rem; padding: 0; list-style: none; }
.candidates li { margin-top: 0.35rem; padding: 0.1rem 0 0.2rem; position: relative; }
.candidates li::after {
  content: ""; position: absolute; left: 0; bottom: 0; height: 2px;
  width: calc(var(--p) * 100%); background: rgb(var(--tint));
}
.candidates .more { margin-top: 0.6rem; }
.candidates .more::after { content: none; }
.places li { margin-top: 0.25rem; line-height: 1.45; }
details { border-top: 1px solid var(--line); padding: 0.7rem 0; }
summary {
  cursor: pointer; font-weight: 600; padding-left: 1.1rem; text-indent: -1.1rem;
}
summary * { text-indent: 0; }
.body details details { border: 0; padding: 0.1rem 0; }
.body details details > summary, .metrics > summary {
  font: 0.8125rem/1.4 var(--sans); color: var(--quiet);
}
.metrics { border: 0; padding: 0; margin: -0.5rem 0 1rem; }
details p { margin: 0.4rem 0 0.3rem; }
.drawing { width: fit-content; margin: 0 0 1.75rem; }
.frame { max-height: 80vh; overflow: auto; border: 1px solid var(--under); }
.sheet {
  --unit: clamp(0.9px, (100vw - 4.5rem) / var(--wide), 1px);
  position: relative; overflow: hidden;
  width: calc(var(--wide) * var(--unit)); height: calc(var(--high) * var(--unit));
}
.box {
  position: absolute; overflow: hidden; outline: 1px solid var(--line);
  left: calc(var(--x) * var(--unit)); top: calc(var(--y) * var(--unit));
  width: calc(var(--w) * var(--unit)); height: calc(var(--h) * var(--unit));
  font: calc(var(--f) * var(--unit))/1.2 var(--sans); overflow-wrap: anywhere;
}
.box .rank {
  font: 700 max(0.7em, 0.5625rem)/0 var(--sans); vertical-align: 0.2em;
}
.box > span { background: var(--paper); unicode-bidi: isolate; }
@media (max-width: 47.99rem) {
  .body { padding-left: 0; }
  p.support, p.wanted { margin-inline: 0; }
}
@media print {
  details { break-inside: avoid; }
  .controls { display: none; }
  .frame, .matrix, .sides > div { max-height: none; overflow: visible; }
}
"""

MOST_METRICS = 8
"""Metrics that lines can be put in order by: a page shows the one that is chosen."""

_CHOSEN = ",\n".join(
    f'[data-by="{i}"] .by:nth-of-type({i + 2})' for i in range(MOST_METRICS)
)
STYLE = f"{_BASE}{_ARTICLE}{_HEAD}{_ROWS}{_CHOSEN} {{ display: block; }}\n"
