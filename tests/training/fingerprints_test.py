"""A run goes on with the inputs that it was begun with, or not at all."""

import dataclasses
import logging

import pytest
import toy_job

from etc_jax.base import registry
from etc_jax.data.digests import MOST_NAMED, of_files, shortened
from etc_jax.training.checkpoints import fingerprints
from etc_jax.training.errors import UserError
from etc_jax.training.run import train_and_evaluate

NAME = "toy_with_inputs"
FILES: list = []  # that the job reads


@registry.register("objective", NAME)
def make_job(config, workdir):
    inputs = of_files({file.name: file for file in FILES})
    return dataclasses.replace(toy_job.make_job(config, workdir), inputs=inputs)


@pytest.fixture
def run(tmp_path):
    """Trains to a step in one and the same folder."""
    FILES[:] = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for file in FILES:
        file.write_text(f"text of {file.name}")
    config = toy_job.config(objective__name=NAME)
    return lambda: train_and_evaluate(config, tmp_path / "run")


def test_an_edited_input_is_named_and_nothing_is_lost(run, tmp_path):
    whole = run()
    newest = tmp_path / "run" / "checkpoints" / "12"
    newest.rename(tmp_path / "12")
    (tmp_path / "run" / "last_checkpoint.json").unlink()
    FILES[0].write_text("another text")
    with pytest.raises(UserError) as caught:
        run()
    assert "are not what they were when step 8 was saved (1 of 2)" in str(caught.value)
    assert "a.txt: " in str(caught.value) and "b.txt" not in str(caught.value)
    assert (tmp_path / "run" / "checkpoints" / "8").exists()
    FILES[0].write_text("text of a.txt")
    assert toy_job.digest(run().state) == toy_job.digest(whole.state)


def test_a_checkpoint_of_before_digests_goes_on_and_says_so(run, monkeypatch, caplog):
    monkeypatch.setattr(fingerprints, "FIELD", "of_another_name")
    run()
    monkeypatch.undo()
    FILES[0].write_text("another text")
    with caplog.at_level(logging.WARNING):
        assert run().step == 12
    assert "saved by an earlier version, without digests" in caplog.text


@pytest.mark.parametrize(
    "then, now, message",
    [
        ({"a": "1" * 64}, {"a": "2" * 64}, f"a: {'1' * 12} then, {'2' * 12} now"),
        ({"a": "1" * 64}, {}, f"a: {'1' * 12} then, absent now"),
        ({}, {"a": "2" * 64}, f"a: absent then, {'2' * 12} now"),
        ({f"{i:02}": "x" for i in range(15)}, {}, "saved .15 of 15.:.*and 5 more"),
    ],
)
def test_what_differs_is_named(then, now, message):
    saved = {"step": 3, "inputs": then}
    fingerprints.check_same(saved, {"inputs": then})
    with pytest.raises(UserError, match=f"(?s){message}"):
        fingerprints.check_same(saved, {"inputs": now})


def test_files_for_scores_may_be_others_but_not_edited():
    def check(then, now):
        saved = {"step": 3, "inputs": {}, **then}
        fingerprints.check_same(saved, {"inputs": {}, "held_back_files": now})

    first = {"held_back_files": {"dev": "1" * 64, "test": "3" * 64}}
    check({}, {"dev": "2" * 64})  # an earlier version had no digests of them
    check(first, {"dev": "1" * 64, "other": "2" * 64})
    with pytest.raises(
        UserError, match=f"saved .1 of 1.:\\s+dev: {'1' * 12} then, 2222"
    ):
        check(first, {"dev": "2" * 64, "other": "2" * 64})


def test_many_files_have_one_digest():
    named = {str(i): f"{i:064x}" for i in range(MOST_NAMED + 1)}
    (name,) = whole = shortened(named, "text")
    assert name == f"text ({MOST_NAMED + 1} files)"
    assert shortened(named | {"7": "0" * 64}, "text") != whole
