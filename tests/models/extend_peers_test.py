"""A real BERT made long says of short texts what it said, in PyTorch too."""

import numpy as np
import pytest
from real_bert import encoded, package_folder, torch_hidden

from etc_jax.cli import convert
from etc_jax.conversion.formats import native

TOLERANCE = 1e-4


@pytest.mark.torch
@pytest.mark.parametrize(
    "family, model_name",
    [("longformer", "LongformerModel"), ("bigbird", "BigBirdModel")],
)
def test_a_real_bert_of_six_layers_made_long(tmp_path, family, model_name):
    folder = package_folder()
    transformers = pytest.importorskip("transformers", reason="extra parity")
    argv = ["extend", f"--from={folder}", f"--to={family}", "--max_length=1024"]
    assert convert.main([*argv, f"--out={tmp_path / 'long'}"]) == 0
    short = transformers.BertModel.from_pretrained(folder).eval()
    long = getattr(transformers, model_name).from_pretrained(tmp_path / "long").eval()
    assert long.config.max_position_embeddings >= 1024
    ids, mask = encoded(folder)
    want, got = (torch_hidden(model, ids, mask, ids * 0) for model in (short, long))
    difference = np.abs(got - want)[mask > 0].max()
    print(f"{family}: largest difference {difference:.2e}")
    assert difference < TOLERANCE


@pytest.mark.torch
def test_a_real_bert_of_six_layers_becomes_an_etc(tmp_path, capsys):
    folder = package_folder()
    argv = ["extend", f"--from={folder}", "--to=etc", "--max_length=1024"]
    assert convert.main([*argv, f"--out={tmp_path / 'etc'}"]) == 0
    told = capsys.readouterr().out
    [line] = [x for x in told.splitlines() if x.startswith("short inputs: rows differ")]
    assert float(line.split()[5]) < TOLERANCE
    assert native.read_config(tmp_path / "etc").num_layers == 6
