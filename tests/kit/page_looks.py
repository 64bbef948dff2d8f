"""What a page looks like in a browser: texts, their colours, what reaches out of it."""

import re

# Of text to what is behind it (WCAG 2.1, level AA).
LEAST_CONTRAST = 4.5

# Of every text that is shown: the text, its colour, and colours behind it.
TEXTS = """
(() => {
  const behind = (node) => node ? [getComputedStyle(node).backgroundColor,
                                   ...behind(node.parentElement)] : [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = [];
  while (walker.nextNode()) {
    const parent = walker.currentNode.parentElement;
    if (walker.currentNode.data.trim() && parent.checkVisibility())
      found.push({text: walker.currentNode.data, ink: getComputedStyle(parent).color,
                  behind: behind(parent)});
  }
  return found;
})()
"""
# A browser may skip the text of what is not yet scrolled to.
OPEN = """
document.querySelectorAll('article > details').forEach((x) => {
  x.open = true;
  x.parentNode.style.contentVisibility = 'visible';
})
"""
UNFOLD = "document.querySelectorAll('details').forEach((node) => { node.open = true; })"
# Elements that reach beyond the window, once all is unfolded. Drawings and matrices lie
# in frames that scroll.
OVERFLOWING = """
[...document.body.querySelectorAll(':not(.frame *, .matrix *)')]
  .filter((node) => [...node.getClientRects()].some(
    (box) => box.width && (box.left < 0 || box.right > innerWidth + 0.5)))
  .map((node) => node.outerHTML.slice(0, 200))
"""


def colour(text):
    """(red, green, blue, opacity) of a colour as the browser spells it."""
    numbers = [float(x) for x in re.findall(r"[\d.]+", text)]
    assert text.startswith("rgb") and len(numbers) in (3, 4), text
    return (*numbers, 1.0)[:4]


def background(layers):
    """The colour that is seen of some, the foremost first."""
    seen = (255.0, 255.0, 255.0)
    for *own, opacity in map(colour, reversed(layers)):
        both = zip(own, seen, strict=True)
        seen = tuple(opacity * a + (1 - opacity) * b for a, b in both)
    return seen


def luminance(seen):
    """Relative luminance (WCAG 2.1): 0 of black, 1 of white."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (x / 255 for x in seen)
    ]
    return sum(a * b for a, b in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one, other):
    """Contrast ratio (WCAG 2.1), from 1 to 21."""
    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)
