"""The tokenizer of a model through the commands that convert it."""

from __future__ import annotations

import json

import pytest
from hf_models import params_of
from hub_samples import BERT_PIECES, TEXTS, bert_json, roberta_json, spiece
from tokenizer_samples import BPE_PIECES

from etc_jax.cli import convert
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import native, sentence_folder
from etc_jax.conversion.formats.sentence_folder import SentenceFolder
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.loading import model_source
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.encoder.heads import EncoderForLabels
from etc_jax.models.reformer.config import ReformerConfig
from etc_jax.models.roberta.config import RobertaConfig

SIZES = {
    "vocab_size": 300,
    "embed_dim": 8,
    "num_layers": 1,
    "num_heads": 2,
    "mlp_dim": 16,
    "max_length": 16,
}


def command(*args) -> int:
    return convert.main([str(arg) for arg in args])


def model_folder(folder, tokenizer_fn, config):
    """A model of transformers with its tokenizer."""
    beside = tokenizer_fn(folder.with_name("tokenizer"))
    files = {p.name: p.read_bytes() for p in beside.iterdir()}
    del files["config.json"]
    hugging_face.save(folder, params_of(config), config, files=files)
    return folder


@pytest.fixture
def bert(tmp_path):
    sizes = SIZES | {"vocab_size": len(BERT_PIECES) + 3}
    return model_folder(tmp_path / "bert", bert_json, BertConfig(**sizes))


def ids_in(folder):
    tokenizer = open_tokenizer(folder)
    return [ids.tolist() for ids, _ in tokenizer.encode_batch(TEXTS)]


@pytest.mark.parametrize(
    "tokenizer_fn, config",
    [
        (bert_json, BertConfig(**SIZES)),
        (roberta_json, RobertaConfig(**SIZES)),
        (
            lambda folder: spiece(folder, "bpe"),
            ReformerConfig(
                **SIZES | {"max_length": 64},
                pattern=("local",),
                axial_shape=None,
                axial_dims=None,
                local_chunk_length=8,
            ),
        ),
    ],
)
def test_there_and_back(tmp_path, capsys, tokenizer_fn, config):
    theirs = model_folder(tmp_path / "theirs", tokenizer_fn, config)
    ours, back = tmp_path / "ours", tmp_path / "back"
    assert command(f"--hf={theirs}", f"--out={ours}") == 0
    assert command(f"--to_hf={ours}", f"--out={back}") == 0
    assert "tokenizer of" in capsys.readouterr().out
    assert ids_in(theirs) == ids_in(ours) == ids_in(back)
    values = json.loads((back / "tokenizer_config.json").read_text())
    assert values["model_max_length"] == config.max_length


def test_made_long_grown_and_back(bert, tmp_path):
    long, more, back = tmp_path / "long", tmp_path / "more", tmp_path / "back"
    assert command("extend", f"--from={bert}", "--to=longformer", f"--out={long}",
                   "--max_length=64", "--window=8") == 0  # fmt: skip
    assert ids_in(long) == ids_in(bert)
    sized = model_folder(
        tmp_path / "sized",
        bert_json,
        BertConfig(**SIZES | {"vocab_size": len(BERT_PIECES)}),
    )
    assert command("grow", f"--from={sized}", "--tokens=[q]", f"--out={more}") == 0
    assert command(f"--to_hf={more}", f"--out={back}") == 0
    assert open_tokenizer(back).added_ids == {"[q]": len(BERT_PIECES)}
    assert ids_in(back) == ids_in(bert)


SAYS = {
    "id2label": {"0": "no", "1": "yes", "2": "perhaps"},
    "label2id": {"no": 0, "yes": 1, "perhaps": 2},
    "problem_type": "multi_label_classification",
}


def test_names_of_labels_and_ways_to_a_vector_go_along(tmp_path, capsys):
    """From Hugging Face to a model of ours, longer and larger ones, and back."""
    config = RobertaConfig(**SIZES | {"vocab_size": len(BPE_PIECES)})
    params = params_of(EncoderForLabels(config, num_labels=3))
    files = sentence_folder.files_of(SentenceFolder("cls", True, 12), 8)
    beside = roberta_json(tmp_path / "tokenizer")
    files |= {p.name: p.read_bytes() for p in beside.glob("tokenizer*")}
    hf = tmp_path / "hf"
    hugging_face.save(hf, params, config, files=files, labels=SAYS)
    out = {name: tmp_path / name for name in ("ours", "more", "back", "long")}
    assert command(f"--hf={hf}", f"--out={out['ours']}") == 0
    args = ("--to=longformer", "--max_length=64", "--window=8")
    assert command("extend", f"--from={hf}", f"--out={out['long']}", *args) == 0
    args = (f"--from={out['ours']}", f"--out={out['more']}", "--tokens=[q]")
    assert command("grow", *args) == 0
    assert command(f"--to_hf={out['more']}", f"--out={out['back']}") == 0
    for name, folder in out.items():
        source = model_source.find(folder)
        length = 64 if name == "long" else 12
        assert source.sentences == SentenceFolder("cls", True, length), name
        if source.is_hf:
            values = json.loads((folder / "config.json").read_text())
            assert SAYS.items() <= values.items(), name
        else:
            assert source.labels() == SAYS, name
    modules = hf / "modules.json"
    more = [*json.loads(modules.read_text()), {"type": "a.Dense", "path": "3_Dense"}]
    modules.write_text(json.dumps(more))
    capsys.readouterr()
    assert command(f"--hf={hf}", f"--out={tmp_path / 'plain'}") == 0
    assert "left out, how vectors are made: " in capsys.readouterr().out
    assert model_source.find(tmp_path / "plain").sentences is None


def test_a_folder_without_a_tokenizer_gets_none(bert, tmp_path, capsys):
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (bert / name).unlink()
    ours, back = tmp_path / "ours", tmp_path / "back"
    assert command(f"--hf={bert}", f"--out={ours}") == 0
    assert "no tokenizer" in capsys.readouterr().out
    assert command(f"--to_hf={ours}", f"--out={back}") == 0
    assert "transformers would make up a tokenizer" in capsys.readouterr().out
    assert sorted(p.name for p in back.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
    ]


def test_one_that_cannot_be_kept_is_refused_or_left_out(bert, tmp_path, capsys):
    path = bert / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["vocab"]["hello"] = 10**9
    path.write_text(json.dumps(values))
    for command_args in (["--hf"], ["extend", "--to=longformer", "--from"]):
        *first, last = command_args
        args = (*first, f"{last}={bert}", f"--out={tmp_path / 'ours'}")
        assert command(*args) == 2
        error = capsys.readouterr().err
        assert "cannot be kept" in error and "--without_tokenizer" in error
        assert not (tmp_path / "ours").exists()
    assert command(*args[:-1], "--without_tokenizer", f"--out={tmp_path / 'ours'}") == 0
    assert not (tmp_path / "ours" / "tokenizer.json").exists()


def test_a_vocabulary_larger_than_the_model_is_refused(tmp_path, capsys):
    config = BertConfig(**SIZES | {"vocab_size": 30})
    theirs = model_folder(tmp_path / "theirs", bert_json, config)
    assert command(f"--hf={theirs}", f"--out={tmp_path / 'ours'}") == 2
    last = len(BERT_PIECES) - 1
    told = f"has pieces of text up to id {last}, but the table of the model has 30 rows"
    assert told in capsys.readouterr().err
    assert not native.exists(tmp_path / "ours")
