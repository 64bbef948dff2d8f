import gzip
import json

import pytest

from etc_jax.prediction.raw_records import raw_records, read_inputs

A, B = {"id": "a", "text": "[}{]\n"}, {"id": "b"}


def values(text):
    found = list(raw_records(text, "in"))
    assert all(x.fault is None for x in found)
    return [x.value for x in found]


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([A, B]),
        json.dumps([A, B], indent=4),
        f"{json.dumps(A)}\n{json.dumps(B)}\n",
        f"\n{json.dumps(A, indent=2)}\n\n{json.dumps(B, indent=2)}",
        f"[{json.dumps(A)}]\n[{json.dumps(B)}]",
        json.dumps(A) + json.dumps(B),
    ],
)
def test_every_form_gives_the_same_records(text):
    assert values(text) == [A, B]


def test_records_are_numbered_and_faults_have_their_line():
    text = f'{json.dumps(A)}\n{{"id": \n  oops}}\n{json.dumps(B)}\n'
    first, fault, second = raw_records(text, "in")
    assert (first.where, second.where) == ("in, record 1", "in, record 2")
    assert first.value == A and second.value == B
    assert fault.where == "in, line 2" and "is not JSON" in fault.fault


@pytest.mark.parametrize("text", ["nonsense", '{"id": "a"', "[" * 100_000])
def test_what_is_no_json_is_one_fault(text):
    [fault] = raw_records(text, "in")
    assert fault.where == "in, line 1" and fault.value is None


def test_an_empty_input_is_a_fault():
    [fault] = raw_records(" \n", "in")
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
