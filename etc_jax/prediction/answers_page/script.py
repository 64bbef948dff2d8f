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
const records = [...list.querySelectorAll(":scope > article")].map((node, page) => ({
  node, page, file: Number(node.id.slice(7)), text: null,
  sure: node.dataset.sure === undefined ? NaN : Number(node.dataset.sure),
}));
const last = (x, y) => isNaN(x.sure) - isNaN(y.sure);
const orders = {
  page: (x, y) => x.page - y.page,
  file: (x, y) => x.file - y.file,
  sure: (x, y) => last(x, y) || y.sure - x.sure || x.page - y.page,
  unsure: (x, y) => last(x, y) || x.sure - y.sure || x.page - y.page,
};
const cells = [...document.querySelectorAll("button[data-pair]")];
let pair = "", order = form.elements.order.value, timer = 0;

function show() {
  const chosen = new FormData(form), state = chosen.get("state") || "";
  const words = chosen.get("text").toLowerCase().split(/\\s+/).filter(Boolean);
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
    list.append(...[...records].sort(orders[order]).map((record) => record.node));
  }
  form.querySelector("output").textContent =
    `${count.toLocaleString("en")} of ${records.length.toLocaleString("en")} shown`;
}

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
