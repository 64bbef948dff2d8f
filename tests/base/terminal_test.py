"""What foreign text may hold reaches no terminal."""

import io
import json
import shlex
import unicodedata

import pytest

from etc_jax.base.terminal import in_shell, printable, say
from etc_jax.cli import inspect, predict
from etc_jax.datasets.explained import Candidate, Explained
from etc_jax.tasks import stats

EVIL = (
    "\x1b[2J\x1b]0;title\x07\r\x00\x7f\x85\x9b31m\u200e\u200f\u061c\u202a\u202b\u202c"
    "\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\udfff\ud800"
)


def assert_harmless(text: str) -> None:
    for c in text:
        assert c in "\t\n" or unicodedata.category(c) not in ("Cc", "Cs", "Zl", "Zp"), c
        assert unicodedata.bidirectional(c) not in (
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        )
        assert c not in "\u200e\u200f\u061c"


def test_every_character_of_unicode_is_harmless_or_escaped():
    for code in range(0x110000):
        assert_harmless(printable(chr(code)))
    assert_harmless(printable(EVIL))


def test_what_people_write_stays_as_it_is():
    text = "a\tb\nÜber 東京 \u05e9\u05dc\u05d5\u05dd \U0001f469\u200d\U0001f52c\u00a0b"
    assert printable(text) == text


def test_escaped_json_is_still_the_same_json():
    value = {"text": EVIL, "other": ["plain", 3]}
    assert json.loads(printable(json.dumps(value))) == value
    assert json.loads(printable(json.dumps(value, ensure_ascii=False))) == value


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_a_stream_of_any_encoding_is_written_to(encoding):
    data = io.BytesIO()
    stream = io.TextIOWrapper(data, encoding=encoding, newline="\n")
    say(f"\u00e9 \u6771 {EVIL}", stream)
    stream.flush()
    text = data.getvalue().decode(encoding)
    assert_harmless(text)
    assert text.startswith("\u00e9" if encoding != "ascii" else "\\xe9")


def test_answers_are_printed_without():
    told = Explained(EVIL, EVIL, EVIL, (), (Candidate(EVIL, 0.5),))
    assert_harmless(told.text())


# --- commands -------------------------------------------------------------------------


def test_inspect_shows_foreign_text_harmlessly(tmp_path, capsys):
    path = tmp_path / "a.txt"
    path.write_bytes(f"One {EVIL} two. Three.".encode("utf-8", "replace"))
    assert inspect.main([f"--file={path}"]) == 0
    captured = capsys.readouterr()
    assert "Three" in captured.out
    assert_harmless(captured.out + captured.err)


def test_errors_show_names_of_files_harmlessly(tmp_path, capsys):
    name = f"{tmp_path}/\x1b[2J\u202egpj.json"
    assert stats.main([name]) == 2
    assert predict.main([f"--model={name}", name]) == 2
    assert inspect.main([f"--file={name}"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\\u001b[2J\\u202e") >= 3
    assert_harmless(captured.out + captured.err)


def test_statistics_show_records_harmlessly(tmp_path, capsys):
    record = {"_id": "a", "question": "Who?", "context": [["T", ["One."]]]}
    twice = {**record, "context": [[EVIL, ["x"]], [EVIL, []]], "_id": f"b{EVIL}"}
    other = {**record, "_id": "c", f"{EVIL}": 1, "context": [EVIL]}
    path = tmp_path / "a.json"
    path.write_text(json.dumps([record, twice, other]))
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n")
    given = ["--task=hotpotqa", f"--tokenizer={vocabulary}", str(path)]
    code = stats.main(given)
    captured = capsys.readouterr()
    assert_harmless(captured.out + captured.err)
    assert code == 0 and "context[0]" in captured.out


@pytest.mark.parametrize(
    "text", ["('a=1', 'b')", """('a="x y"', 'b')""", "$HOME `ls` \\ !!", "", "日本"]
)
def test_a_shell_reads_the_same_text(text):
    assert shlex.split(in_shell(text)) == [text]
    if not set(text) & set('"$'):
        assert in_shell(text) == f'"{text}"'
