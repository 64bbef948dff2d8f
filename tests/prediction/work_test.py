import time

import pytest

from etc_jax.base import cores
from etc_jax.prediction import work
from etc_jax.prediction.answer_parts import Answer, Parts
from etc_jax.training.errors import UserError


def parts(folder, count=70):
    return Parts(folder, [str(i) for i in range(count)], {"model": "m"})


def test_steps_go_over_the_borders_of_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(work, "RECORDS_A_STEP", 20)
    got = work.steps_of(parts(tmp_path), [0, 2])
    assert [len(step) for step in got] == [20, 18]
    assert sum(got, []) == [*range(32), *range(64, 70)]


def test_a_part_is_written_when_its_last_record_is_there(tmp_path):
    made = parts(tmp_path)
    writer = work._Writer(made, [0, 2])
    numbers = [*range(32), *range(64, 70)]
    answers = [Answer(str(n), [n], None) for n in numbers]

    def add(writer, *some):
        for answer in some:
            writer.add(answer)

    add(writer, *answers[:31])
    assert made.missing() == [0, 1, 2]
    add(writer, *answers[31:37])
    assert made.missing() == [1, 2]
    add(writer, *answers[37:])
    assert made.missing() == [1]
    add(work._Writer(made, [1]), *(Answer(str(n), [n], None) for n in range(32, 64)))
    assert [a.predictions for a in made.answers()] == [[n] for n in range(70)]


def test_workers_are_for_many_records(monkeypatch):
    monkeypatch.setattr(cores, "available", lambda: 4)
    assert work.workers_for(199, None) == 0
    assert work.workers_for(200, None) == 3
    assert work.workers_for(5, 2) == 2
    with pytest.raises(UserError, match="--workers is -1; expected 0 or more"):
        work.workers_for(5, -1)


def test_progress_leaves_the_compiler_out_of_the_rate(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    with work.RecordProgress(100) as progress:
        for at, count in ((60.0, 10), (62.0, 10), (100.0, 30), (120.0, 50)):
            now[0] = at
            progress.advance(count)
    assert capsys.readouterr().err.splitlines() == [
        "10/100 records",
        "50/100 records, 1/s, 00:50 left",
        "100/100 records, 1.5/s, 00:00 left",
    ]


def test_records_of_one_slow_batch_come_at_once(monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(work.time, "monotonic", lambda: now[0])
    with work.RecordProgress(48) as progress:
        # Sixteen a minute, each told by itself.
        for at in (60.0, 120.0, 180.0):
            for _ in range(16):
                now[0] = at = at + 1e-4
                progress.advance(1)
    assert capsys.readouterr().err.splitlines() == [
        "1/48 records",
        "17/48 records, 0.267/s, 01:56 left",
        "33/48 records, 0.267/s, 00:56 left",
        "48/48 records, 0.392/s, 00:00 left",
    ]
    with work.RecordProgress(16) as progress:
        for _ in range(16):
            now[0] += 1e-4
            progress.advance(1)
    assert capsys.readouterr().err == "16/16 records\n"
