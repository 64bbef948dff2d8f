"""Rows as labelled texts: which columns, which labels, and what is wrong with them."""

import json

import pytest
from multihop_samples import tokenizer

from etc_jax.datasets.file_summary import summarised
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.task import find_task
from etc_jax.tasks import classification
from etc_jax.tasks.classification.records import ClassificationOptions, Record

COLUMNS = {"text_column": "body", "label_column": "topic"}


def options(**changes):
    return ClassificationOptions(**{**COLUMNS, **changes})


def write(folder, content, name="a.csv"):
    path = folder / name
    path.write_text(content, encoding="utf-8")
    return path


def lines(folder, *values):
    return write(folder, "".join(f"{json.dumps(x)}\n" for x in values), "a.jsonl")


def read_all(path, **changes):
    problems = Problems()
    found = list(
        classification.records.read([path], problems, options=options(**changes))
    )
    return found, problems


def test_columns_are_found_by_their_names_and_rows_by_their_numbers(tmp_path):
    path = write(tmp_path, 'topic,x,body\n red fish ,1,"a,\nb"\n日本,2,c\n')
    labels = ("red fish", "日本")
    got, problems = read_all(path, labels=labels)
    assert got == [
        Record("a.csv:1", "a,\nb", None, "red fish", labels),
        Record("a.csv:2", "c", None, "日本", labels),
    ]
    assert problems.counts == {"field over several lines": 1} and problems.read == 2


def test_ids_come_from_a_column_if_there_is_one(tmp_path):
    path = write(tmp_path, "id,key,body\nq,r,a\n,s,b\n")
    assert [x.id for x in read_all(path)[0]] == ["q", "a.csv:2"]
    assert [x.id for x in read_all(path, id_column="key")[0]] == ["r", "s"]
    _, problems = read_all(path, id_column="none")
    assert problems.counts == {"missing field": 2}
    assert "no 'none'; fields are: body, id, key" in problems.report()


def test_labels_of_json_lines_may_be_numbers_and_flags(tmp_path):
    values = (3, "3", True, None, "")
    path = lines(tmp_path, *({"body": "a", "topic": x} for x in values), {"body": "a"})
    assert [x.label for x in read_all(path)[0]] == ["3", "3", "true", None, None, None]


def test_sets_of_labels_are_lists_or_texts_with_a_separator(tmp_path):
    known = {"multi_label": True, "labels": ("z", "a b", "c")}
    of_csv = write(tmp_path, 'body,topic\nt,"c, z,c"\nt,\nt,a b\n')
    want = [("z", "c"), (), ("a b",)]
    assert [x.label for x in read_all(of_csv, **known)[0]] == want
    of_lines = lines(
        tmp_path,
        *({"body": "t", "topic": x} for x in (["c", "z"], [], "a b")),
        {"body": "t"},
    )
    assert [x.label for x in read_all(of_lines, **known)[0]] == [*want, None]
    other = write(tmp_path, "body,topic\nt,c|z\n", "b.csv")
    assert read_all(other, **known, label_separator="|")[0][0].label == ("z", "c")


def test_a_second_text_has_a_column_of_its_own(tmp_path):
    path = write(tmp_path, "body,claim,topic\na,b,x\na,,x\n")
    got, problems = read_all(path, second_column="claim")
    assert [(x.text, x.second) for x in got] == [("a", "b")]
    assert problems.counts == {"empty field": 1}
    assert read_all(path)[0][0].second is None


def test_records_without_a_file_are_named_by_what_they_say():
    values = ({"body": "a", "claim": x} for x in ("b", "c", "b"))
    said = options(second_column="claim")
    names = [
        classification.records.parse(x, lambda *note: None, options=said).id
        for x in values
    ]
    assert names[0] == names[2] != names[1] and len(names[0]) == 16


# --- labels ---------------------------------------------------------------------------


def test_labels_are_those_of_all_files_sorted(tmp_path):
    files = [
        write(tmp_path, "body,topic\nt,b\nt,\nt,c c\n"),
        lines(tmp_path, {"body": "t", "topic": "a"}),
    ]
    assert options().completed(files).labels == ("a", "b", "c c")
    given = options(labels=("c c", "x", "b", "a"))
    assert given.completed(files) is given


@pytest.mark.parametrize(
    "content, said",
    [
        ("body,topics\nt,a\n", "column 'topic' has 0 labels, .* 'body', 'topics'; 1 r"),
        ("text,topic\nt,a\n", "(?s)has 0 labels, .*no 'body'; fields are: text, topic"),
        ("body,topic\nt,a\nu,a\n", "has 1 labels, expected 2 or more"),
        ("", "(?s)columns of the first file: none; .*broken header"),
        (
            "body,topic\n" + "".join(f"t,{i}\n" for i in range(1001)),
            "'topic' has more than 1000 labels, such as '0', '1', '10'; name another",
        ),
    ],
)
def test_a_column_that_has_no_labels_is_told_the_columns(tmp_path, content, said):
    with pytest.raises(ValueError, match=said):
        options().completed([write(tmp_path, content)])


def test_a_label_that_was_never_seen_is_one_error(tmp_path):
    path = write(tmp_path, "body,topic\nt,a\nt,b\nt,green\nt,blue\n")
    task = find_task("classification").with_options({**COLUMNS, "labels": ("a", "b")})
    said = (
        "unknown label: .*a.csv, record 3: 'a.csv:3' has the label 'green', which is "
        "none of the known ones: 'a', 'b'"
    )
    for act in (task.completed, lambda paths: summarised(task, paths)):
        with pytest.raises(BadRecordError, match=said):
            act([path])


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"labels": ("a", "a")}, "labels is 'a', 'a'; expected 2 or more, each once"),
        ({"labels": ("a", " ")}, "labels is 'a', ''; expected"),
        ({"labels": ("a",)}, "expected 2 or more"),
        ({"text_column": ""}, "text_column is blank"),
        ({"multi_label": True, "label_separator": ""}, "label_separator is blank"),
    ],
)
def test_options_that_make_no_choice_are_refused(changes, said):
    with pytest.raises(ValueError, match=said):
        options(**changes)


def test_one_label_may_be_there_or_not():
    assert options(labels=("a",), multi_label=True).labels == ("a",)


def test_what_follows_from_the_options_is_put_back_with_them():
    task = find_task("classification")
    several = task.with_options({"labels": ("a", "b"), "multi_label": True})
    assert (several.learner, several.metric) == ("label_sets", "micro_f1")
    assert several.classes == ("a", "b") and several.no_answer == []
    again = several.with_options({"multi_label": False})
    for name in ("learner", "metric", "no_answer", "decode", "gold_outputs"):
        assert getattr(again, name) == getattr(task, name)


def test_inputs_need_the_labels_to_be_known(tmp_path):
    [record], _ = read_all(write(tmp_path, "body,topic\nthe mill,a\n"))
    with pytest.raises(ValueError, match="'a.csv:1' has a label, but not all labels"):
        classification.inputs.features(record, tokenizer())


def test_names_of_columns_shape_no_input_and_a_second_text_does():
    sizes = classification.inputs.SIZES
    usual = options(labels=("a", "b")).shaping(sizes)
    assert options(labels=("a", "b"), text_column="txt").shaping(sizes) == usual
    for changes in ({"second_column": "x"}, {"multi_label": True}):
        assert options(labels=("a", "b"), **changes).shaping(sizes) != usual
    assert options(labels=("b", "a")).shaping(sizes) != usual
