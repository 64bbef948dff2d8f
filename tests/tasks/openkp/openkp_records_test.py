import gzip
import json
import tracemalloc

import numpy as np
import pytest
from openkp_samples import BODY, PLAIN, TITLE, page, record, with_nodes, write_lines

from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.tasks.openkp import records as openkp_records
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


def test_a_test_file_has_no_keyphrases(tmp_path):
    value = page()
    del value["KeyPhrases"]
    [got], problems = counted([write_lines(tmp_path, [value])])
    assert got.keyphrases is None and not problems.counts


def test_spaces_side_by_side_have_empty_words_between_them():
    got = record(("Old  Mill", "", "in Ton"))
    assert got.text == "Old  Mill  in Ton"
    assert got.elements.tolist() == [[0, 3], [3, 4], [4, 6]]


def _set(number, key, value):
    def change(nodes):
        nodes[number][key] = value

    return change


def _feature(number, column, value):
    def change(nodes):
        nodes[number]["feature"][column] = value

    return change


TILE = "VDOM does not tile the text"


@pytest.mark.parametrize(
    "value, kind, message",
    [
        (page(url=3), "wrong type", "'url' is int '3', expected a string"),
        (page(text=" "), "empty field", "'text' is blank"),
        (page(text=None), "wrong type", "'text' is NoneType"),
        (page(VDOM=[]), "wrong type", "'VDOM' is list '[]', expected a string"),
        (page(VDOM="[{"), "broken VDOM", "VDOM is no JSON"),
        (page(VDOM="{}"), "wrong type", "'VDOM' is dict '{}', expected a list"),
        (page(VDOM="[3]"), "wrong type", "int '3', expected an object"),
        (page(VDOM="[]"), TILE, "elements end at word 0 of 15"),
        (page(text="Old Mill and more"), TILE, "element 1 is 'The old mill"),
        (with_nodes(_set(1, "start_idx", 3)), TILE, "words 3 to 9"),
        (with_nodes(_set(1, "end_idx", 8)), TILE, "element 1"),
        (with_nodes(_set(3, "text", "country of ton")), TILE, "element 3"),
        (with_nodes(lambda nodes: nodes.pop()), TILE, "end at word 12 of 15"),
        (with_nodes(_set(0, "end_idx", 2.0)), "wrong type", "[0].end_idx' is float"),
        (
            with_nodes(_set(0, "start_idx", False)),
            "wrong type",
            "[0].start_idx' is bool",
        ),
        (with_nodes(lambda n: n[2].pop("text")), "missing field", "no 'VDOM[2].text'"),
        (with_nodes(_set(1, "feature", PLAIN)), "wrong features", "has 10 numbers"),
        (
            with_nodes(lambda n: n[1].pop("feature")),
            "wrong features",
            "no 'VDOM[1].feature'",
        ),
        (with_nodes(_feature(1, 8, "14")), "wrong features", "expected a finite"),
        (with_nodes(_feature(1, 8, True)), "wrong features", "expected a finite"),
        (with_nodes(_feature(2, 0, float("nan"))), "wrong features", "VDOM[2]"),
        (with_nodes(_feature(2, 0, 10**400)), "wrong features", "int '1000"),
        (with_nodes(_feature(2, 0, 1e39)), "wrong features", "float '1e+39'"),
        (with_nodes(_set(0, "end_idx", 2**31)), "wrong type", "from 0 to 2147483647"),
        (page(KeyPhrases=[5]), "wrong type", "'KeyPhrases[0]' is int '5', expected a"),
        (with_nodes(_feature(2, 14, 0.5)), "wrong features", "0 or 1 in columns [4,"),
        (page(KeyPhrases="mill"), "wrong type", "expected a list"),
        (
            page(KeyPhrases=["mill"]),
            "wrong type",
            "'KeyPhrases[0]' is str 'mill', expected",
        ),
        (page(KeyPhrases=[]), "empty field", "'KeyPhrases' has no phrase"),
        (page(KeyPhrases=[[], [""]]), "empty field", "'KeyPhrases' has no phrase"),
        (page(("Old \ud800",)), "no Unicode", "half a character"),
        ([], "wrong type", "expected an object"),
    ],
)
def test_a_bad_page_is_named(tmp_path, value, kind, message):
    path = write_lines(tmp_path, [page(url="http://x.org/good"), value])
    got, problems = counted([path])
    assert [r.id for r in got] == ["http://x.org/good"]
    assert problems.counts == {kind: 1} and problems.read == 1
    [text] = problems.messages[kind]
    assert text.startswith(f"{path}, record 2: ") and message in text
    with pytest.raises(BadRecordError, match="record 2"):
        list(read([path]))


@pytest.mark.parametrize("field", ["url", "text", "VDOM"])
def test_a_missing_field_is_named(tmp_path, field):
    value = page()
    del value[field]
    got, problems = counted([write_lines(tmp_path, [value])])
    assert got == [] and problems.counts == {"missing field": 1}
    assert f"no '{field}'; fields are:" in problems.messages["missing field"][0]


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


def test_lines_that_are_no_json_are_counted_and_passed_over(tmp_path):
    path = tmp_path / "pages.jsonl"
    lines = ["", "{", json.dumps(page()), "nonsense", json.dumps(page(url="b"))]
    path.write_text("\n".join(lines))
    got, problems = counted(path)
    assert len(got) == 2 and problems.counts == {"broken line": 2}


def test_compressed_files_are_read_and_cut_ones_named(tmp_path):
    path = tmp_path / "pages.jsonl.gz"
    lines = "".join(json.dumps(page(url=str(i))) + "\n" for i in range(2000))
    whole = gzip.compress(lines.encode())
    path.write_bytes(whole)
    assert len(list(read([path]))) == 2000
    path.write_bytes(whole[: len(whole) // 2])
    got, problems = counted([path])
    assert 0 < len(got) < 2000
    assert problems.counts == {"file cut short": 1}


def test_a_missing_file_is_an_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        list(read([tmp_path / "none.jsonl"], Problems()))


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


def test_a_rating_prefers_keyphrases_then_earlier_lines():
    best = record(phrases=["Ton", "mill"])
    other = record(phrases=["Ton", "york"])
    rating = openkp_records._rating
    assert rating(best, 1) > rating(best, 2) > rating(other, 1) > rating(other, 9**9)
