import json

import pytest

from benchmarks.rows import cpc_ablation


@pytest.fixture
def reported(trained, monkeypatch):
    """Runs that also leave a final report."""
    train = trained.train

    def with_report(config, folder):
        done, seed = train(config, folder), config.train.seed
        found = dict.fromkeys(cpc_ablation.METRICS, 0.2)
        del found["mlm_loss"]
        without = config.objective.cpc_weight == 0
        found["summary_same_document_top1"] = 0.1 if without else 0.3 + seed / 10
        found |= {"same_document_chance": 0.012, "cpc_pool_chance": 1 / 256}
        found |= {"cpc_pool_sentences": 256, "cpc_pool_documents": 80}
        (folder / "final_report.json").write_text(json.dumps(found))
        lines = [
            {"kind": "eval", "step": 1, "mlm_loss": 9.0},
            {"kind": "eval", "step": config.train.num_steps, "mlm_loss": 4.5 + seed},
            {"kind": "train", "step": config.train.num_steps, "mlm_loss": 7.0},
        ]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text)
        return done

    runs = cpc_ablation.finetuning_runs
    monkeypatch.setattr(runs, "train_and_evaluate", with_report)
    return trained


def test_every_seed_is_trained_with_and_without_once(reported, run, tmp_path, capsys):
    argv = [f"--workdir={tmp_path}", "--seeds=0,2", "--config.train.num_steps=300"]
    code, saved = run(cpc_ablation.main, *argv)
    assert code == 0
    assert [(c.train.seed, c.train.num_steps) for c in reported] == [
        *((0, 300), (0, 300), (2, 300), (2, 300))
    ]
    table = capsys.readouterr().out
    # Means and standard deviations of two seeds, by hand.
    assert "| same document, encoded alone | 40.0% ± 14.1% | 10.0% ± 0.0% |" in table
    assert "| held-back MLM loss | 5.500 ± 1.414 | 5.500 ± 1.414 |" in table
    assert "same document 1.2%, masked sentence 0.4%; 256 sentences of 80" in table
    assert saved["seeds"] == [0, 2] and len(saved["results"]["without"]) == 2
    assert run(cpc_ablation.main, *argv)[0] == 0
    assert len(reported) == 4  # finished runs are not trained again
