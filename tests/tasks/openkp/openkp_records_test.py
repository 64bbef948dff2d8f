import tracemalloc

import numpy as np
from openkp_samples import BODY, PLAIN, TITLE, page, record, write_lines

from etc_jax.datasets.records import Problems
from etc_jax.tasks.openkp.records import num_found, read


def counted(paths):
    problems = Problems()
    return list(read(paths, problems)), problems


# --- a page ---------------------------------------------------------------------------


def test_a_page_keeps_every_field(tmp_path):
    [got] = read([write_lines(tmp_path, [page()])])
    assert got.id == "http://x.org/mill"
    assert got.text.split(" ")[:4] == ["Old", "Mill", "The", "old"]
    assert got.elements.tolist() == [[0, 2], [2, 9], [9, 12], [12, 15]]
    want = np.float32([TITLE + BODY, *[PLAIN + BODY] * 3])
    np.testing.assert_array_equal(got.features, want)
    assert got.keyphrases == (("old", "mill"), ("Ton",))


def test_spaces_side_by_side_have_empty_words_between_them():
    got = record(("Old  Mill", "", "in Ton"))
    assert got.text == "Old  Mill  in Ton"
    assert got.elements.tolist() == [[0, 3], [3, 4], [4, 6]]


def test_odd_pages_are_counted_and_used(tmp_path):
    long = "http://x.org/" + "a" * 988
    values = [page(url=long), page(phrases=["new york"], url="http://x.org/b")]
    got, problems = counted([write_lines(tmp_path, values)])
    assert [r.id for r in got] == [long, "http://x.org/b"]
    assert problems.counts == {"url too long": 1, "no keyphrase found": 1}
    assert "has 1001 characters" in problems.messages["url too long"][0]
    assert "(('new', 'york'),)" in problems.messages["no keyphrase found"][0]


def test_keyphrases_are_found_as_whole_words_whatever_their_case():
    found = {
        ("MILL", "stands in"): 2,
        ("mil", "ill"): 0,
        ("burned country", "Ton . the"): 2,
        ("old", "in", "Ton", "mill"): 3,
    }
    for phrases, number in found.items():
        assert num_found(record(phrases=phrases)) == number


# --- files ----------------------------------------------------------------------------


def test_of_lines_with_one_url_that_with_most_keyphrases_is_taken(tmp_path):
    a = [page(phrases=[p, "york"], url="a") for p in ("x", "Ton", "mill")]
    b = [page(phrases=p, url="b") for p in (["Ton"], ["Ton", "mill"], ["of", "in"])]
    first = write_lines(tmp_path, [a[0], b[0], a[1], page(url="c")], "1.jsonl")
    second = write_lines(tmp_path, [b[1], a[2], b[2]], "2.jsonl")
    got, problems = counted([first, second])
    phrases = {r.id: r.keyphrases for r in got}
    assert [r.id for r in got] == ["a", "c", "b"]
    assert phrases["a"] == (("Ton",), ("york",)) and phrases["b"][1] == ("mill",)
    assert problems.counts["url twice"] == 4 and problems.read == 3
    assert f"{first}, record 1: 'a'" in problems.messages["url twice"][0]
    assert [r.id for r in read([first, second])] == ["a", "c", "b"]


def test_a_line_that_cannot_be_used_does_not_take_the_place_of_one_that_can(tmp_path):
    broken = page(VDOM="[]")
    got, problems = counted([write_lines(tmp_path, [broken, page(phrases=["x"])])])
    assert len(got) == 1 and got[0].keyphrases == (("x",),)
    assert problems.counts == {
        "VDOM does not tile the text": 1,
        "no keyphrase found": 1,
    }


def test_memory_does_not_grow_with_the_text(tmp_path):
    text = "mill " * 20_000 + "Ton"
    pages = (page((text,), url=str(i)) for i in range(60))
    path = write_lines(tmp_path, pages)
    assert path.stat().st_size > 10e6
    stream = read([path])
    next(stream)
    tracemalloc.start()
    for _ in stream:
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5e6
