"""Small articles in the forms of Natural Questions, and a vocabulary for them."""

import gzip
import json
import random

from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.tasks.natural_questions.records import parse

_LETTERS = [chr(c) for c in range(ord("a"), ord("z") + 1)]
WORDS = "mill town river lake song was built in by who the of . , yes no two".split()
PIECES = ["[PAD]", *(f"[unused{i}]" for i in range(104)), "[UNK]", "[CLS]", "[SEP]"]
PIECES += ["[MASK]", *WORDS, *_LETTERS, *("##" + c for c in _LETTERS)]

_CANDIDATES = ("P", "Table", "Tr", "Ul", "Li")

ARTICLE = (
    "<H1> Mill </H1> <P> the mill was built by ann . </P> lost words "
    "<Table> <Tr> mill 1840 </Tr> <Tr> lake 1901 </Tr> </Table> "
    "<Ul> <Li> song of two </Li> <Li> river </Li> </Ul>"
)


def tokenizer() -> WordPieceTokenizer:
    return WordPieceTokenizer(list(dict.fromkeys(PIECES)))


def annotation(long=None, short=(), yes_no="NONE") -> dict:
    """Spans of words; `original` adds the bytes."""
    return {"long": long, "short": list(short), "yes_no": yes_no}


ANN = annotation((3, 12), [(9, 10)])


def original(text=ARTICLE, *, name=7, question="who built the mill", said=(ANN,)):
    """A record of the original format from words with one space between them."""
    tokens, at = [], 0
    for word in text.split(" "):
        stop = at + len(word.encode())
        html = word.startswith("<") and word.endswith(">")
        tokens.append(
            {"token": word, "start_byte": at, "end_byte": stop, "html_token": html}
        )
        at = stop + 1

    def span(words):
        if words is None:
            return dict.fromkeys(OFFSETS, -1)
        start, stop = words
        ends = tokens[start]["start_byte"], tokens[stop - 1]["end_byte"]
        return dict(zip(OFFSETS, (*ends, start, stop), strict=True))

    candidates = [
        {**span(words), "top_level": top} for words, top in candidates_of(text)
    ]
    return {
        "example_id": name,
        "document_title": "Mill",
        "document_html": text,
        "document_tokens": tokens,
        "question_text": question,
        "long_answer_candidates": candidates,
        "annotations": [
            {
                "annotation_id": i,
                "long_answer": {**span(x["long"]), "candidate_index": -1},
                "short_answers": [span(s) for s in x["short"]],
                "yes_no_answer": x["yes_no"],
            }
            for i, x in enumerate(said)
        ],
    }


OFFSETS = ("start_byte", "end_byte", "start_token", "end_token")


def candidates_of(text: str) -> list[tuple[tuple[int, int], bool]]:
    """((first, one past the last) word, whether in no other) of each, in order."""
    found, opened = [], []
    for number, word in enumerate(text.split(" ")):
        name = word.strip("</>").partition("_")[0]
        if name not in _CANDIDATES or not word.endswith(">"):
            continue
        if word.startswith("</"):
            start = opened.pop()
            found.append(((start, number + 1), not opened))
        else:
            opened.append(number)
    return sorted(found)


def simplified(value: dict) -> dict:
    """The simplified form of an original record."""

    def without_bytes(span):
        return {k: v for k, v in span.items() if not k.endswith("_byte")}

    said = [
        {
            **x,
            "long_answer": without_bytes(x["long_answer"]),
            "short_answers": [without_bytes(s) for s in x["short_answers"]],
        }
        for x in value["annotations"]
    ]
    return {
        "example_id": str(value["example_id"]),
        "document_text": " ".join(t["token"] for t in value["document_tokens"]),
        "question_text": value["question_text"],
        "long_answer_candidates": [
            without_bytes(c) for c in value["long_answer_candidates"]
        ],
        "annotations": said,
    }


def record(text=ARTICLE, **changes):
    return parse(original(text, **changes), lambda kind, message: None)


def write_lines(path, values):
    """One JSON value a line; gzipped if the name says so."""
    text = "".join(json.dumps(v) + "\n" for v in values).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def long_article(words: int, seed: int) -> str:
    """An article of about so many words: paragraphs, tables and lists, headings."""
    rng = random.Random(f"article {seed}")
    # Headings alone would leave nothing to read.
    parts = [_paragraph(rng)]
    count = parts[0].count(" ") + 1
    while count < words:
        part = rng.choice((_paragraph, _paragraph, _table, _list, _heading))(rng)
        parts.append(part)
        count += part.count(" ") + 1
    return " ".join(parts)


def _said(rng, least, most):
    made = "".join(rng.choices("abcdefgh", k=3))
    return " ".join(rng.choices([*WORDS, made], k=rng.randint(least, most)))


def _paragraph(rng):
    return f"<P> {_said(rng, 5, 120)} </P>"


def _heading(rng):
    return f"<H2> {_said(rng, 1, 4)} </H2>"


def _table(rng):
    rows = [f"<Tr> {_said(rng, 2, 12)} </Tr>" for _ in range(rng.randint(2, 60))]
    return f"<Table> {' '.join(rows)} </Table>"


def _list(rng):
    items = [f"<Li> {_said(rng, 1, 12)} </Li>" for _ in range(rng.randint(1, 8))]
    return f"<Ul> {' '.join(items)} </Ul>"
