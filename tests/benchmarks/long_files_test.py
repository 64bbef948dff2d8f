"""Long files of invented records: they are read as released ones are."""

import json
import os
import statistics

import pytest

from benchmarks.data import long_files
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.records import Problems


@pytest.fixture(scope="module")
def hotpotqa(tmp_path_factory):
    return long_files.write("hotpotqa", tmp_path_factory.mktemp("hotpotqa"), 1.5)


@pytest.fixture(scope="module")
def articles(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(long_files, "VOCABULARY_TEXTS", 6)  # it is quicker
        return long_files.write("natural_questions", tmp_path_factory.mktemp("nq"), 4)


@pytest.fixture(params=["hotpotqa", "articles"])
def both(request):
    name = {"articles": "natural_questions"}.get(request.param, request.param)
    return name, request.getfixturevalue(request.param)


def records_of(name, path):
    problems = Problems()
    records = list(task_lib.find_task(name).read([path], problems))
    assert not problems.counts
    return records


def test_it_can_be_read_and_has_the_size(both):
    name, file = both
    records = records_of(name, file.path)
    assert len(records) == file.records == len({record.id for record in records})
    assert os.stat(file.path).st_size == pytest.approx(file.text_bytes, abs=2)
    megabytes = {"hotpotqa": 1.5, "natural_questions": 4}[name]
    last = file.text_bytes - megabytes * 10**6
    assert 0 <= last < 10**7  # a record more


def test_texts_come_again_with_another_id(hotpotqa):
    records = records_of("hotpotqa", hotpotqa.path)
    assert len(records) > 200 and {len(record.id) for record in records} == {24}
    questions = [record.question for record in records]
    assert questions[100:] == questions[:-100]
    assert len(set(questions)) > 90


def test_every_record_fits_into_inputs_of_the_paper(both):
    name, file = both
    task, tokenizer = task_lib.find_task(name), open_tokenizer(file.tokenizer)
    record, *_ = records_of(name, file.path)
    windows = task.features(record, tokenizer)
    assert windows and not any(window.unusable for window in windows)
    unknown = tokenizer.pieces(range(tokenizer.vocab_size)).index("[UNK]")
    assert not any((window.tokens.long == unknown).any() for window in windows)


def test_a_packed_file_holds_the_same(hotpotqa, tmp_path):
    packed = long_files.write("hotpotqa", tmp_path, 1.5, packed=True)
    assert packed.path.endswith(".json.gz")
    assert packed[2:] == hotpotqa[2:]
    assert os.stat(packed.path).st_size < packed.text_bytes / 2
    assert records_of("hotpotqa", packed.path) == records_of("hotpotqa", hotpotqa.path)


def test_articles_are_as_long_as_it_says(articles):
    words = long_files.article_words()
    assert len(words) == len(set(words)) == long_files.DIFFERENT
    # The spread of table 1 of the ETC paper.
    below = sorted(words)[94] / statistics.median(words)
    assert below == pytest.approx(17137 / 4004, rel=0.05)
    records = records_of("natural_questions", articles.path)
    tokens = [len(record.words) for record in records]
    expected = [1.4 * n for n in words[: len(records)]]
    assert tokens == pytest.approx(expected, rel=0.2)


def test_a_process_of_its_own_writes_the_same(hotpotqa, tmp_path):
    apart = long_files.write_apart("hotpotqa", tmp_path, 1.5)
    assert apart[2:] == hotpotqa[2:]
    for mine, other in zip(apart[:2], hotpotqa[:2], strict=True):
        with open(mine, "rb") as one, open(other, "rb") as two:
            assert one.read() == two.read()


def test_the_command_prints_what_it_wrote(tmp_path, capsys):
    argv = ["--task=hotpotqa", "--megabytes=0.01", "--gzip", str(tmp_path / "new")]
    assert long_files.main(argv) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["records"] == 2 and shown["path"] == str(tmp_path / "new/long.json.gz")
    assert len(records_of("hotpotqa", shown["path"])) == 2
