import gzip
import io
import json
import random
import types

import pytest

from etc_jax.data import input_files
from etc_jax.prediction.raw_records import raw_records, read_inputs

A, B = {"id": "a", "text": "[}{]\n"}, {"id": "b"}
FORMS = [
    json.dumps([A, B]),
    json.dumps([A, B], indent=4),
    f"{json.dumps(A)}\n{json.dumps(B)}\n",
    f"\n{json.dumps(A, indent=2)}\n\n{json.dumps(B, indent=2)}",
    f"[{json.dumps(A)}]\n[]\n[{json.dumps(B)}]",
    json.dumps(A) + json.dumps(B),
]


def values(pieces):
    found = list(raw_records(pieces, "in"))
    assert all(x.fault is None for x in found)
    return [x.value for x in found]


@pytest.mark.parametrize("text", FORMS)
def test_every_form_gives_the_same_records(text):
    assert values([text]) == [A, B]


@pytest.mark.parametrize("text", FORMS)
def test_it_does_not_matter_where_the_text_is_cut(text):
    assert values(text) == [A, B]  # after each character
    for at in range(len(text)):
        assert values([text[:at], "", text[at:]]) == [A, B]


# What may stand at the end of a piece and is no error: words, numbers, escapes.
AWKWARD = [-0.125, 12, True, False, None, 1e-30, "\\ \U0001f600 \u00e9\x00", [], {}]


def test_values_are_those_of_the_parser_wherever_the_text_is_cut():
    record = {"id": AWKWARD, "deep": [[{"x": AWKWARD}]]}
    text = json.dumps(record) + "\n" + json.dumps([record, 5, *AWKWARD])
    want = [record, record, 5, *AWKWARD]
    assert values([text]) == values(text) == want
    rng = random.Random(0)
    for _ in range(200):
        cuts = sorted(rng.randrange(len(text)) for _ in range(4))
        ends = zip([0, *cuts], [*cuts, len(text)], strict=True)
        assert values([text[a:b] for a, b in ends]) == want


def test_records_are_numbered_and_faults_have_their_line():
    text = f'{json.dumps(A)}\n{{"id": \n  oops}}\n{json.dumps(B)}\n'
    for pieces in ([text], text):
        first, fault, second = raw_records(pieces, "in")
        assert (first.where, second.where) == ("in, record 1", "in, record 2")
        assert first.value == A and second.value == B
        assert fault.where == "in, line 2"
        assert fault.fault == "is not JSON: Expecting value in line 3"


@pytest.mark.parametrize(
    "text",
    ["nonsense", '{"id": "a"', "[" * 100_000, '{"id": ' + "9" * 5000 + "}", "[", "-"],
)
def test_what_is_no_json_is_one_fault(text):
    for pieces in ([text], [text[:3], text[3:]]):
        [fault] = raw_records(pieces, "in")
        assert fault.where == "in, line 1" and fault.value is None


def test_elements_before_a_fault_of_an_array_come_out():
    for text, line in (
        (f"[{json.dumps(A)},\n{json.dumps(A)} 7", 2),
        (f"[{json.dumps(A)}, {json.dumps(A)},\n]", 2),
        (f"[{json.dumps(A)}, {json.dumps(A)}\n", 2),
    ):
        first, second, fault = raw_records([text], "in")
        assert first.value == second.value == A
        assert fault.where == f"in, line {line}" and "is not JSON" in fault.fault


def test_a_record_that_is_cut_off_does_not_take_the_next_ones_with_it():
    # Its last string has no end: what is after would be taken for more of it.
    text = '{"id": "a\n' + (json.dumps(B) + "\n") * 3
    fault, *rest = raw_records(text, "in")
    assert fault.where == "in, line 1" and [x.value for x in rest] == [B, B, B]


def test_an_empty_input_is_a_fault():
    [fault] = raw_records([" \n"], "in")
    assert fault.fault == "is empty; expected records as JSON"


def test_files_are_read_in_order_and_unpacked(tmp_path):
    plain, packed, other = (tmp_path / n for n in ("a.json", "b.json.gz", "c.json"))
    plain.write_bytes(b"\xef\xbb\xbf" + json.dumps(A).encode())
    packed.write_bytes(gzip.compress(json.dumps([B, B]).encode()))
    other.write_bytes(b'{"id": "\xff"}')
    found = list(read_inputs([str(plain), str(packed), str(other), str(tmp_path)]))
    assert [x.value for x in found] == [A, B, B, None, None]
    assert found[2].where == f"{packed}, record 2"
    assert "cannot be read" in found[3].fault and "cannot be read" in found[4].fault


@pytest.mark.parametrize(
    "spoil_fn, least",
    [
        (lambda packed: packed[:-9], 150),  # cut short
        (lambda packed: packed[:-8] + bytes(8), 200),  # a wrong checksum
        (lambda packed: packed[:10] + b"\xff" * 9 + packed[19:], 0),  # no deflate
    ],
)
def test_a_damaged_file_is_a_fault_and_the_next_one_is_read(
    tmp_path, monkeypatch, spoil_fn, least
):
    monkeypatch.setattr(input_files, "CHUNK_BYTES", 100)
    rng = random.Random(0)
    lines = [json.dumps({"id": rng.random()}) + "\n" for _ in range(200)]
    packed, plain = tmp_path / "a.jsonl.gz", tmp_path / "b.jsonl"
    packed.write_bytes(spoil_fn(gzip.compress("".join(lines).encode())))
    plain.write_text(json.dumps(B))
    *found, fault, last = read_inputs([str(packed), str(plain)])
    assert fault.where == str(packed) and "cannot be read" in fault.fault
    assert [x.value for x in found] == [json.loads(x) for x in lines][: len(found)]
    assert len(found) >= least and last.value == B


# --- memory ---------------------------------------------------------------------------


class Endless(io.RawIOBase):
    """A file without an end; counts what was read of it."""

    def __init__(self, line: bytes):
        self.line, self.count = line, 0

    def readable(self):
        return True

    def readinto(self, buffer):
        count = len(buffer) // len(self.line) * len(self.line)
        buffer[:count] = self.line * (count // len(self.line))
        self.count += count
        return count


def test_no_more_is_read_than_records_are_asked_for(monkeypatch):
    line = json.dumps({"text": "x" * 990}).encode() + b"\n"
    file = Endless(line)
    stream = types.SimpleNamespace(buffer=io.BufferedReader(file, 1 << 16))
    monkeypatch.setattr("sys.stdin", stream)
    monkeypatch.setattr(input_files, "CHUNK_BYTES", 1 << 16)
    records = read_inputs(["-"])
    for number in range(1, 501):
        assert next(records).where == f"standard input, record {number}"
        ahead = file.count - number * len(line)
        assert ahead <= 4 * input_files.CHUNK_BYTES
    assert file.count > 4 * input_files.CHUNK_BYTES
