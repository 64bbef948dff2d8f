"""What invented items of all data sets have in common."""

import pytest

from etc_jax.base import registry

MAKERS = {
    name: registry.lookup("invented_items", name)
    for name in registry.names("invented_items")
}
# Folders of what lists of a release name.
DOCUMENTS = {"evidence", "gao", "all_chapterized_books", "scripts", "SummScreen_raw"}


@pytest.mark.parametrize("name", MAKERS)
def test_a_record_depends_on_seed_and_number_alone(name):
    maker = MAKERS[name]

    def records(count, **of):
        return list(maker.records(count, sizes=maker.sizes(), **of))

    whole = records(20, seed=3)
    assert records(5, seed=3, start=15) == whole[15:]
    other = records(20, seed=4)
    assert not any(item in whole for item in other)
    assert all(whole.count(item) == 1 for item in whole)


@pytest.mark.parametrize("name", [name for name, x in MAKERS.items() if x.splits])
def test_a_release_that_breaks_off_is_not_there(name, tmp_path):
    maker = MAKERS[name]

    def broken():
        yield from maker.records(2, seed=0, sizes=maker.sizes())
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        maker.write_split(tmp_path, broken(), split=maker.splits[0])
    # Documents that nothing names may stay.
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in files if not DOCUMENTS & {*path.parts}]


@pytest.mark.parametrize(
    "name, sizes, message",
    [
        ("coreference", {"persons": 1}, "persons must be 2 to 18, got 1"),
        ("hotpotqa", {"comparisons": 2}, "comparisons must be 0 to 1, got 2"),
        *(("imdb", {x: -1}, f"{x} is -1; exp") for x in ("others", "words", "apart")),
        ("imdb", {"late": 1.5}, "late is 1.5; expected"),
        *(("long_documents", {x: -1}, f"{x} is -1; exp") for x in ("words", "after")),
        ("long_documents", {"facts": 0}, "facts is 0; expected a whole number from 1"),
        ("long_documents", {"wordings": 4}, "wordings is 4; expected .* 1 to 3"),
        ("long_documents", {"words": 50, "after": 50}, "after is 50; expected less"),
        ("natural_questions", {"nulls": 0.6, "yes_no": 0.5}, "1 at most in all, got"),
        ("natural_questions", {"long_only": -0.1}, "must be at least 0"),
        ("natural_questions", {"annotators": 0}, "annotators is 0; expected 1 or more"),
        ("natural_questions", {"apart": -1}, "apart is -1; expected 0 or more"),
        ("natural_questions", {"contexts": 1}, "contexts must be"),
        ("natural_questions", {"blocks": ("P", "Ol")}, "some of P, Table, Ul, got"),
        ("hotpotqa", {"asks": ("aunt",)}, "asks must be some of birthplace, home,"),
        ("squad_pieces", {"piece_words": 22}, "piece_words is 22; expected 7 to 21"),
        ("squad_pieces", {"name_pool": 2}, "make 2 of name_words = 1; raise name_pool"),
        ("squad_pieces", {"facts": 1, "unanswerable": 1}, "every second text"),
        ("openkp", {"keyphrases": (0, 2)}, "keyphrases"),
        ("openkp", {"keyphrases": (3, 4)}, "keyphrases"),
        ("openkp", {"others": -1}, "others"),
        *(("triviaqa", {x: -1}, f"{x} is -1; exp") for x in ("apart", "mentions")),
        ("wikihop", {"candidates": 3}, "candidates must be 4 to 100 for 2 hops, got 3"),
        ("wikihop", {"candidates": 101}, "candidates must be"),
        (
            "wikihop",
            {"kinds": ("town",)},
            r"contexts must be at most candidates \+ 1 = 9 .*one kind \(town\), got 10",
        ),
    ],
)
def test_sizes_that_cannot_be_are_named(name, sizes, message):
    with pytest.raises(ValueError, match=message):
        MAKERS[name].sizes(**sizes)
