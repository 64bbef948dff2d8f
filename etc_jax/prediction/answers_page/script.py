"""The script of a page: filters, search and order. Without it all answers are shown.

It is the only one that the page's policy lets run: the policy has its digest. It reads
texts of the page and never writes any.
"""

import base64
import hashlib

SCRIPT = """\
"use strict";
(() => {
const form = document.querySelector(".controls");
const list = document.querySelector(".records");
if (!form) return;
const searched = window.Highlight && CSS.highlights ? new Highlight() : null;
if (searched) CSS.highlights.set("searched", searched);
const MOST_PLACES = 10000;
const records = [...list.querySelectorAll(":scope > article")].map((node, page) => ({
  node, page, file: Number(node.id.slice(7)), text: null,
  sure: node.dataset.sure === undefined ? NaN : Number(node.dataset.sure),
  metrics: (node.dataset.metrics ?? "").split(" ").map((x) => x ? Number(x) : NaN),
}));
const by = (value, sign) => (x, y) => {
  const [a, b] = [value(x) ?? NaN, value(y) ?? NaN];
  return isNaN(a) - isNaN(b) || sign * (a - b) || x.page - y.page;
};
const orders = {
  page: () => by((x) => x.page, 1),
  file: () => by((x) => x.file, 1),
  sure: () => by((x) => x.sure, -1),
  unsure: () => by((x) => x.sure, 1),
  lowest: (i) => by((x) => x.metrics[i], 1),
  highest: (i) => by((x) => x.metrics[i], -1),
};
const cells = [...document.querySelectorAll("button[data-pair]")];
let pair = "", order = form.elements.order.value, timer = 0;

const searchedWords = () => form.elements.text.value.toLowerCase().split(/\\s+/)
  .filter(Boolean);

// Where an open answer has the words: they are unfolded, and columns go to the first.
function light(node, words) {
  const walker = document.createTreeWalker(node, NodeFilter.SHOW_TEXT);
  const columns = new Set();
  while (walker.nextNode() && searched.size < MOST_PLACES) {
    const text = walker.currentNode, small = text.data.toLowerCase();
    if (small.length !== text.data.length) continue;  // its letters are elsewhere
    for (const word of words) {
      for (let at = 0; (at = small.indexOf(word, at)) >= 0; at += word.length) {
        const range = new Range();
        range.setStart(text, at);
        range.setEnd(text, at + word.length);
        searched.add(range);
        const parent = text.parentNode, column = parent.closest(".sides > div");
        let fold;
        while ((fold = parent.closest("details:not([open])"))) fold.open = true;
        if (!column || columns.has(column)) continue;
        columns.add(column);
        const [place, box] = [range, column].map((x) => x.getBoundingClientRect());
        column.scrollTop += place.top - box.top - box.height / 3;
      }
    }
  }
}

function lightAll() {
  if (!searched) return;
  searched.clear();
  const words = searchedWords();
  if (!words.length) return;
  for (const { node } of records) {
    if (!node.hidden && node.firstElementChild.open) light(node, words);
  }
}

function show() {
  const chosen = new FormData(form), state = chosen.get("state") || "";
  const words = searchedWords();
  let count = 0;
  for (const record of records) {
    const data = record.node.dataset;
    let fits = (!state || data.state === state) && (!pair || data.pair === pair);
    if (fits && words.length) {
      record.text ??= record.node.textContent.toLowerCase();
      fits = words.every((word) => record.text.includes(word));
    }
    record.node.hidden = !fits;
    count += fits;
  }
  for (const cell of cells) {
    cell.setAttribute("aria-pressed", cell.dataset.pair === pair);
  }
  if (chosen.get("order") !== order) {
    order = chosen.get("order");
    const [name, metric] = order.split(" ");
    const sorted = [...records].sort(orders[name](metric));
    list.append(...sorted.map((record) => record.node));
    list.dataset.by = metric ?? "";
  }
  form.querySelector("output").textContent =
    `${count.toLocaleString("en")} of ${records.length.toLocaleString("en")} shown`;
  lightAll();
}

// It does not rise to the list.
list.addEventListener("toggle", (event) => {
  if (event.target.parentNode.parentNode === list) lightAll();
}, true);
form.addEventListener("change", show);
form.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(show, 150);
});
form.addEventListener("reset", () => { pair = ""; setTimeout(show); });
form.addEventListener("submit", (event) => { event.preventDefault(); show(); });
for (const cell of cells) {
  cell.addEventListener("click", () => {
    pair = pair === cell.dataset.pair ? "" : cell.dataset.pair;
    show();
  });
}
form.hidden = false;
show();
})();
"""

DIGEST = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
"""Of the script, as a policy names it."""
