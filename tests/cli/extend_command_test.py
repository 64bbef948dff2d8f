"""`etc-jax extend`, of folders of Hugging Face and of this project."""

import json

import numpy as np
import pytest
from hf_models import TINY, folder_of, params_of

from etc_jax.cli import convert
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import native
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.roberta.config import RobertaConfig

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmn"]


@pytest.fixture
def bert(tmp_path):
    """A folder of Hugging Face with a vocabulary."""
    about = b'{"do_lower_case": true, "model_max_length": 16}'
    files = {"tokenizer_config__json": about}
    return folder_of(tmp_path / "bert", BertConfig(**TINY), WORDS, **files)


def run(*args):
    return convert.main(["extend", *map(str, args)])


def test_a_folder_of_hugging_face_becomes_one(bert, tmp_path, capsys):
    out = tmp_path / "long"
    code = run(
        f"--from={bert}", "--to=longformer", "--max_length=64", "--window=8",
        f"--out={out}",
    )  # fmt: skip
    assert code == 0
    told = capsys.readouterr().out
    assert "16 positions became 64" in told and "rows differ by" in told
    read = hugging_face.read(out)
    assert read.config.max_length == 64 and read.config.attention_window == (8,)
    values = json.loads((out / "tokenizer_config.json").read_text())
    assert values == {
        "do_lower_case": True,
        "model_max_length": 64,
        "tokenizer_class": "BertTokenizer",
    }
    assert json.loads((out / "tokenizer.json").read_text())["truncation"] is None
    assert (out / "vocab.txt").read_text().split() == WORDS


@pytest.mark.parametrize(
    "to, kind", [("bigbird", BigBirdConfig), ("etc", EtcConfig), ("longformer", None)]
)
@pytest.mark.full(but=["bigbird-*", "etc-*"])
def test_it_becomes_a_model_of_ours(bert, tmp_path, to, kind):
    out = tmp_path / "long"
    code = run(
        f"--from={bert}", f"--to={to}", "--max_length=64", f"--out={out}",
        "--format=native",
    )  # fmt: skip
    assert code == 0
    config = native.read_config(out)
    assert type(config) is (kind or LongformerConfig)
    assert json.loads(native.read_file(out, "tokenizer.json"))
    about = json.loads((out / "report.json").read_text())
    assert about["largest_difference"] < 1e-5 and about["options"]["max_length"] == 64


def test_a_bigbird_with_global_tokens_is_a_model_of_ours(bert, tmp_path, capsys):
    args = (f"--from={bert}", "--to=bigbird", "--max_length=64", "--num_globals=3")
    out = tmp_path / "long"
    assert run(*args, "--block_size=4", f"--out={out}") == 0
    params, config = native.load(out)
    assert (config.num_globals, config.block_size) == (3, 4)
    want = params_of(BertConfig(**TINY))["mlm_dense"]["kernel"]
    np.testing.assert_array_equal(params["mlm_dense"]["kernel"], want)
    capsys.readouterr()
    assert run(*args, "--format=hf", f"--out={tmp_path / 'theirs'}") == 2
    assert "transformers has no big_bird with global" in capsys.readouterr().err
    assert convert.main([f"--to_hf={out}", f"--out={tmp_path / 'theirs'}"]) == 2
    assert "num_globals is 3, but transformers'" in capsys.readouterr().err
    assert not (tmp_path / "theirs").exists()


def test_a_model_of_ours_becomes_one_with_its_vocabulary(bert, tmp_path):
    ours, out = tmp_path / "ours", tmp_path / "long"
    assert convert.main([f"--hf={bert}", f"--out={ours}"]) == 0
    assert run(f"--from={ours}", "--to=longformer", f"--out={out}") == 0
    assert native.read_config(out).max_length == 4096
    name = "tokenizer.json"
    assert native.read_file(out, name) == native.read_file(ours, name)


@pytest.mark.parametrize(
    "args, message",
    [
        (("--to=longformer", "--max_length=8"), "max_length is 8, but the source has"),
        (("--to=longformer", "--window=7"), "expected even numbers"),
        (("--to=etc", "--format=hf"), "transformers has no etc"),
    ],
)
def test_what_cannot_be_is_told_and_nothing_written(
    bert, tmp_path, args, message, capsys
):
    out = tmp_path / "long"
    assert run(f"--from={bert}", f"--out={out}", *args) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_other_sources_are_told(tmp_path, capsys):
    config = RobertaConfig(**TINY)
    native.save(tmp_path / "ours", params_of(config), config, {})
    args = (f"--out={tmp_path / 'long'}", "--to=longformer")
    assert run(f"--from={tmp_path / 'ours'}", *args, "--format=hf") == 2
    assert "is a model of etc_jax" in capsys.readouterr().err
    assert run(f"--from={tmp_path / 'gone'}", *args) == 2
    assert "--from: there is no folder" in capsys.readouterr().err
    reformer = ReformerConfig()
    native.save(tmp_path / "reformer", {"a": np.zeros(1)}, reformer, {})
    assert run(f"--from={tmp_path / 'reformer'}", *args) == 2
    assert "is a reformer; what can be made long" in capsys.readouterr().err


@pytest.mark.torch
@pytest.mark.parametrize("to", ["longformer", "bigbird"])
def test_transformers_reads_model_and_tokenizer(bert, tmp_path, to):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    out = tmp_path / "long"
    assert run(f"--from={bert}", f"--to={to}", "--max_length=64", f"--out={out}") == 0
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    assert tokenizer.model_max_length == 64
    ids = tokenizer("a b c d")["input_ids"]
    assert ids == [2, 5, 6, 7, 8, 3]
    with torch.no_grad():
        got, want = (
            transformers.AutoModelForMaskedLM.from_pretrained(folder)
            .eval()(torch.tensor([ids]))
            .logits.numpy()
            for folder in (out, bert)
        )
    np.testing.assert_allclose(got, want, atol=1e-4)
