"""Parts of an evaluation: what is damaged is made anew, and is never counted."""

import json
import logging

import numpy as np
import pytest

from etc_jax.prediction.answer_parts import Answer, Parts
from etc_jax.training.errors import UserError

IDS = [f"r{i}" for i in range(40)]
ANSWERS = [Answer(x, [{"text": f"of {x}", "score": 0.5}], None) for x in IDS]
MADE_BY = {"model": "m", "records": "d"}


@pytest.fixture
def out(tmp_path):
    made = Parts(tmp_path, IDS, MADE_BY)
    made.write(0, ANSWERS[:32])
    made.write(1, ANSWERS[32:])
    return tmp_path


def test_a_flipped_bit_in_any_byte_is_named_and_the_part_made_anew(out, caplog):
    file = out / "parts" / "00001.jsonl"
    whole, rng = file.read_bytes(), np.random.default_rng(0)
    caplog.set_level(logging.ERROR)
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(damaged)
        caplog.clear()
        try:
            made = Parts(out, IDS, MADE_BY)
        except UserError as error:
            # The one way to hide a checksum: the name of its field.
            assert b'"crc32"' not in damaged, str(error)
            continue
        assert "00001.jsonl is damaged" in caplog.text and made.missing() == [1]
        made.write(1, ANSWERS[32:])
        assert file.read_bytes() == whole
    print(f"{len(whole)} of {len(whole)} flipped bytes never counted")
    assert len(list(file.parent.glob("00001.jsonl.damaged-*"))) == len(whole) - 5
    assert Parts(out, IDS, MADE_BY).answers() == ANSWERS


@pytest.mark.parametrize(
    "damage", [lambda x: x[:-1], lambda x: b"", lambda x: x + b"x"]
)
def test_a_part_of_another_length_is_made_anew(out, damage):
    file = out / "parts" / "00000.jsonl"
    file.write_bytes(damage(file.read_bytes()))
    assert Parts(out, IDS, MADE_BY).missing() == [0]


def test_damage_that_comes_later_is_never_counted(out):
    made = Parts(out, IDS, MADE_BY)
    file = out / "parts" / "00001.jsonl"
    file.write_bytes(file.read_bytes().replace(b"0.5", b"0.6", 1))
    with pytest.raises(UserError, match="00001.jsonl is damaged .* delete it"):
        made.answers()


def test_a_part_of_before_checksums_is_read_and_says_so(out, caplog):
    file = out / "parts" / "00001.jsonl"
    head, _, body = file.read_text().partition("\n")
    file.write_text(json.dumps(MADE_BY) + "\n" + body)
    with caplog.at_level(logging.WARNING):
        assert Parts(out, IDS, MADE_BY).answers() == ANSWERS
    assert "00001.jsonl is of an earlier version, without a checksum" in caplog.text


def test_another_evaluation_is_refused_and_let_be(out):
    before = {x.name: x.read_bytes() for x in (out / "parts").iterdir()}
    with pytest.raises(UserError, match="model: 'm' there, 'other' now"):
        Parts(out, IDS, {**MADE_BY, "model": "other"})
    assert before == {x.name: x.read_bytes() for x in (out / "parts").iterdir()}


def test_two_evaluations_that_begin_together_do_not_mix(tmp_path):
    """Both have found the folder empty; one of them goes on."""
    ids = ["a", "b"]
    answers = [Answer(record, ["x"], None) for record in ids]
    one = Parts(tmp_path, ids, {"model": 1})
    other = Parts(tmp_path, ids, {"model": 2})
    one.write(0, answers)
    before = one._path(0).read_bytes()
    with pytest.raises(
        UserError, match="another evaluation.*\n  model: 1 there, 2 now"
    ):
        other.write(0, answers)
    with pytest.raises(UserError, match="another evaluation"):
        other.answers()
    assert one._path(0).read_bytes() == before and one.answers() == answers
    same = Parts(tmp_path, ids, {"model": 1})
    same.write(0, answers)  # the same work twice: no harm
    assert one._path(0).read_bytes() == before
