"""Pages of answers in a real browser: what a person sees of them."""

import collections
import re

import pytest
from answers_page_samples import ENDLESS, EVIL, OPENKP_ELEMENTS, PAGES
from page_looks import (
    LEAST_CONTRAST,
    OPEN,
    OVERFLOWING,
    TEXTS,
    UNFOLD,
    background,
    colour,
    contrast,
    luminance,
)

from etc_jax.prediction.answers_page import page

WIDTHS = (1280, 390)
# From the colour of a mark to that around it, in steps of 255 along three axes.
LEAST_DISTANCE = 60.0

PROSE = (
    "The Old Mill, a listed building, is turned by the Tarn below the bridge of Ton.",
    "Ton is a market town in Norland. The capital of Norland is Norton, not Ton.",
    "Sudland is a country, to the south of Norland.",
    "the first mill of ton was built by ann lee in 1790 .",
    "A box kite1 is a kite of four sides . Lawrence Hargrave2 made the first box kite1 "
    "in 1893 .",
    "Kite festival3 in Ton",
    "Lawrence Hargrave2 box kite1",
    "The kite festival3 of Ton is held in May .",
    "May box kite1",
    "Lawrence Hargrave2",
)
# What is marked, and where it stands; keyphrases have their ranks behind them.
MARKS = {
    "hotpotqa": [("the Tarn", PROSE[0])],
    "wikihop": [("Norland", PROSE[1])] * 2 + [("Norland", PROSE[2])],
    "natural_questions": [("ann lee in 1790", PROSE[3])],
    "openkp": [
        *(("box kite1", PROSE[4]), ("Lawrence Hargrave2", PROSE[4])),
        *(("box kite1", PROSE[4]), ("Kite festival3", PROSE[5])),
        *(("Lawrence Hargrave2", PROSE[6]), ("box kite1", PROSE[6])),
        *(("kite festival3", PROSE[7]), ("box kite1", PROSE[8])),
        ("Lawrence Hargrave2", PROSE[9]),
    ],
}
# Lines under the headings of answers, in their order.
TOLD = {
    "hotpotqa": [
        "ANSWER the Tarn GOLD ANSWER the Tarn SUPPORTING SENTENCES",
        "Ann Lee: In 1840 her uncle left her the Old Mill, which she ran until it "
        "burned. 100% gold",
        "ANSWER yes GOLD ANSWER yes SUPPORTING SENTENCES Ton: Ton is a town in "
        "Norland. 100% gold",
    ],
    "wikihop": [
        "ANSWER norland GOLD ANSWER norland AMONG 14 CANDIDATES norland 100% gold "
        "eastland 0% sudland 0% and 11 more, 0% together MENTIONED IN Document 2 2 × "
        "Document 4",
    ],
    "natural_questions": [
        "SHORT ANSWER ann lee in 1790 score 40.00 GOLD ANSWER ann lee in 1790 LONG "
        "ANSWER Mill: the first mill of ton was built by ann lee in 1790 . score 40.00 "
        "gold",
        "SHORT ANSWER yes score 40.00 GOLD ANSWER yes LONG ANSWER Mill: old mill 1790 "
        "tarn score 40.00",
        "SHORT ANSWER none GOLD ANSWER none LONG ANSWER Mill: the first mill of ton "
        "was built by",
        "score -40.00, less likely than no answer",
    ],
    "openkp": [
        "3 KEYPHRASES, THE BEST FIRST 1. box kite 67% gold 2. lawrence hargrave 24% "
        "gold 3. kite festival 9% gold",
    ],
}

# Of each element of a selector: its text, where it is after scrolling there, what is
# seen in the middle of its first line, its passage, and colours behind it.
LOOK = """
(() => {
  const behind = (node) => node ? [getComputedStyle(node).backgroundColor,
                                   ...behind(node.parentElement)] : [];
  return [...document.querySelectorAll('.passage mark')].map((node) => {
    node.scrollIntoView({block: 'center'});
    const box = node.getClientRects()[0];
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    return {text: node.textContent, box: [box.left, box.top, box.right, box.bottom],
            seen: node.contains(document.elementFromPoint(x, y)),
            passage: node.closest('.passage').firstChild.parentNode.innerText,
            behind: behind(node)};
  });
})()
"""
# Of the drawing: its frame and sheet, and of each box its place, what it says in how
# large letters, and its marks, each with its place and whether it is seen after
# scrolling there. Places are relative to the sheet.
DRAWING = """
(() => {
  const sheet = document.querySelector('.sheet'), frame = sheet.closest('.frame');
  const place = (node) => {
    const [box, origin] = [node.getBoundingClientRect(), sheet.getBoundingClientRect()];
    return [box.x - origin.x, box.y - origin.y, box.width, box.height];
  };
  const mark = (node) => {
    node.scrollIntoView({block: 'center', inline: 'center'});
    const box = node.getClientRects()[0];
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    return {text: node.textContent, place: place(node),
            seen: node.contains(document.elementFromPoint(x, y))};
  };
  const boxes = [...sheet.querySelectorAll('.box')].map((node) => ({
    text: node.innerText, place: place(node),
    letters: parseFloat(getComputedStyle(node).fontSize),
    shown: node.checkVisibility(), marks: [...node.querySelectorAll('mark')].map(mark),
  }));
  return {boxes, sheet: place(sheet), frame: [frame.clientWidth, frame.clientHeight],
          reach: [frame.scrollWidth, frame.scrollHeight]};
})()
"""
LINKS = "[...document.querySelectorAll('a')].map((node) => node.getAttribute('href'))"
# Scrolls to a link and gives its middle; a link may be broken into lines.
LINK_AT = """
(() => {
  const node = document.querySelectorAll('a')[%d];
  node.scrollIntoView({block: 'center'});
  const box = node.getClientRects()[0];
  return [box.x + box.width / 2, box.y + box.height / 2];
})()
"""
TARGET = """
(() => {
  const node = document.querySelector(':target');
  const box = node.getClientRects()[0];
  return {name: node.id, top: box.top, bottom: box.bottom, height: innerHeight,
          scrolled: scrollY, length: document.documentElement.scrollHeight};
})()
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """{task: file with its page}."""
    folder = tmp_path_factory.mktemp("pages")
    files = {name: folder / f"{name}.html" for name in PAGES}
    for name, file in files.items():
        file.write_text(PAGES[name](), encoding="utf-8")
    return files


tasks = pytest.mark.parametrize("task", PAGES)
widths = pytest.mark.parametrize("width", WIDTHS)
schemes = pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])


def test_colours_are_measured_as_the_guidelines_say():
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21.0)
    assert contrast((118, 118, 118), (255, 255, 255)) == pytest.approx(4.54, abs=0.01)
    assert background(["rgba(0, 0, 0, 0.5)", "rgb(100, 200, 50)"]) == (50, 100, 25)


@schemes
@widths
@tasks
def test_the_answer_is_marked_where_it_stands(browser, pages, task, width, dark):
    browser.open(pages[task], width=width, dark=dark)
    browser.evaluate(OPEN)
    looks = browser.evaluate(LOOK)
    assert len(looks) == len(MARKS[task])
    for look, (text, passage) in zip(looks, MARKS[task], strict=True):
        shown = " ".join(look["passage"].split())
        assert look["text"] == text and shown.startswith(passage)
        left, top, right, bottom = look["box"]
        assert look["seen"] and 0 <= left < right <= width and 0 <= top < bottom <= 800
        own, around = background(look["behind"]), background(look["behind"][1:])
        far = sum((a - b) ** 2 for a, b in zip(own, around, strict=True)) ** 0.5
        assert far > LEAST_DISTANCE


@tasks
def test_answers_stand_over_the_documents_with_their_scores(browser, pages, task):
    browser.open(pages[task], width=1280)
    browser.evaluate(OPEN)
    shown = " ".join(browser.evaluate("document.body.innerText").split())
    at = 0
    for told in TOLD[task]:
        assert told in shown[at:]
        at = shown.index(told, at) + len(told)


@widths
@tasks
def test_nothing_reaches_beyond_the_window(browser, pages, task, width):
    browser.open(pages[task], width=width)
    browser.evaluate(UNFOLD)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate(OVERFLOWING) == []
    assert ENDLESS in browser.evaluate("document.body.innerText")


@tasks
def test_text_of_records_is_shown_and_not_run(browser, pages, task):
    browser.open(pages[task], width=1280)
    browser.evaluate(UNFOLD)
    assert EVIL in browser.evaluate("document.body.innerText")
    assert browser.evaluate("document.scripts.length") == 1
    bold = browser.evaluate(
        "[...document.querySelectorAll('b')].map((x) => x.innerText)"
    )
    assert all(text.isdecimal() for text in bold)  # how many answers are right
    assert browser.evaluate("document.title").startswith(f"{task}: ")
    assert browser.complaints == []


def test_a_page_that_runs_what_it_shows_would_be_found_out(browser, tmp_path):
    bare, guarded = tmp_path / "bare.html", tmp_path / "guarded.html"
    bare.write_text(f"<p>{EVIL}")
    browser.open(bare, width=1280)
    assert browser.evaluate("document.title") == "taken"
    assert len(browser.complaints) == 1  # what it wrote to the console
    # Even if a text were not escaped, the page's policy would stop it.
    whole = page([], task="x")
    assert whole.count("<main>") == 1
    guarded.write_text(whole.replace("<main>", f"<main>{EVIL}"))
    browser.open(guarded, width=1280)
    assert browser.evaluate("document.title") == "x: 0 answers"
    assert "Content Security Policy" in browser.complaints[0]


@widths
@tasks
def test_links_lead_to_what_they_name(browser, pages, task, width):
    browser.open(pages[task], width=width)
    browser.evaluate(OPEN)
    links = browser.evaluate(LINKS)
    for number, link in enumerate(links):
        browser.click(*browser.evaluate(LINK_AT % number))
        target = browser.evaluate(TARGET)
        assert f"#{target['name']}" == link
        assert -1 <= target["top"] < target["height"]  # places are rounded
    assert len(links) >= 3 and browser.complaints == []


@widths
def test_the_answer_in_a_long_article_is_one_click_away(browser, pages, width):
    browser.open(pages["natural_questions"], width=width)
    browser.evaluate(UNFOLD)
    [number] = [
        i for i, x in enumerate(browser.evaluate(LINKS)) if x == "#answer-1-mark"
    ]
    browser.click(*browser.evaluate(LINK_AT % number))
    target = browser.evaluate(TARGET)
    # Some windows below the link: of four records of one article, 15 of its 24 parts
    # into the first one. Its height in pixels is a matter of the fonts.
    assert 0.12 < target["scrolled"] / target["length"] < 0.2
    assert target["scrolled"] > 2 * target["height"]
    # Not at the very border: what is around it can be read.
    assert 0.1 < target["top"] / target["height"] < target["bottom"] / 800 < 0.9


def test_a_long_article_is_unfolded_around_the_answer_only(browser, pages):
    browser.open(pages["natural_questions"], width=1280)
    browser.evaluate(OPEN)
    shown = [x["text"] for x in browser.evaluate(TEXTS)]
    kinds = collections.Counter(text[:4] for text in shown)
    browser.evaluate(UNFOLD)
    everything = [x["text"] for x in browser.evaluate(TEXTS)]
    kinds_of_all = collections.Counter(text[:4] for text in everything)
    assert kinds_of_all["a mi"] >= 4 * 48 > 10 * kinds["a mi"] > 0


@schemes
@tasks
def test_every_text_can_be_read(browser, pages, task, dark):
    browser.open(pages[task], width=1280, dark=dark)
    browser.evaluate(UNFOLD)
    texts = browser.evaluate(TEXTS)
    assert len(texts) > 20
    for text in texts:
        *ink, opacity = colour(text["ink"])
        assert opacity == 1.0
        assert contrast(ink, background(text["behind"])) > LEAST_CONTRAST, text
    paper = luminance(background(texts[0]["behind"]))
    assert paper < 0.02 if dark else paper > 0.9


# --- the drawing of a page ------------------------------------------------------------

# Pixels of the web page, and what one of them is at each width of the window.
SHEET = (1150, 430)
UNITS = {1280: 1.0, 1200: (1200 - 72) / 1150, 390: 0.9}
DRAWN_MARKS = {
    OPENKP_ELEMENTS[1][0]: ["box kite1", "Lawrence Hargrave2", "box kite1"],
    "Kite festival in Ton": ["Kite festival3"],
    OPENKP_ELEMENTS[7][0]: ["kite festival3"],
    "May box kite": ["box kite1"],
}


@pytest.fixture
def drawn(browser, pages):
    """Opens the page of keyphrases at a width; what its drawing is like."""

    def drawn(width):
        browser.open(pages["openkp"], width=width)
        browser.evaluate(OPEN)
        return browser.evaluate(DRAWING)

    return drawn


@pytest.mark.parametrize("width", UNITS)
def test_every_element_is_drawn_where_the_web_page_has_it(drawn, width):
    got, unit = drawn(width), UNITS[width]
    wanted = dict(OPENKP_ELEMENTS)
    nowhere = ("Lawrence Hargrave box kite", "Lawrence Hargrave")
    boxes = {re.sub(r"(?<=[a-z])[123]", "", x["text"]): x for x in got["boxes"]}
    assert boxes.keys() == {" ".join(text.split()) for text in wanted} - {*nowhere}
    for text, box in boxes.items():
        x, box_width, y, height, *_, font, _ = wanted[text]
        want = [side * unit for side in (x, y, box_width, height)]
        assert box["shown"] and box["place"] == pytest.approx(want, abs=0.02)
        assert box["letters"] <= font * unit + 0.02
    assert boxes["Home"]["letters"] == pytest.approx(14 * unit, abs=0.02)
    sheet = [0, 0, *(side * unit for side in SHEET)]
    assert got["sheet"] == pytest.approx(sheet, abs=0.02)


@widths
def test_keyphrases_are_marked_inside_of_their_boxes(drawn, width):
    got = drawn(width)
    marked = {}
    for box in got["boxes"]:
        text = re.sub(r"(?<=[a-z])[123]", "", box["text"])
        marked[text] = [mark["text"] for mark in box["marks"]]
        left, top, box_width, height = box["place"]
        for mark in box["marks"]:
            x, y, mark_width, mark_height = mark["place"]
            assert mark["seen"], mark
            assert left <= x and x + mark_width <= left + box_width + 0.5
            # The colour of a mark is a little higher than a line.
            assert top - 2 <= y and y + mark_height <= top + height + 2
    assert {text: marks for text, marks in marked.items() if marks} == DRAWN_MARKS


@widths
def test_a_drawing_is_legible_and_can_be_scrolled_to_its_end(drawn, width):
    got = drawn(width)
    assert min(box["letters"] for box in got["boxes"]) > 11
    frame_width, frame_height = got["frame"]
    assert frame_width <= width - 40 and frame_height <= 0.8 * 800
    _, _, sheet_width, sheet_height = got["sheet"]
    want = [max(frame_width, sheet_width), max(frame_height, sheet_height)]
    assert got["reach"] == pytest.approx(want, abs=1)
    assert (sheet_width > frame_width) == (width == 390)
