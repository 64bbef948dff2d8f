"""Pages of answers as a reader meets them: made-up records, gold outputs.

One record of each has a text that would do harm, or fall apart, if a page took it for
anything but text.
"""

import functools

import natural_questions_samples as articles
import openkp_samples as pages

from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.prediction.answers_page import page
from etc_jax.prediction.judging import Answered, judged

EVIL = "<script>document.title = 'taken'; console.log(1)</script>, <b>bold</b>, &amp; ."
ENDLESS = "https://mills.example/" + "x" * 300

ABOUT = {"Model": "etc", "Run": f"mills {EVIL}, step 2,000"}

TOKENIZER = articles.tokenizer()

_QUESTION = "Which river turns the mill that the baker Ann Lee was left by her uncle?"
HOTPOT = [
    {
        "_id": "5a8b57f25542995d1e6f1371",
        "question": _QUESTION,
        "answer": "the Tarn",
        "supporting_facts": [["Ann Lee", 1], ["Old Mill (Ton)", 0]],
        "context": [
            [
                "Ton (Norland)",
                [
                    "Ton is a market town in the north of Norland.",
                    " It has two churches, a library and some 4,000 people.",
                ],
            ],
            [
                "Ann Lee",
                [
                    "Ann Lee (1811 - 1874) was a baker of Ton.",
                    " In 1840 her uncle left her the Old Mill, which she ran until it "
                    "burned.",
                    " She is not to be confused with the poet of that name.",
                ],
            ],
            [f"Mills {EVIL}", [f"A page with {EVIL} in it, see {ENDLESS} there."]],
            [
                "Old Mill (Ton)",
                [
                    "The Old Mill, a listed building, is turned by the Tarn below the "
                    "bridge of Ton.",
                    " It was built in 1790.",
                ],
            ],
            ["Tarn", ["The Tarn is a river.", " It rises in the hills of Norland."]],
        ],
    },
    {
        "_id": "yes",
        "question": "Are Ton and Wick both in Norland?",
        "answer": "yes",
        "supporting_facts": [["Ton", 0], ["Wick", 0]],
        "context": [
            ["Ton", ["Ton is a town in Norland."]],
            ["Wick", ["Wick is a village in Norland.", " It has a harbour."]],
        ],
    },
]

WIKIHOP = {
    "id": "WH_dev_17",
    "query": "country old mill",
    "answer": "norland",
    "candidates": ["eastland", "norland", "sudland", EVIL, "westland", "the tarn"]
    + [f"land number {i} of many" for i in range(8)],
    "supports": [
        "The Old Mill stands in Ton. It burned in 1874, and a part of it was not built "
        "again.",
        "Ton is a market town in Norland. The capital of Norland is Norton, not Ton.",
        f"Wick is a village. {EVIL} See {ENDLESS} for more.",
        "Sudland is a country, to the south of Norland.",
    ],
}

_PARAGRAPH = (
    "a mill is a building where grain is made into flour , and in some lands the word "
    "is used of the machine that does it as well"
)


_ANSWER = "<P> the first mill of ton was built by ann lee in 1790 . </P>"


def _long_article() -> str:
    """Some fifty paragraphs, with lists and a table."""
    parts = ["<H1> Mill </H1>"]
    for number in range(24):
        parts.append(f"<H2> part {number} </H2>")
        parts += [f"<P> {_PARAGRAPH} . {_PARAGRAPH} . </P>"] * 2
        if number == 11:
            parts.append(
                "<Table> <Tr> <Th> mill </Th> <Th> built </Th> <Th> river </Th> </Tr> "
                "<Tr> <Td> old mill </Td> <Td> 1790 </Td> <Td> tarn </Td> </Tr> "
                "<Tr> <Td> new mill </Td> <Td> 1901 </Td> <Td> esk </Td> </Tr> </Table>"
            )
        if number == 14:
            parts.append(_ANSWER)
        if number == 20:
            text = f"{EVIL} {ENDLESS}"
            parts.append(f"<P> a page with {text} in it </P>")
    return " ".join(parts)


ARTICLE = _long_article()


def _span(text: str) -> tuple[int, int]:
    """(first, one past the last) word of some words of the article."""
    wanted, words = text.split(" "), ARTICLE.split(" ")
    k = len(wanted)
    return next((i, i + k) for i in range(len(words)) if words[i : i + k] == wanted)


_LONG = _span(_ANSWER)
_ROW = _span("<Tr> <Td> old mill </Td> <Td> 1790 </Td> <Td> tarn </Td> </Tr>")
NATURAL_QUESTIONS = [
    articles.original(ARTICLE, name=name, question=question, said=[said])
    for name, question, said in (
        (
            5655493461695504401,
            "who built the first mill of ton",
            articles.annotation(_LONG, [_span("ann lee in 1790")]),
        ),
        (2, "is the old mill on the tarn", articles.annotation(_ROW, yes_no="YES")),
        (3, "tell me about the first mill", articles.annotation(_LONG)),
        (4, "who wrote the song of the lake", articles.annotation()),
    )
]


def _look(x, y, width, height, font):
    """Of an element of a web page; see `openkp_samples.PLAIN`."""
    return [*map(float, (x, width, y, height)), 1.0, 0.0, 0.0, 1.0, float(font), 0.0]


# Of each element the text and the look. Some are nowhere to be seen on the page.
OPENKP_ELEMENTS = (
    ("Box Kites and how they fly", _look(40, 20, 700, 44, 32)),
    (
        "A box kite is a kite of four sides . Lawrence Hargrave made the first box "
        "kite in 1893 .",
        _look(40, 90, 560, 60, 16),
    ),
    (f"See {ENDLESS} {EVIL}", _look(40, 180, 560, 120, 16)),
    ("Home", _look(900, 20, 60, 20, 14)),
    ("About us", _look(970, 20, 80, 20, 14)),
    ("Kite festival in Ton", _look(900, 90, 250, 24, 18)),
    ("Lawrence Hargrave box kite", _look(-9999, 0, 600, 18, 14)),  # off the page
    # An element in another, in whose text it has its place.
    ("The kite festival of Ton is held in May .", _look(900, 130, 250, 300, 14)),
    ("May box kite", _look(920, 300, 120, 18, 14)),
    ("Lawrence Hargrave", _look(40, 320, 0, 18, 14)),  # without a width
)
OPENKP = pages.page(
    [text for text, _ in OPENKP_ELEMENTS],
    ("box kite", "Lawrence Hargrave", "kite festival"),
    "https://kites.example/box-kites?from=<b>&amp;to=ton",
    looks=[look for _, look in OPENKP_ELEMENTS],
)


def page_of(task, values, *lengths: int) -> str:
    """The page of some records, judged."""
    found = []
    for value in values:
        record = task.parse(value, lambda kind, message: None)
        windows = task.features(record, TOKENIZER, StructuredSizes(*lengths))
        outputs = task.gold_outputs(windows)
        explained = task.pool_explained(task.explain(outputs, windows, task.setting))
        [prediction] = task.answers(outputs, windows).values()
        found.append(Answered(explained, task.gold(record), prediction))
    explained = [answer.explained for answer in found]
    return page(explained, task=task.name, about=ABOUT, judged=judged(task, found))


PAGES = {
    name: functools.partial(page_of, find_task(name, "structured"), values, *lengths)
    for name, values, *lengths in (
        ("hotpotqa", HOTPOT, 2048, 128),
        ("wikihop", [WIKIHOP], 2048, 256),
        ("natural_questions", NATURAL_QUESTIONS, 1024, 128),
        ("openkp", [OPENKP], 1024, 32),
    )
}
