"""Files of records that a list names: found, missing, outside, broken."""

import pytest
from text_sets import write_files

from etc_jax.data.input_files import BadRecordError
from etc_jax.datasets.record_files import names_in, nearest_folder, text_in, value_in


def test_a_folder_is_looked_for_above_the_list(tmp_path):
    write_files(
        tmp_path, {"a/b/c/list": "", "texts/x.txt": "", "a/scripts/texts/y.txt": ""}
    )
    of_list = tmp_path / "a" / "b" / "c" / "list"
    assert nearest_folder(of_list, "texts") == tmp_path / "texts"
    # The nearest, whatever the order of the names.
    nearest = nearest_folder(of_list, "texts", "scripts/texts")
    assert nearest == tmp_path / "a" / "scripts" / "texts"
    assert nearest_folder(of_list, "texts/x.txt") is None


def test_a_folder_that_is_far_above_is_another_release(tmp_path):
    write_files(tmp_path, {"a/b/c/d/e/f/list": "", "texts/x.txt": ""})
    assert nearest_folder(tmp_path / "a/b/c/d/e/f/list", "texts") is None


@pytest.mark.parametrize("name", ["../x.txt", "a/../../x.txt", "/etc/passwd", "a\0"])
def test_a_name_that_leads_out_of_the_folder_is_refused(name, tmp_path):
    write_files(tmp_path, {"x.txt": "secret", "texts/a/y.txt": ""})
    with pytest.raises(BadRecordError, match="not the path of a file below") as error:
        text_in(tmp_path / "texts", name)
    assert error.value.kind == "file outside"


@pytest.mark.parametrize(
    "content, kind",
    [
        (None, "missing file"),
        (b'{"a": ', "broken file"),
        (b"[" * 200_000, "broken file"),
        (b'"\xff"', "not UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_costs_one_record_and_is_named(
    content, kind, tmp_path
):
    if content is not None:
        (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(BadRecordError, match="x.json") as error:
        value_in(tmp_path, "x.json")
    assert error.value.kind == kind


def test_the_files_of_a_folder_are_named_in_order(tmp_path):
    write_files(tmp_path, {"b.json": {}, "a.json": {}, "notes.txt": "", "c/d.json": {}})
    assert [*names_in(tmp_path, "file")] == [
        (1, {"file": "a.json"}),
        (2, {"file": "b.json"}),
    ]
