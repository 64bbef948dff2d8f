import base64
import dataclasses
import hashlib
import html.parser
import re

import pytest

from etc_jax.datasets.explained import (
    Candidate,
    Explained,
    ExplainedDocument,
    Passage,
    Wording,
)
from etc_jax.prediction.answers_page import escaped, page
from etc_jax.prediction.answers_page.text import marked
from etc_jax.prediction.judging import Judged, Verdict
from etc_jax.scoring.classification import Confusion
from etc_jax.scoring.result import Scores

EVIL = '<script>alert("x")</script>'
VOID = {"meta", "link", "br", "input"}


class Parsed(html.parser.HTMLParser):
    """Elements, attributes and text of a page; checks that tags are closed in order."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self._open, self.marked = [], [], [], []
        self.text = ""
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if self._open[-1:] == ["mark"]:
            self.marked.append(data)
        self.text += data


def document(title, *passages):
    return ExplainedDocument(Passage(title), passages)


HOTPOT = Explained(
    "a1",
    "Who built the mill?",
    "Ann Lee",
    (
        document(
            "Old Mill",
            Passage("The mill was built by Ann Lee.", 0.834, True, ((22, 29),)),
            Passage(" It burned.", 0.21),
            Passage(" It is new.", 0.01),
        ),
        document("Ton", Passage("Ton is a town.", 0.02), Passage(" Left out.")),
    ),
)
WIKIHOP = Explained(
    "WH_0",
    "country old mill",
    "norland",
    (
        document(
            "Document 1", Passage("Ton, Norland. Norland!", marks=((5, 12), (14, 21)))
        ),
        document("Document 2", Passage("Nothing here.")),
    ),
    (Candidate("norland", 0.75), Candidate("sudland", 0.25)),
)

KEYPHRASES = Explained(
    "http://x.org",
    "Which phrases?",
    "none of it",
    (
        document(
            "Text",
            Passage("The Mill of Lee", marks=((4, 8), (12, 15)), ranks=((2,), (1,))),
            Passage("Mill", marks=((0, 4),), ranks=((1, 2),)),
        ),
    ),
    (Candidate("lee", 0.6), Candidate("mill", 0.4)),
    wording=Wording(answer="", support="", headed_by_id=True),
)


def test_supporting_sentences_are_tinted_by_their_probability():
    text = page([HOTPOT], task="hotpotqa")
    assert re.findall(r'class="(passage[^"]*)"[^>]* style="--p:([\d.]+)"', text) == [
        ("passage support", "0.834"),
        ("passage", "0.210"),
    ]
    parsed = Parsed(text)
    assert parsed.marked == ["Ann Lee"]
    for shown in ("Who built the mill?", "83%", "1 supporting", "Left out."):
        assert shown in parsed.text
    assert "21%" not in parsed.text


def test_documents_without_support_are_folded():
    states = re.findall(
        r"<details[^>]*?( open)?>\s*<summary>.*?>(\w+)", page([HOTPOT], task="")
    )
    assert states == [(" open", "Old"), ("", "Ton")]


def test_mentions_of_the_chosen_candidate_are_marked():
    parsed = Parsed(page([WIKIHOP], task="wikihop"))
    assert parsed.marked == ["Norland", "Norland"]
    assert "norland 75%" in parsed.text and "sudland 25%" in parsed.text
    assert ("style", "--p:0.750") in parsed.attributes


@pytest.mark.parametrize("evil", [EVIL, '"><img src=x onerror=alert(1)>', "&lt;b&gt;"])
def test_text_of_records_is_text_everywhere(evil):
    told = Explained(
        evil,
        evil,
        evil,
        (document(evil, Passage(evil, 0.9, True, ((1, 4),))),),
        (Candidate(evil, 1.0),),
    )
    text = page([told, told], task=evil)
    parsed, plain = Parsed(text), Parsed(page([HOTPOT, WIKIHOP], task="x"))
    assert set(parsed.tags) <= set(plain.tags) | {"li", "ol"}
    assert parsed.tags.count("script") == 1
    assert {k for k, _ in parsed.attributes} <= {k for k, _ in plain.attributes}
    # Title and heading, and of each: question and answer in its line, id, answer,
    # candidate, title, sentence, and the title as a place.
    assert parsed.text.count(evil) == 2 + 2 * 8


def test_nothing_comes_from_elsewhere():
    text = page([HOTPOT, WIKIHOP], task="hotpotqa")
    parsed = Parsed(text)
    assert not {"link", "img", "iframe", "object"} & set(parsed.tags)
    links = [v for k, v in parsed.attributes if k in ("href", "src", "srcset")]
    assert links and all(link.startswith("#answer-") for link in links)
    assert "url(" not in text and "@import" not in text and "http://" not in text
    policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"
    [value] = [v for k, v in parsed.attributes if k == "content" and policy in v]
    [script] = re.findall(r"<script>(.*?)</script>", text, re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert value == f"{policy}{digest}'"
    assert "width=device-width" in text and "prefers-color-scheme: dark" in text


def test_every_link_leads_to_one_place():
    parsed = Parsed(page([HOTPOT, WIKIHOP, KEYPHRASES], task="x"))
    names = [v for k, v in parsed.attributes if k == "id"]
    assert len(names) == len(set(names))
    links = [v.removeprefix("#") for k, v in parsed.attributes if k == "href"]
    assert set(links) <= set(names)
    # The answer, and the sentence that supports it.
    assert {"answer-1-mark", "answer-1-0-0"} <= set(links)
    # The document that mentions the answer; keyphrases by rank.
    assert "answer-2-0" in links and "answer-2-1" not in links
    assert links[-2:] == ["answer-3-mark-1", "answer-3-mark-2"]


def test_keyphrases_are_marked_with_their_ranks():
    text = page([KEYPHRASES], task="openkp")
    shown = re.findall(r'<mark[^>]*>(\w+)<sup class="rank">([^<]*)</sup></mark>', text)
    assert shown == [("Mill", "2"), ("Lee", "1"), ("Mill", "1, 2")]
    assert "Which phrases?" not in text
    assert Parsed(text).text.count("none of it") == 1  # in its line


def test_paragraphs_far_from_what_is_marked_are_folded():
    paragraphs = [Passage(f"number {i}") for i in range(20)]
    paragraphs[10] = Passage("number 10", score=1.0, is_support=True)
    told = Explained(
        "x", "Why?", "", (ExplainedDocument(Passage("T"), (*paragraphs,), True),)
    )
    text = page([told], task="x")
    inner = re.findall(
        r"<details>\n<summary>(.*?)</summary>\n(.*?)</details>", text, re.S
    )
    assert [told for told, _ in inner] == ["8 more paragraphs", "7 more paragraphs"]
    folded = [re.findall(r"number (\d+)", inside) for _, inside in inner]
    assert folded == [[str(i) for i in range(8)], [str(i) for i in range(13, 20)]]
    assert re.findall(r">number (\d+)", text) == [str(i) for i in range(20)]


def test_a_document_without_marks_is_not_folded_further():
    paragraphs = tuple(Passage(f"number {i}") for i in range(20))
    told = Explained(
        "x", "Why?", "", (ExplainedDocument(Passage(""), paragraphs, True),)
    )
    text = page([told], task="x")
    assert text.count("<details") == 1 + 1 and "<em>untitled</em>" in text


def test_unlikely_candidates_are_counted_and_not_listed():
    few = tuple(Candidate(f"c{i}", 0.0) for i in range(12))
    text = page([Explained("x", "Why?", "c0", (), few)], task="x")
    # In its line, as the answer, and three of the list.
    assert re.findall(r">(c\d+)<", text) == ["c0", "c0", "c0", "c1", "c2"]
    assert "and 9 more, 0% together" in text
    many = tuple(Candidate(f"c{i}", 0.1) for i in range(10))
    text = page([Explained("x", "Why?", "c0", (), many)], task="x")
    assert "and 2 more, 20% together" in text


def test_an_answer_that_is_none_is_shown_as_such():
    told = Explained("x", "Why?", "", ())
    assert "<em>none</em>" in page([told], task="hotpotqa")


def test_marks_stand_around_their_characters():
    assert marked("a<b>c", ((1, 4),)) == "a<mark>&lt;b&gt;</mark>c"
    assert marked("abc", ()) == "abc"
    assert marked("aXbX", ((1, 2), (3, 4))) == "a<mark>X</mark>b<mark>X</mark>"
    assert marked("aX", ((1, 2),), names=["n"]) == 'a<mark id="n">X</mark>'


def test_halves_of_characters_do_not_break_the_file():
    page([Explained("\ud800", "\x00", "a", ())], task="t").encode("utf-8")
    assert escaped("'\"&<>") == "&#x27;&quot;&amp;&lt;&gt;"


def test_of_many_labels_the_pairs_that_are_confused_most_are_listed():
    labels = tuple(f"l{i:02}" for i in range(40))
    counts = [[0] * 40 for _ in labels]
    counts[3][4], counts[7][1], counts[5][5] = 9, 12, 100
    found = Judged(
        "accuracy",
        (None, None),
        Scores({"accuracy": 0.5}, 2, {}),
        Confusion(labels, tuple(map(tuple, counts))),
    )
    text = page([HOTPOT, WIKIHOP], task="x", judged=found)
    rows = re.findall(r"<tr><td>(\w+)</td><td>(\w+)</td><td>.*?>(\d+)<", text)
    assert rows == [("l07", "l01", "12"), ("l03", "l04", "9")]
    assert 'class="matrix"' not in text


def test_shares_between_0_and_1_are_partly_right():
    shares = (0.0, 0.25, 1.0, None)
    verdicts = tuple(Verdict(share, {"f1": share or 0.0}) for share in shares)
    found = Judged("f1", verdicts, Scores({"f1": 0.4}, 4, {}))
    items = [dataclasses.replace(HOTPOT, id=f"q{i}") for i in range(4)]
    text = page(items, task="x", judged=found)
    assert re.findall(r'data-state="(\w+)"', text) == [
        "wrong",
        "partly",
        "right",
        "open",
    ]
    assert "25.0% right" in text and "not judged" in text
    # The number of a record is its place in the file.
    swapped = dataclasses.replace(found, verdicts=verdicts[::-1])
    text = page(items, task="x", judged=swapped)
    assert re.findall(r'<article id="answer-(\d)"', text) == ["4", "3", "2", "1"]


@pytest.mark.parametrize("reference", [None, "Mühle & Fluss", EVIL])
def test_texts_stand_beside_each_other(reference):
    wording = Wording(
        answer="Output",
        reference="Reference",
        legend="",
        headed_by_id=True,
        side_by_side=True,
    )
    item = Explained(
        "w:1",
        "",
        "Die Mühle",
        (ExplainedDocument.of_text("Input", "The mill.\n\nIt burned."),),
        reference=reference,
        wording=wording,
    )
    text = page([item], task="wmt")
    parsed = Parsed(text)
    columns = ["Input", "Output", *(["Reference"] if reference is not None else [])]
    assert re.findall(r'<div>\n<p class="label">(\w+)</p>', text) == columns
    shown = ("The mill.", "It burned.", "Die Mühle", reference or "w:1")
    assert all(x in parsed.text for x in shown)
    assert parsed.tags.count("script") == parsed.tags.count("details") == 1
    assert item.as_json().get("reference") == reference
    assert ("wanted" in item.text()) == (reference is not None)
