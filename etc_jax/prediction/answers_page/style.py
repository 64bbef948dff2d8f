"""The frame and the looks of `etc_jax.prediction.answers_page`."""

import string

PAGE = string.Template("""\
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

# --p is a probability. Tints stay pale, so that marks stand out of them. Of a drawing
# --wide, --high, --x, --y, --w, --h and --f (font) are pixels of the web page, and
# --unit is what one of them is here.
STYLE = """\
:root {
  --paper: #fdfcf9; --ink: #1d1c1a; --quiet: #66635d; --line: #e3dfd6;
  --under: #b5afa2; --tint: 224 164 28; --most: 0.3;
  --mark: #ffc61a; --mark-ink: #1d1c1a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --paper: #171614; --ink: #e9e5dc; --quiet: #a39e93; --line: #34312c;
    --under: #6b665c; --tint: 190 138 28; --most: 0.35;
    --mark: #f0bd36; --mark-ink: #171614;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0; background: var(--paper); color: var(--ink);
  font: 1.0625rem/1.6 Charter, "Bitstream Charter", "Iowan Old Style", Georgia, serif;
}
main { max-width: 42rem; margin: 0 auto; padding: 2.5rem 1.25rem 5rem; }
.label, .number, .count, .more, footer {
  font: 0.8125rem/1.4 system-ui, sans-serif; color: var(--quiet);
}
.label { letter-spacing: 0.06em; text-transform: uppercase; margin: 0 0 0.25rem; }
.label .text { text-transform: none; letter-spacing: 0; }
a { color: inherit; text-decoration: underline 1px var(--under); }
a { text-underline-offset: 0.15em; }
a:hover, a:focus-visible { text-decoration-color: currentcolor; }
nav ol { margin: 0.5rem 0 0; padding-left: 1.5rem; }
article { border-top: 1px solid var(--line); margin-top: 3rem; padding-top: 1.75rem; }
main > article:first-child { border-top: 0; margin-top: 0; padding-top: 0; }
h2 { font-size: 1.5rem; line-height: 1.3; font-weight: 600; margin: 0 0 1.25rem; }
.answer { font-size: 1.25rem; line-height: 1.4; margin: 0 0 1.5rem; }
.sides {
  display: grid; grid-template-columns: repeat(auto-fit, minmax(15rem, 1fr));
  gap: 1.5rem 2rem; position: relative; left: 50%; translate: -50%;
  width: min(76rem, 100vw - 2.5rem);
}
.sides > div { max-height: 70vh; overflow: auto; }
.sides .answer { font-size: inherit; line-height: inherit; white-space: pre-wrap; }
.sides p { margin: 0 0 0.6rem; }
h2, p, li, summary, td { overflow-wrap: anywhere; }
h2, .answer, .passage, .text { unicode-bidi: isolate; }
mark {
  background: var(--mark); color: var(--mark-ink); border-radius: 0.15em;
  padding: 0.05em 0.15em; -webkit-box-decoration-break: clone;
  box-decoration-break: clone;
}
mark.kind { background: hsl(var(--hue) 75% 80%); }
mark.doubted { box-shadow: inset 0 -2px currentcolor; }
.rank {
  font: 700 0.6875rem/1 system-ui, sans-serif; vertical-align: super;
  margin-left: 0.2em;
}
.passage {
  background: rgb(var(--tint) / calc(var(--p, 0) * var(--most)));
  border-radius: 0.15em; -webkit-box-decoration-break: clone;
  box-decoration-break: clone;
}
.support { padding: 0.1em 0.15em; }
p.passage { margin: 0.6rem 0; white-space: pre-wrap; tab-size: 4; }
p.support {
  padding: 0.4rem 0.75rem; margin-left: -0.75rem; margin-right: -0.75rem;
  border-left: 3px solid rgb(var(--tint));
}
p.support > .number { display: block; color: inherit; }
.scored { --p: 1; }
:target { outline: 2px solid rgb(var(--tint)); outline-offset: 2px; }
article:target { outline: none; }
mark, .passage { scroll-margin: 30vh 0; }
.number { font-variant-numeric: tabular-nums; }
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
details details { border: 0; padding: 0.1rem 0; }
details details > summary { font: 0.8125rem/1.4 system-ui, sans-serif; }
details details > summary { color: var(--quiet); }
details p { margin: 0.4rem 0 0.3rem; }
.drawing {
  position: relative; left: 50%; translate: -50%; width: fit-content;
  max-width: calc(100vw - 2.5rem); margin: 0 0 1.75rem;
}
.frame { max-height: 80vh; overflow: auto; border: 1px solid var(--under); }
.sheet {
  --unit: clamp(0.8px, (100vw - 3rem) / var(--wide), 1px);
  position: relative; overflow: hidden;
  width: calc(var(--wide) * var(--unit)); height: calc(var(--high) * var(--unit));
}
.box {
  position: absolute; overflow: hidden; outline: 1px solid var(--line);
  left: calc(var(--x) * var(--unit)); top: calc(var(--y) * var(--unit));
  width: calc(var(--w) * var(--unit)); height: calc(var(--h) * var(--unit));
  font: calc(var(--f) * var(--unit))/1.2 system-ui, sans-serif;
  overflow-wrap: anywhere;
}
.box .rank {
  font: 700 max(0.7em, 0.5625rem)/0 system-ui, sans-serif; vertical-align: 0.2em;
}
.box > span { background: var(--paper); unicode-bidi: isolate; }
footer { margin-top: 3rem; }
footer p { margin: 0.5rem 0 0; }
@media print {
  details { break-inside: avoid; }
  .frame, .sides > div { max-height: none; overflow: visible; }
}
"""
