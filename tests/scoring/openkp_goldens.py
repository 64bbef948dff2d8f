"""Golden cases of OpenKP's official `evaluate.py`."""

import pytest

from etc_jax.scoring import openkp


def run(case: dict) -> float:
    """Largest difference of a case; where the official script fails, we refuse."""
    gold, given, official = case["reference"], case["candidate"], case["official"]
    if "error" in official or "rejected" in official:
        with pytest.raises(ValueError, match="no phrase to find|the same ids"):
            openkp.score(gold, given)
        return 0.0
    want = {
        f"{name}@{k}": value
        for k, figures in official.items()
        for name, value in figures.items()
    }
    got = openkp.score(gold, given).metrics
    assert set(got) == set(want), f"figures {sorted(got)} of {sorted(want)}"
    return max(abs(got[name] - want[name]) for name in want)
