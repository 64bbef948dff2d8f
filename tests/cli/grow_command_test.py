"""`etc-jax convert grow`, of folders of Hugging Face and of this project."""

import json

import numpy as np
import pytest
from hf_models import TINY, folder_of

from etc_jax.cli import convert
from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats import native
from etc_jax.data.text.denoised import sentinels_of
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.reformer.config import ReformerConfig

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklm", "q"]


@pytest.fixture
def bert(tmp_path):
    """A folder of Hugging Face with a vocabulary."""
    return folder_of(tmp_path / "bert", BertConfig(**TINY), WORDS)


def table_of(params):
    return params["encoder"]["embeddings"]["token_embedder"]["embedding"]


def run(*args):
    return convert.main(["grow", *map(str, args)])


def test_a_folder_of_hugging_face_becomes_a_model_of_ours(bert, tmp_path, capsys):
    out = tmp_path / "more"
    assert run(f"--from={bert}", "--tokens=[q],[/q]", f"--out={out}") == 0
    told = capsys.readouterr().out
    assert "19 rows became 21: [q] 19, [/q] 20" in told and "logits differ by" in told
    made = native.load(out)
    assert made.config.vocab_size == 21
    assert made.params["mlm_bias"].shape == (21,)
    tokenizer = open_tokenizer(out)
    assert tokenizer.added_ids == {"[q]": 19, "[/q]": 20}
    [(ids, _)] = tokenizer.encode_batch(["[q] a"])
    assert tokenizer.pieces(ids) == ["[UNK]", "q", "[UNK]", "a"]
    native.read_file(out, "tokenizer.json")
    about = json.loads((out / "report.json").read_text())
    assert about["tokens"] == {"[q]": 19, "[/q]": 20}
    assert about["largest_difference"] < 1e-5 and about["seed"] == 0


@pytest.mark.full
def test_a_model_of_ours_grows_again_with_the_same_rows(bert, tmp_path):
    once, twice = tmp_path / "once", tmp_path / "twice"
    first, second = ("--tokens=[q],[/q]", "--sentinels=2"), ("--sentinels=1",)
    assert run(f"--from={bert}", *first, f"--out={once}", "--seed=3") == 0
    assert run(f"--from={once}", *second, f"--out={twice}") == 0
    tokenizer = open_tokenizer(twice)
    # Sentinels are numbered on from those that are there.
    sentinels = {"<extra_id_0>": 21, "<extra_id_1>": 22, "<extra_id_2>": 23}
    assert tokenizer.added_ids == {"[q]": 19, "[/q]": 20, **sentinels}
    assert sentinels_of(tokenizer, 24) == tuple(sentinels.values())
    a, b = (table_of(native.load(path).params) for path in (once, twice))
    np.testing.assert_array_equal(b[:23], a)
    assert b.shape == (24, 12)
    # It can be made long as any other, and keeps its tokens.
    out = tmp_path / "long"
    args = ("extend", f"--from={twice}", "--to=longformer", f"--out={out}")
    assert convert.main([*args, "--max_length=32", "--window=8"]) == 0
    assert isinstance(native.read_config(out), LongformerConfig)
    assert open_tokenizer(out).fingerprint() == tokenizer.fingerprint()


@pytest.mark.parametrize(
    "tokens, message",
    [
        ("[q],[MASK]", "has [MASK] already; leave that out"),
        ("[q],[q]", "name each once"),
        ("", "token '' is blank"),
        (None, "no token to add to the vocabulary"),
    ],
)
def test_what_cannot_be_is_told_and_nothing_written(
    bert, tmp_path, tokens, message, capsys
):
    out = tmp_path / "more"
    asked = [] if tokens is None else [f"--tokens={tokens}"]
    assert run(f"--from={bert}", *asked, f"--out={out}") == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_a_source_without_its_vocabulary_is_refused(bert, tmp_path, capsys):
    args = ("--tokens=[q]", f"--out={tmp_path / 'more'}")
    vocabulary = bert / "vocab.txt"
    vocabulary.write_text("".join(f"{word}\n" for word in WORDS[:-1]))
    assert run(f"--from={bert}", *args) == 2
    assert "has 18 pieces, but the model's table has 19 rows" in capsys.readouterr().err
    vocabulary.unlink()
    assert run(f"--from={bert}", *args) == 2
    assert f"no tokenizer in {bert}" in capsys.readouterr().err


def test_rows_after_the_vocabulary_are_taken_first(bert, tmp_path, capsys):
    vocabulary, out = bert / "vocab.txt", tmp_path / "more"
    vocabulary.write_text("".join(f"{word}\n" for word in WORDS[:-2]))
    before = table_of(hugging_face.read(bert).params)
    for sentinels, rows in ((2, 19), (3, 20)):
        args = (f"--from={bert}", f"--sentinels={sentinels}", "--spare_rows")
        assert run(*args, f"--out={out}", "--overwrite") == 0
        assert f"19 rows became {rows}: <extra_id_0> 17" in capsys.readouterr().out
        table = table_of(native.load(out).params)
        np.testing.assert_array_equal(table[:19], before)
        assert len(table) == rows == open_tokenizer(out).vocab_size


def test_an_id_without_a_row_gets_one(bert, tmp_path, capsys):
    config = BertConfig(**TINY | {"vocab_size": 18})
    small = folder_of(tmp_path / "small", config, [*WORDS[:-1], "[unused1]"])
    assert run(f"--from={small}", f"--out={tmp_path / 'more'}") == 0
    assert "18 rows became 19" in capsys.readouterr().out
    assert len(table_of(native.load(tmp_path / "more").params)) == 19


def test_models_of_another_kind_are_refused(tmp_path, capsys):
    native.save(tmp_path / "other", {"a": np.zeros(1)}, ReformerConfig(), {})
    args = (f"--from={tmp_path / 'other'}", "--tokens=[q]")
    assert run(*args, f"--out={tmp_path / 'more'}") == 2
    assert "is a reformer; what can be given more tokens" in capsys.readouterr().err
