"""WMT's pairs of files: which belong together, directions, tokens, bad input."""

import gzip
import re
import sys

import multihop_samples
import pytest
from golden_data import require_shared
from written_samples import SENTENCES, TRANSLATION, write_pair

from etc_jax.base.extras import MissingExtraError
from etc_jax.cli import prepare
from etc_jax.datasets import task as task_lib
from etc_jax.datasets.file_summary import summarised
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.prediction.answer_parts import Answer
from etc_jax.prediction.raw_records import read_inputs
from etc_jax.prediction.scoreboard import of_no_answers, settle
from etc_jax.tasks.wmt14_en_de import records as wmt_records
from etc_jax.tasks.wmt14_en_de.records import TranslationOptions, parse, partners, read


def read_all(paths, **options):
    problems = Problems()
    return list(read(paths, problems, options=TranslationOptions(**options))), problems


def write(folder, stem="dev", packed=(), **sides):
    """Bytes of files by language, gzipped if they are `packed`."""
    for language, data in sides.items():
        path = folder / f"{stem}.{language}"
        if language in packed:
            path, data = path.with_name(f"{path.name}.gz"), gzip.compress(data)
        path.write_bytes(data)


# --- pairs ----------------------------------------------------------------------------


def test_a_line_is_a_record_named_by_file_and_line(tmp_path):
    records, problems = read_all([write_pair(tmp_path)])
    assert [x.id for x in records] == ["dev:1", "dev:2"]
    assert (records[1].input, records[1].target) == (
        SENTENCES["en"][1],
        SENTENCES["de"][1],
    )
    assert (problems.read, problems.counts.total()) == (2, 0)


@pytest.mark.parametrize("given", [["dev.en"], ["dev.de"], ["dev.en", "dev.de"]])
def test_either_file_of_a_pair_or_both_are_the_pair(given, tmp_path):
    write_pair(tmp_path)
    records, problems = read_all([tmp_path / name for name in given])
    assert [x.target for x in records] == list(SENTENCES["de"])
    assert problems.counts.total() == 0


def test_files_may_be_gzipped_have_windows_line_ends_and_a_byte_order_mark(tmp_path):
    write(tmp_path, packed=["de"], en=b"\xef\xbb\xbfa b\r\nc\x0bd\n", de=b"e\nf")
    [one, two], _ = read_all([tmp_path / "dev.en"])
    assert (one.input, one.target, two.input, two.target) == ("a b", "e", "c\x0bd", "f")
    assert partners(tmp_path / "dev.de.gz") == [tmp_path / "dev.en"]


def test_what_breaks_a_line_elsewhere_breaks_none_here(tmp_path):
    write(tmp_path, en="a\u2028b\x85c\nd\n".encode(), de=b"e\nf\n")
    records, _ = read_all([tmp_path / "dev.en"])
    assert [x.input for x in records] == ["a\u2028b\x85c", "d"]


def test_the_direction_says_what_is_input_and_what_is_gold(tmp_path):
    file = write_pair(tmp_path)
    task = task_lib.find_task("wmt14_en_de").with_texts(["direction=de-en"])
    assert summarised(task, [file]).gold[0] == {
        "id": "dev:1",
        "references": [SENTENCES["en"][0]],
    }
    [window] = task.features(
        task.parse(TRANSLATION, None), multihop_samples.tokenizer()
    )
    assert window.record.input == SENTENCES["de"][0]
    # Options that are given once more replace those of before.
    back = task.with_options({"direction": "en-de"})
    assert back.parse(TRANSLATION, None).input == SENTENCES["en"][0]


def test_both_files_decide_what_a_cache_and_an_evaluation_are_of(tmp_path):
    file, task = write_pair(tmp_path), task_lib.find_task("wmt14_en_de")
    before = summarised(task, [file]).sha256
    assert len(before) == 2 == len(summarised(task, [file, tmp_path / "dev.de"]).sha256)
    made = prepare.prepare(task, [file], multihop_samples.tokenizer(), tmp_path / "c")
    assert [x[0] for x in made.header["made_by"]["files"]] == ["dev.en", "dev.de"]
    write(tmp_path, de=b"Eins\nZwei\n")
    after = summarised(task, [file]).sha256
    assert before[0] == after[0] and before[1] != after[1]


def test_predict_reads_pairs_and_json_lines_without_a_translation(tmp_path):
    task = task_lib.find_task("wmt14_en_de")
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"id": "x", "en": "Hello."}\n')
    found = list(read_inputs([str(write_pair(tmp_path)), str(lines)], task.release))
    assert [raw.fault for raw in found] == [None] * 3
    assert found[0].value == TRANSLATION
    assert task.parse(found[2].value, None).target is None


# --- tokens of Moses ------------------------------------------------------------------


def test_tokens_of_moses_are_undone_on_both_sides():
    pytest.importorskip("sacremoses")
    value = {
        "id": "a",
        "en": "&quot; It &apos;s a well @-@ known &#91; one &#93; &amp; more , &quot;",
        "de": "Er sagte : &quot; ein so @-@ genannter ( Fall ) &#124; 3 , 5 % &quot; .",
    }
    got = parse(value, None, options=TranslationOptions(detokenise=True))
    assert got.input == '"It\'s a well-known [one] & more,"'
    assert got.target == 'Er sagte: "ein so-genannter (Fall) | 3, 5%".'
    assert parse(value, None).input == value["en"]


def test_the_slice_has_no_token_of_moses_left():
    pytest.importorskip("sacremoses")
    file = require_shared("data/wmt_en_de") / "val.de"
    tokens = re.compile(r"&\w+;|&#\d+;| @-@ | [.,;]( |$)")
    left = []
    for detokenise in (False, True):
        records, problems = read_all([file], detokenise=detokenise)
        assert len(records) == 50 and problems.counts.total() == 0
        left.append(sum(bool(tokens.search(x.input + x.target)) for x in records))
    assert left[0] > 40 and left[1] == 0


# --- bad input ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sides, name, kind, message",
    [
        ({"en": b"a\n"}, "dev.en", "unknown file", "no dev.de beside it, plain or gz"),
        ({"de": b"a\n"}, "dev.de", "unknown file", "JSON lines with 'id' and 'de'"),
        ({"en": b"a\nb\n", "de": b"c\n"}, "dev.en", "file cut short", "dev.en has 2 "),
        ({"en": b"", "de": b"c\n"}, "dev.de", "file cut short", "dev.en has 0 lines"),
        ({"en.sgm": b"<seg>"}, "dev.en.sgm", "unknown file", "expected a name that en"),
        ({"en": b"a\n", "de.gz": b"no"}, "dev.en", "broken gzip", "dev.de.gz, after"),
    ],
)
def test_what_is_no_pair_gives_no_record_and_one_clear_error(
    sides, name, kind, message, tmp_path
):
    write(tmp_path, **sides)
    records, problems = read_all([tmp_path / name])
    assert records == [] and dict(problems.counts) == {kind: 1}
    assert message in problems.messages[kind][0]
    with pytest.raises(BadRecordError, match=f"{kind}: {tmp_path}"):
        list(read([tmp_path / name]))
    with pytest.raises(BadRecordError, match=kind):  # nothing is scored
        summarised(task_lib.find_task("wmt14_en_de"), [tmp_path / name])


def test_a_bad_line_costs_its_pair_and_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("ETC_JAX_MAX_RECORD_MB", "1")
    write(
        tmp_path,
        en=b"one\nt\xffo\nthree\nfour\n" + b"x" * 1_000_001 + b"\n",
        de=b"eins\nzwei\n \nvier\nviel\n",
    )
    records, problems = read_all([tmp_path / "dev.de"])
    assert [x.id for x in records] == ["dev:1", "dev:4"] and problems.lost == 3
    said = {kind: problems.messages[kind][0] for kind in problems.counts}
    assert set(said) == {"not UTF-8", "empty line", "line too long"}
    assert "dev.de, record 2: dev.en: line 2: 'utf-8' codec" in said["not UTF-8"]
    assert "record 3: 'dev:3' is blank in 'de'" in said["empty line"]


def test_an_empty_sentence_is_translated_by_nothing_and_counts(tmp_path):
    pytest.importorskip("sacrebleu")
    write(
        tmp_path, en=b"\none two three four\n", de=b"eins zwei\ndrei vier eins acht\n"
    )
    task = task_lib.find_task("wmt14_en_de")
    found = summarised(task, [tmp_path / "dev.en"])
    assert found.ids == ("dev:1", "dev:2") and found.unreadable == 0
    [first, _] = task.read([tmp_path / "dev.en"], None)
    for make in (task.features, task.record_length):
        with pytest.raises(BadRecordError, match="no text"):
            make(first, multihop_samples.tokenizer())
    given = {"dev:1": task.no_answer, "dev:2": "drei vier eins acht"}
    assert task.score(found.gold, given).metrics["bleu"] < 0.7


def test_a_pair_that_cannot_be_read_adds_nothing_to_bleu_and_is_counted(tmp_path):
    pytest.importorskip("sacrebleu")
    write(tmp_path, en=b"a\nb\n", de=b"drei vier eins acht\n\xff\n")
    task = task_lib.find_task("wmt14_en_de")
    found = summarised(task, [tmp_path / "dev.en"])
    answers = [Answer("dev:1", ["drei vier eins acht"], None)]
    result = settle(task, answers, found.gold, settings=(None,), unreadable=1)
    assert found.unreadable == 1 and result.official == {"dev:1": "drei vier eins acht"}
    assert (result.chosen.count, result.chosen.metrics["bleu"]) == (2, 1.0)


@pytest.mark.parametrize(
    "flags, missing, message",
    [
        (
            ["--direction=fr-en"],
            None,
            "direction is 'fr-en'; expected one of en-de, de-en",
        ),
        (["--direction=en"], None, "direction is 'en'; expected one of en-de, de-en"),
        (["--detokenise"], "sacremoses", 'Moses, .*: pip install "etc_jax.metrics.*"'),
    ],
)
def test_what_a_command_cannot_do_is_one_line(
    flags, missing, message, tmp_path, capsys, monkeypatch
):
    if missing:
        monkeypatch.setitem(sys.modules, missing, None)
        wmt_records._detokenizer.cache_clear()
    multihop_samples.tokenizer().save(tmp_path / "t.json")
    usual = ["--task=wmt14_en_de", f"--tokenizer={tmp_path / 't.json'}", "--workers=0"]
    file = str(write_pair(tmp_path))
    assert prepare.main([*usual, *flags, f"--out={tmp_path / 'c'}", file]) == 2
    error = capsys.readouterr().err
    assert re.search(message, error) and error.count("\n") == 1


def test_scoring_without_its_package_is_refused_before_anything_is_answered(
    tmp_path, monkeypatch
):
    for name in [x for x in sys.modules if x.partition(".")[0] == "sacrebleu"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sacrebleu", None)
    task = task_lib.find_task("wmt14_en_de")
    with pytest.raises(MissingExtraError, match="sacrebleu is needed to work out BLEU"):
        of_no_answers(task, summarised(task, [write_pair(tmp_path)]))
