"""Invented Natural Questions: of the official form, answerable, and only by reading."""

import collections
import dataclasses
import gzip
import json
import re

import pytest
import synthetic_solver as solver
from golden_data import require_shared
from natural_questions_samples import tokenizer

from etc_jax.scoring import natural_questions as scoring
from etc_jax.tasks.natural_questions.decoding import (
    gold_outputs,
    official,
    official_gold,
    pool,
    summarise,
)
from etc_jax.tasks.natural_questions.inputs import SIZES, SIZES_512, features
from etc_jax.tasks.natural_questions.records import parse
from etc_jax.tasks.synthetic import names
from etc_jax.tasks.synthetic.natural_questions import (
    ABOUT,
    NaturalQuestionsSizes,
    records,
)

COUNT = 300
INTRODUCTION = re.compile(
    rf"({solver._NAME}) is an? (?:{'|'.join(map(re.escape, names.ADJECTIVES))}) "
)
MIXED = NaturalQuestionsSizes(nulls=0.25, yes_no=0.25, long_only=0.25)


@pytest.fixture(scope="module")
def items():
    return list(records(COUNT, seed=1, sizes=MIXED))


def read(item):
    return parse(item, lambda kind, message: pytest.fail(f"{kind}: {message}"))


def blocks(item) -> list[tuple[tuple[int, int], list[tuple[str, list[str]]]]]:
    """(words, what it tells of whom) of each top-level block, as sentences again."""
    record = read(item)
    found = []
    for (start, stop), top in zip(record.candidates, record.top_level, strict=True):
        if not top:
            continue
        words = [w for w in record.words[start:stop] if not w.startswith("<")]
        text = re.sub(r" ([.,])", r"\1", " ".join(words))
        documents = []
        for sentence in re.split(r"(?<=\.) ", text):
            if first := INTRODUCTION.match(sentence):
                documents.append((first[1], []))
            documents[-1][1].append(sentence)
        found.append(((start, stop), documents))
    return found


def solve(item) -> tuple[tuple[int, int] | None, str]:
    """(block of the answer, its text) from templates; (None, "") without one."""
    question, told = item["question_text"], blocks(item)
    for frame in ABOUT:
        if match := re.fullmatch(re.escape(frame).replace(r"\{\}", "(.*)"), question):
            [words] = [w for w, [(name, _), *_] in told if name == match[1]]
            return words, ""
    context = collections.defaultdict(list)
    for _, documents in told:
        for name, sentences in documents:
            context[name] += sentences
    try:
        answer, way = solver.answer_hotpotqa(
            {"question": question, "context": list(context.items())}
        )
    except ValueError:  # nothing to unpack: the way ends before the answer
        return None, ""
    [words] = [w for w, docs in told if way[-1][0] in [name for name, _ in docs]]
    return words, answer


def gold(item):
    """(long answer, text of the short one or yes or no) of the first annotator."""
    record = read(item)
    said = record.annotations[0]
    if said.yes_no != "none":
        return said.long, said.yes_no
    return said.long, " ".join(
        record.words[slice(*said.short[0])] if said.short else ()
    )


def test_following_the_relations_answers_everything(items):
    for item in items:
        assert solve(item) == gold(item), item["question_text"]


def test_fields_are_those_of_the_release(items):
    folder = require_shared("data/natural_questions")
    with gzip.open(folder / "full_format_derived.jsonl.gz", "rt") as file:
        real = json.loads(file.readline())
    for item in items[:20]:
        assert set(item) == set(real)
        for field, value in real.items():
            assert type(item[field]) is type(value)
        for field in ("document_tokens", "long_answer_candidates", "annotations"):
            assert set(item[field][0]) == set(real[field][0])
        answer = item["annotations"][0]["long_answer"]
        assert set(answer) == set(real["annotations"][0]["long_answer"])


def test_offsets_spell_tokens_candidates_and_answers(items):
    for item in items[:50]:
        html = item["document_html"].encode()
        words = [t["token"] for t in item["document_tokens"]]
        spans = [
            *item["long_answer_candidates"],
            *item["annotations"][0]["short_answers"],
        ]
        for span in spans:
            text = html[span["start_byte"] : span["end_byte"]].decode()
            assert text == " ".join(words[span["start_token"] : span["end_token"]])
        index = item["annotations"][0]["long_answer"]["candidate_index"]
        if index >= 0:
            chosen = item["long_answer_candidates"][index]
            assert chosen["top_level"]
            assert (
                chosen.items()
                <= {
                    **item["annotations"][0]["long_answer"],
                    "top_level": True,
                }.items()
            )


def test_kinds_of_questions_and_blocks_come_in_their_shares(items):
    kinds = collections.Counter()
    for item in items:
        said = read(item).annotations[0]
        kinds[said.yes_no, said.long is not None, bool(said.short)] += 1
    yes, no = kinds.pop(("yes", True, False)), kinds.pop(("no", True, False))
    assert set(kinds) == {
        ("none", False, False),
        ("none", True, False),
        ("none", True, True),
    }
    for count in (yes + no, *kinds.values()):
        # Five standard deviations of a quarter.
        assert abs(count / COUNT - 0.25) < 5 * (0.25 * 0.75 / COUNT) ** 0.5
    assert min(yes, no) > 20
    opened = collections.Counter(
        w for item in items for w in item["document_html"].split() if w[0] == "<"
    )
    assert {"<P>", "<Table>", "<Ul>", "<Tr>", "<Td>", "<Li>", "<H2>"} <= set(opened)


def test_the_place_of_a_block_says_nothing(items):
    places = collections.Counter()
    for item in items:
        long = gold(item)[0]
        tops = [words for words, _ in blocks(item)]
        if long is not None:
            places[tops.index(long) / (len(tops) - 1)] += 1
    assert places.most_common(1)[0][1] / places.total() < 0.2


def test_five_annotators_agree_twice_at_least_or_see_an_answer_once_at_most():
    seen = set()
    for item in records(60, seed=2, sizes=NaturalQuestionsSizes(annotators=5)):
        said = read(item).annotations
        assert len(said) == 5
        answered = [a for a in said if a.long is not None]
        assert len({a for a in answered}) <= 1
        seen.add(len(answered))
    assert seen == {0, 1, 2, 3, 4, 5}


def test_facts_stand_apart_from_the_name_and_are_the_same_as_without():
    near = NaturalQuestionsSizes(contexts=3, facts=2, nulls=0.5, yes_no=0, hops=(1, 1))
    far = dataclasses.replace(near, apart=40)
    made = records(40, seed=6, sizes=near), records(40, seed=6, sizes=far)
    for item, apart in zip(*made, strict=True):
        assert item["question_text"] == apart["question_text"]
        assert gold(item)[1] == gold(apart)[1] and solve(apart) == gold(apart)
        for (_, [(_, sentences)]), (_, [(_, more)]) in zip(
            blocks(item), blocks(apart), strict=True
        ):
            # Head, sentences that name nobody, and what was there without them.
            between = more[1 : len(more) - len(sentences) + 1]
            assert [more[0], *more[len(between) + 1 :]] == sentences
            assert len(" ".join(between).split()) >= 40
            assert not any(re.search(r" [A-Z]", sentence) for sentence in between)


@pytest.mark.parametrize("sizes", [SIZES_512, SIZES], ids=["512/128", "4096/2048"])
def test_the_upper_bound_of_long_articles_is_100(sizes):
    long = NaturalQuestionsSizes(annotators=5, contexts=40, words=18_000)
    made = [read(item) for item in records(5, seed=5, sizes=long)]
    assert all(len(r.words) > 20_000 for r in made)
    predictions = {}
    for record in made:
        windows = features(record, tokenizer(), sizes)
        predictions[record.id] = pool(summarise(gold_outputs(windows), windows))
    got = scoring.score([official_gold(r) for r in made], official(predictions))
    assert got.metrics[scoring.AVERAGE_F1] == 1.0


def test_masks_and_kinds_of_blocks_can_be_chosen():
    sizes = dataclasses.replace(MIXED, masked=True, blocks=("P", "Ul"))
    items = list(records(60, seed=4, sizes=sizes))
    for item in items:
        question, text = item["question_text"], item["document_html"]
        assert "Mask" in text and "Mask" not in question
        assert "<Table>" not in text
        assert solve(item) == gold(item)
    assert any("<Ul>" in item["document_html"] for item in items)
