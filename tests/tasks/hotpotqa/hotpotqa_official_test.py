"""The official builder, restated as plainly as can be, on random records."""

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from multihop_samples import tokenizer
from tokenizer_samples import official_model, sentence_pieces

from etc_jax.datasets.offsets import encode
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import hotpotqa
from etc_jax.tasks.hotpotqa.official import answer_spans, words_of
from etc_jax.tasks.hotpotqa.records import parse

WORDPIECE = tokenizer()


def ids_of(text: str) -> list[int]:
    return WORDPIECE.encode_batch([text])[0][0].tolist()


def plain_spans(text: str, answer: str) -> list[tuple[int, int]]:
    """Places of the answer: characters -> words -> pieces -> narrowed."""
    words, of_char, inside = [], [], False
    for c in text:
        if c in " \t\r\n\u202f":
            inside = False
        elif inside:
            words[-1] += c
        else:
            words.append(c)
            inside = True
        of_char.append(len(words) - 1)
    firsts, ids = [], []
    for word in words:
        firsts.append(len(ids))
        ids += ids_of(word)
    assert ids == ids_of(text)
    spans, at = [], text.find(answer) if answer else -1
    while at >= 0:
        after = at + len(answer)
        first = firsts[of_char[at]]
        end = of_char[after - 1] + 1
        last = firsts[end] - 1 if end < len(words) else len(ids) - 1
        wanted, best = ids_of(answer), (first, last)
        for i in range(last, first - 1, -1):  # the first that fits is met last
            for j in range(i, last + 1):
                if ids[i : j + 1] == wanted:
                    best = (i, j)
        spans.append(best)
        at = text.find(answer, after)
    return spans


class PlainBuilder:
    """Lists that grow token by token."""

    def __init__(self, value: dict, long: int, glob: int):
        self.value, self.long, self.glob = value, long, glob
        self.tokens, self.sentence, self.paragraph, self.kind = [], [], [], []
        self.globals, self.mark, self.number, self.context = [], [], [], []
        self.spans: list[tuple[int, int]] = []
        self.build()

    def top(self, token, mark=0, number=-1, context=-1):
        if len(self.globals) < self.glob:
            self.globals.append(token)
            self.mark.append(int(mark))
            self.number.append(number)
            self.context.append(context)

    def text(self, ids, kind, sentence, paragraph):
        self.tokens += ids
        self.sentence += [sentence] * len(ids)
        self.paragraph += [paragraph] * len(ids)
        self.kind += [kind] * len(ids)

    def room(self, ids):
        fits = len(self.tokens) + len(ids) <= self.long
        return fits and len(self.globals) < self.glob

    def build(self):
        cls = WORDPIECE.special_id("cls")
        self.top(cls)
        self.text([cls], 1, -1, -1)
        for token in ids_of(self.value["question"]):
            if self.room([token]):
                self.text([token], 3, len(self.globals), -1)
                self.top(3)
        for c, (title, sentences) in enumerate(self.value["context"]):
            facts = [i for t, i in self.value["supporting_facts"] if t == title]
            paragraph = len(self.globals)
            self.top(5, facts != [], context=c)
            number = 0
            for i, part in enumerate([title, *sentences], start=-1):
                mark = facts != [] if i < 0 else i in facts
                if mark:
                    at = len(self.tokens)
                    found = plain_spans(part, self.value["answer"])
                    self.spans += [(at + a, at + b) for a, b in found]
                ids = ids_of(part)
                if self.room(ids):
                    self.text(ids, 2 if i < 0 else 1, len(self.globals), paragraph)
                    self.top(1, mark, -1 if i < 0 else number, c)
                    number += i >= 0

    def span(self):
        return min(self.spans, key=lambda s: s[1], default=(0, 0))

    def kept(self) -> bool:
        if not any(self.mark):
            return False
        short = self.value["answer"] in ("yes", "no")
        return short or (bool(self.spans) and self.span()[1] < self.long)


def padded(values, length, fill):
    return values + [fill] * (length - len(values))


WORDS = ["the", "mill", "Ann", "Lee", "york,", "(ton)", "operas", "no", "yes", "x-y"]
TEXTS = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map(" ".join)
SENTENCES = st.tuples(st.sampled_from(["", " "]), TEXTS).map("".join)
TITLES = st.sampled_from(["Mill", "Ann Lee", "Ton", "Old Mill"])


@st.composite
def records(draw):
    context = draw(
        st.lists(
            st.tuples(TITLES, st.lists(SENTENCES, max_size=3)), min_size=1, max_size=3
        )
    )
    facts = draw(st.lists(st.tuples(TITLES, st.integers(0, 3)), max_size=4))
    answers = st.sampled_from(["yes", "no", "Ann", "opera", "mill york", "ton", " the"])
    return {
        "_id": "r",
        "question": draw(TEXTS),
        "answer": draw(answers),
        "context": [[title, sentences] for title, sentences in context],
        "supporting_facts": [list(fact) for fact in facts],
    }


@settings(max_examples=150, deadline=None)
@given(value=records(), long=st.integers(1, 60), glob=st.integers(1, 20))
def test_the_quirks_are_those_of_the_plain_builder(value, long, glob):
    want = PlainBuilder(value, long, glob)
    record = parse(value, lambda kind, message: None)
    [got] = hotpotqa.inputs.features(
        record, WORDPIECE, StructuredSizes(long, glob), official_quirks=True
    )
    assert got.tokens.long.tolist() == padded(want.tokens, long, 0)
    assert got.types.long.tolist() == padded(want.kind, long, 0)
    links = got.structure.links
    assert links[:, 0].tolist() == padded(want.sentence, long, -1)
    assert links[:, 1].tolist() == padded(want.paragraph, long, -1)
    assert got.tokens.global_.tolist() == padded(want.globals, glob, 0)
    assert got.labels["support"].tolist() == padded(want.mark, glob, 0)
    assert got.sentence.tolist() == padded(want.number, glob, -1)
    assert got.paragraph.tolist() == padded(want.context, glob, -1)
    assert (got.unusable is None) == want.kept()
    if want.kept():
        span = (int(got.labels["begin"]), int(got.labels["end"]))
        assert span == want.span()


@settings(max_examples=150, deadline=None)
@given(text=TEXTS | SENTENCES, answer=TEXTS | st.sampled_from(["o", " ", "mil", "-"]))
@example(text=" the mill the", answer=" the")
def test_answers_are_found_as_by_the_plain_search(text, answer):
    [pieces] = encode(WORDPIECE, [text])
    assert answer_spans(pieces, answer, WORDPIECE) == plain_spans(text, answer)


def test_white_space_is_of_the_word_before_it():
    assert words_of(" ab c\u202fd") == [-1, 0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    "answer, found",
    [("cat", ["\u2581cat", "\u2581cat"]), ("e cat", ["the\u2581cat"]), ("dog", [])],
)
def test_sentencepiece_answers_are_searched_in_what_the_pieces_spell(answer, found):
    model = sentence_pieces(official_model())
    [pieces] = encode(model, ["a cat and the cats"])
    spelled = model.pieces(pieces.ids)
    got = ["".join(spelled[a : b + 1]) for a, b in answer_spans(pieces, answer, model)]
    assert len(got) == len(found)
    for spelled_span, wanted in zip(got, found, strict=True):
        assert answer.replace(" ", "\u2581") in spelled_span
        assert np.isin(list(wanted.strip("\u2581")), list(spelled_span)).all()
