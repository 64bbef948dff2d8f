"""Chains of commands: each done once, and its figures read."""

import json

import pytest

from etc_jax.papers.chain import Chain, CommandError, Measured
from etc_jax.training.errors import RunError

FLAGS = ("--task=wikihop", "--count=3")


def items(root, *flags):
    chain = Chain(root)
    path = chain.do("synthetic", "items/some.json", *(flags or FLAGS))
    assert path == str(root / "items/some.json")
    return chain


def test_a_command_is_done_once_and_not_by_other_flags(tmp_path):
    told = []
    items(tmp_path).carry_out(told.append)
    assert told == [f"items/some.json: {items(tmp_path).commands['items/some.json']}"]
    file = tmp_path / "items/some.json"
    assert len(json.loads(file.read_text())) == 3
    file.write_text("kept")
    items(tmp_path).carry_out(told.append)
    assert file.read_text() == "kept" and len(told) == 1
    assert items(tmp_path).spent() > 0
    with pytest.raises(RunError, match=r"made by other flags:\n.*count=3\nnot by\n"):
        items(tmp_path, "--task=wikihop", "--count=4").carry_out()
    file.unlink()  # so it is done again
    items(tmp_path).carry_out(told.append)
    assert len(told) == 2


def test_two_commands_cannot_make_the_same(tmp_path):
    chain = items(tmp_path)
    chain.do("synthetic", "items/some.json", *FLAGS)
    with pytest.raises(ValueError, match="two commands make .*some.json"):
        chain.do("synthetic", "items/some.json", "--task=wikihop", "--count=5")


def test_a_command_that_fails_ends_the_chain_with_its_code(tmp_path, capsys):
    chain = Chain(tmp_path)
    chain.do("prepare", "cache", "--task=wikihop", "--tokenizer=no.txt", "no.json")
    chain.do("synthetic", "never.json", *FLAGS)
    with pytest.raises(
        CommandError, match="failed: exit code 2 of etc-jax prepare"
    ) as caught:
        chain.carry_out()
    assert (
        caught.value.exit_code == 2
        and "no tokenizer at no.txt" in capsys.readouterr().err
    )
    assert not (tmp_path / "never.json").exists()


def test_figures_are_read_where_they_are(tmp_path):
    (tmp_path / "scores.json").write_text(
        '{"metrics": {"f1": 0.25},'
        ' "conventions": {"files2rouge": {"metrics": {"rouge1": 0.5}}}}'
    )
    lines = [{"kind": "eval", "step": n, "loss": 1 / n} for n in (1, 2, 4)]
    lines.append({"kind": "train", "step": 5, "loss": 9})
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "other.json").write_text('{"a": {"b": 7}, "sets": [{}, {"n": 8}]}')
    read = [
        Measured(".", "f1", scale=100),
        Measured(".", "files2rouge/rouge1"),
        Measured(".", "loss", "evaluation"),
        Measured(".", "loss", "evaluation", step=2),
        Measured(".", "a/b", "other.json"),
        Measured("other.json", "sets/1/n", "."),
    ]
    assert [x.read(tmp_path) for x in read] == [25, 0.5, 0.25, 0.5, 7, 8]
    with pytest.raises(RunError, match="has no 'f2'; it has"):
        Measured(".", "f2").read(tmp_path)
    with pytest.raises(RunError, match="no evaluation at step 3"):
        Measured(".", "loss", "evaluation", step=3).read(tmp_path)
    with pytest.raises(RunError, match="cannot be read"):
        Measured("gone", "f1").read(tmp_path)
