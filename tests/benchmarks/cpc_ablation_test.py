import json

import pytest

from benchmarks import cpc_ablation


@pytest.fixture
def commands(monkeypatch):
    """The training commands; each leaves the files of a finished run."""
    seen = []

    def run(command, check):
        assert check
        seen.append(command)
        options = dict(x[2:].split("=", 1) for x in command if x.startswith("--"))
        folder = cpc_ablation.pathlib.Path(options["workdir"])
        folder.mkdir(parents=True)
        seed = int(options["config.train.seed"])
        without = options["config"].endswith(":no_cpc")
        metrics = {
            "summary_same_document_top1": 0.1 if without else 0.3 + seed / 10,
            "context_same_document_top1": 0.2,
            "cpc_pool_top1": 0.004,
            "cpc_pool_shuffled_top1": 0.0,
            "same_document_chance": 0.012,
            "cpc_pool_chance": 1 / 256,
            "cpc_pool_sentences": 256,
            "cpc_pool_documents": 80,
        }
        (folder / "final_report.json").write_text(json.dumps(metrics))
        lines = [
            {"kind": "eval", "step": 1, "mlm_loss": 9.0},
            {"kind": "eval", "step": 2, "mlm_loss": 4.5 + seed},
            {"kind": "train", "step": 2, "mlm_loss": 7.0},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text)

    monkeypatch.setattr(cpc_ablation.subprocess, "run", run)
    return seen


def test_every_seed_is_trained_with_and_without_once(commands, tmp_path, capsys):
    argv = [f"--workdir={tmp_path}", "--seeds=0,2", f"--out={tmp_path / 'out.json'}"]
    assert cpc_ablation.main([*argv, "--config.train.num_steps=3"]) == 0
    assert len(commands) == 4
    assert all("--config.train.num_steps=3" in command for command in commands)
    table = capsys.readouterr().out
    # Means and standard deviations of two seeds, by hand.
    assert "| same document, encoded alone | 40.0% ± 14.1% | 10.0% ± 0.0% |" in table
    assert "| held-back MLM loss | 5.500 ± 1.414 | 5.500 ± 1.414 |" in table
    assert "same document 1.2%, masked sentence 0.4%; 256 sentences of 80" in table
    saved = json.loads((tmp_path / "out.json").read_text())
    assert saved["seeds"] == [0, 2] and len(saved["results"]["without"]) == 2
    assert cpc_ablation.main(argv) == 0
    assert len(commands) == 4  # finished runs are not trained again


def test_other_arguments_are_refused(commands, tmp_path, capsys):
    with pytest.raises(SystemExit):
        cpc_ablation.main([f"--workdir={tmp_path}", "--seedz=1"])
    assert "'--seedz=1' is not of the form" in capsys.readouterr().err
    assert not commands
