"""The reversible Transformers of Reformer's table 4: from a cache to a traced step."""

import pytest
from causal_pairs import PIECES, copies, write
from every_config_test import module

from etc_jax import config as config_lib
from etc_jax.cli import prepare
from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from etc_jax.training.preflight.dry_run import dry_run


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    """Folders of windows of `text_to_text`, whose format is that of the configs."""
    folder = tmp_path_factory.mktemp("wmt14")
    rest = [f"[unused{i}]" for i in range(37_000 - len(PIECES))]
    WordPieceTokenizer([*PIECES, *rest]).save(folder / "tokenizer.json")
    for name, count in (("train", 1664), ("dev", 832)):
        file = write(folder / f"{name}.jsonl", copies(count, name))
        command = ["--task=text_to_text", "--input_length=128", "--target_length=128"]
        command += [f"--tokenizer={folder / 'tokenizer.json'}", "--workers=0"]
        assert prepare.main([*command, f"--out={folder / name}", str(file)]) == 0
    return str(folder / "train"), str(folder / "dev")


@pytest.mark.parametrize(
    "arg, parameters, tokens",
    [
        # 832 rows of 128 tokens on both sides; the steps of table 4.
        ("", "63,084,680", "212,992 tokens a step, 21,299,200,000 in 100,000 steps"),
        ("500k", "100,972,680", "106,496,000,000 in 500,000 steps"),
        ("big", "289,988,744", "63,897,600,000 in 300,000 steps"),
    ],
)
@pytest.mark.full(but=["500k*"])
def test_each_is_traced_with_windows_of_its_format(caches, arg, parameters, tokens):
    values = module("reformer_wmt14").get_config(arg)
    assert values.objective.name == "wmt14_en_de"
    values.objective.name = "text_to_text"
    values.data.update(paths=caches[:1], validation_paths=caches[1:])
    text = dry_run(config_lib.from_config_dict(values), compiles=False)
    assert f"{parameters} parameters" in text and tokens in text
    assert "not compiled" in text and "2 steps an epoch" in text
