"""The benchmark of making inputs, at tiny sizes."""

import pytest

from benchmarks.speed import prepare
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import Problems


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """{task: (file, vocabulary)}."""
    folder = tmp_path_factory.mktemp("made_up")
    files = {name: prepare.made_up_file(name, folder, 30) for name in prepare.SYNTHETIC}
    return {name: (f, prepare.made_up_vocabulary(f)) for name, f in files.items()}


def texts_of(record):
    """All that is tokenised of a record, in one string."""
    if hasattr(record, "paragraphs"):
        parts = [record.question]
        for paragraph in record.paragraphs:
            parts += [paragraph.title, *paragraph.sentences]
    else:
        parts = [*record.candidates, record.query, *record.documents]
    return "".join("".join(parts).split())


@pytest.mark.parametrize("name", prepare.SYNTHETIC)
def test_the_package_gets_the_texts_of_the_features(made_up, tmp_path, name):
    file, vocabulary = made_up[name]
    task = task_lib.find_task(name)
    work = prepare._Work(task, [file], vocabulary, tmp_path)
    records = list(task.read([file], Problems()))
    got = ["".join("".join(batch).split()) for batch in work.batches]
    assert got == [texts_of(record) for record in records]
    ids = [i for batch in work.package() for e in batch for i in e.ids]
    own = [i for texts in work.batches for i, _ in vocabulary.encode_batch(texts)]
    assert ids == [i for x in own for i in x.tolist()]


def test_sentences_that_are_given_make_the_same_windows(made_up, tmp_path):
    work = prepare._Work(task_lib.find_task("wikihop"), *_as_list(made_up), tmp_path)
    for a, b in zip(work.features(), work.given(), strict=True):
        assert (a.tokens.long == b.tokens.long).all()


def _as_list(made_up):
    file, vocabulary = made_up["wikihop"]
    return [file], vocabulary


def test_json_and_table(run, capsys):
    argv = ["--records=20", "--rounds=1", "--allow_busy"]
    code, got = run(prepare.main, *argv)
    assert code == 0
    assert got["benchmark"] == "prepare"
    sides = {x["task"]: [row["name"] for row in x["rows"]] for x in got["tasks"]}
    assert sides == {
        "hotpotqa": ["package", "features", "prepare"],
        "wikihop": ["package", "features", "given", "prepare"],
    }
    for task in got["tasks"]:
        assert task["records"] == 20 and task["tokens"] > 1000
        assert all(row["ratio"] > 0 for row in task["rows"])
    assert "/ package" in capsys.readouterr().out


@pytest.mark.parametrize(
    "argv, message",
    [
        (["x.json"], "files are of one task"),
        (["--task=wikihop", "x.json"], "files need their vocabulary"),
        (["--task=chess"], "chess"),
    ],
)
def test_bad_arguments_are_named(argv, message, capsys):
    with pytest.raises(SystemExit):
        prepare.main(argv)
    assert message in capsys.readouterr().err
