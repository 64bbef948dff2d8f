import tracemalloc

import pytest
from golden_data import require_shared
from natural_questions_samples import (
    ARTICLE,
    annotation,
    long_article,
    original,
    record,
    simplified,
    write_lines,
)

from etc_jax.datasets.records import Problems
from etc_jax.tasks.natural_questions.records import Annotation, parse, read

WORDS = ARTICLE.split(" ")


def spelled(text: str, span) -> str:
    return text.encode()[slice(*span)].decode()


def test_an_original_record_keeps_every_field():
    got = record()
    assert (got.id, got.question, got.title) == ("7", "who built the mill", "Mill")
    assert list(got.words) == WORDS
    assert [w for w, html in zip(got.words, got.is_html, strict=True) if html] == [
        w for w in WORDS if w.startswith("<")
    ]
    assert got.annotations == (Annotation((3, 12), ((9, 10),), "none"),)
    texts = [" ".join(WORDS[a:b]) for a, b in got.candidates]
    assert texts[:3] == [
        "<P> the mill was built by ann . </P>",
        "<Table> <Tr> mill 1840 </Tr> <Tr> lake 1901 </Tr> </Table>",
        "<Tr> mill 1840 </Tr>",
    ]
    assert got.top_level == (True, True, False, False, True, False, False)


def test_bytes_spell_the_words_in_the_html():
    text = "<P> \u00e4\u00f6 \u4e2d mill </P>"
    got = record(text, said=[])
    assert spelled(text, got.bytes_of((1, 3))) == "\u00e4\u00f6 \u4e2d"
    assert spelled(text, got.bytes_of((0, 5))) == text


def test_simplified_and_original_give_the_same_record_but_for_bytes(tmp_path):
    value = original()
    paths = [
        write_lines(tmp_path / "a.jsonl.gz", [value]),
        write_lines(tmp_path / "b.jsonl", [simplified({**value, "example_id": 8})]),
    ]
    whole, plain = read(paths)
    assert (whole.id, plain.id) == ("7", "8")
    assert plain.word_bytes is None and plain.bytes_of((3, 5)) == (-1, -1)
    for field in ("words", "is_html", "candidates", "top_level", "annotations"):
        assert getattr(plain, field) == getattr(whole, field)


def test_a_simplified_token_can_be_empty_or_hold_other_white_space():
    value = simplified(original())
    value["document_text"] = '<P> a  b\xa0c < d <3 <Td_colspan="2"> </P>'
    value |= {"annotations": [], "long_answer_candidates": []}
    value["long_answer_candidates"] = [
        {"start_token": 0, "end_token": 9, "top_level": True}
    ]
    got = parse_plain(value)
    words = ("<P>", "a", "", "b\xa0c", "<", "d", "<3", '<Td_colspan="2">', "</P>")
    assert got.words == words
    assert [i for i, html in enumerate(got.is_html) if html] == [0, 7, 8]


def parse_plain(value):
    return parse(value, lambda kind, message: pytest.fail(message))


def test_a_test_file_has_no_annotations():
    assert parse_plain({**original(), "annotations": []}).annotations is None


def test_what_is_odd_is_counted_and_kept(tmp_path):
    outside = original(name=1, said=[annotation((3, 12), [(12, 14)])])
    moved = original(name=2)
    moved["long_answer_candidates"][0]["start_byte"] += 1
    moved["annotations"][0]["short_answers"][0]["end_byte"] += 1
    crossed = original(name=3)
    crossed["long_answer_candidates"][2]["top_level"] = True
    path = write_lines(tmp_path / "x.jsonl", [outside, moved, crossed])
    problems = Problems()
    assert [r.id for r in read([path], problems)] == ["1", "2", "3"]
    assert problems.counts == {
        "answer outside of the candidates": 1,
        "bytes and words disagree": 2,
        "top-level candidates overlap": 1,
    }


def test_one_record_is_in_memory_at_a_time(tmp_path):
    text = long_article(4000, seed=0)
    values = (original(text, name=i, said=[]) for i in range(12))
    path = write_lines(tmp_path / "x.jsonl.gz", values)

    def peak(most: int) -> int:
        tracemalloc.start()
        try:
            for number, _ in enumerate(read([path]), start=1):
                if number == most:
                    break
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    # Two: the one before is kept until the next one is made.
    assert peak(12) < 1.2 * peak(2)


@pytest.mark.parametrize(
    "name, count",
    [
        ("full_format_derived.jsonl.gz", 4),
        ("simplified_derived.jsonl.gz", 28),
        ("simplified_dev_sample.jsonl", 1),
        ("simplified_train_sample.jsonl", 1),
    ],
)
def test_real_records_are_read_without_a_problem(name, count):
    problems = Problems()
    path = require_shared("data") / "natural_questions" / name
    found = list(read([path], problems))
    assert len(found) == problems.read == count and not problems.counts
    for got in found:
        # What annotators chose begins and ends with a tag, as candidates do.
        for a in got.annotations:
            if a.long:
                assert a.long in got.candidates
                assert got.is_html[a.long[0]] and got.is_html[a.long[1] - 1]
