"""Reading checkpoints of Hugging Face: configs, names, files."""

import json

import bert_reference as reference
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import save_file

from etc_jax.conversion import torch_rows
from etc_jax.conversion.formats.safetensors_io import INDEX, SafetensorsFiles, write
from etc_jax.layers.common import ACTIVATIONS
from etc_jax.models.encoder import weight_names as bert
from etc_jax.models.etc import bert_source
from etc_jax.models.t5 import weights as t5


def test_sizes_come_from_the_config():
    got = bert_source._config(reference.CONFIG)
    assert (got.vocab_size, got.embed_dim, got.num_layers) == (29, 12, 2)
    assert (got.num_heads, got.mlp_dim, got.num_types) == (3, 20, 2)
    assert (got.max_length, got.position_offset) == (16, 0)
    assert (got.activation, got.layer_norm_epsilon) == ("gelu_exact", 1e-6)


def test_positions_of_roberta_begin_after_those_of_padding():
    got = bert_source._config(reference.ROBERTA)
    assert (got.max_length, got.position_offset) == (16, 2)


@pytest.mark.parametrize(
    "theirs, ours",
    [("gelu_new", "gelu"), ("gelu_pytorch_tanh", "gelu"), ("swish", "silu")],
)
def test_activations_have_other_names(theirs, ours):
    values = reference.CONFIG | {"hidden_act": theirs}
    assert bert_source._config(values).activation == ours


@pytest.mark.torch
def test_activations_are_those_of_transformers():
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    known, x = transformers.activations.ACT2FN, np.linspace(-6, 6, 241)

    def check(theirs, ours):
        want = known[theirs](torch.tensor(x, dtype=torch.float32)).numpy()
        got = ACTIVATIONS[ours](jnp.asarray(x, jnp.float32))
        np.testing.assert_allclose(got, want, atol=2e-6, err_msg=theirs)

    for theirs, ours in torch_rows.ACTIVATIONS.items():
        check(theirs, ours)
    for name, (gated, ours) in t5._BLOCKS.items():
        block = transformers.T5Config(feed_forward_proj=name)
        assert block.is_gated_act == gated
        check(block.dense_act_fn, ours)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"model_type": "t5"}, "model_type is 't5'; expected one of bert, roberta"),
        ({"hidden_size": None}, "hidden_size is None; expected a whole number"),
        ({"num_hidden_layers": True}, "num_hidden_layers is True"),
        ({"vocab_size": 0}, "vocab_size is 0"),
        ({"hidden_act": "gelu_10"}, "hidden_act is 'gelu_10'"),
        ({"layer_norm_eps": "small"}, "layer_norm_eps is 'small'"),
        ({"position_embedding_type": "relative_key"}, "only 'absolute' has"),
        ({"is_decoder": True}, "is_decoder is True"),
    ],
)
def test_a_config_that_cannot_be_lifted_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        bert_source._config(reference.CONFIG | changes)


def test_everything_wrong_with_a_config_is_told_at_once():
    wrong = {"vocab_size": 0, "hidden_act": "gelu_10", "is_decoder": True}
    with pytest.raises(ValueError) as caught:
        bert_source._config(reference.CONFIG | wrong)
    assert all(f"{key} is" in str(caught.value) for key in wrong)


@pytest.mark.parametrize("config", [reference.CONFIG, reference.ROBERTA])
def test_every_name_is_read_with_and_without_the_prefix(config):
    arrays = reference.random_arrays(config)
    family = config["model_type"]
    weights = bert.BertWeights(arrays, family)
    body = {n for n in weights if n.startswith(("embeddings.", "encoder."))}
    assert set(weights) - body == set(bert.MLM_PARTS)
    assert len(weights) == len(arrays)
    short = {name.removeprefix(f"{family}."): a for name, a in arrays.items()}
    for name, array in bert.BertWeights(short, family).items():
        np.testing.assert_array_equal(array, weights[name])
    assert weights.original(bert.TOKENS) == f"{family}.{bert.TOKENS}"


@pytest.mark.parametrize("scan_layers", [True, False])
def test_every_layout_goes_back(scan_layers):
    arrays = reference.random_arrays(reference.CONFIG)
    weights = bert.BertWeights(arrays, "bert")
    rows = bert_source.lifting_names(3, scan_layers=scan_layers, target="encoder/")
    told = set()
    for name, array in weights.items():
        for row in rows:
            if row.match_source(name) is not None:
                forth = row.transform.forward(array)
                np.testing.assert_array_equal(row.transform.inverse(forth), array)
                told.add(name)
    assert set(weights) - told == {
        bert.TOKENS,
        bert.POSITIONS,
        bert.TYPES,
        bert.MLM_BIAS,
    }


def test_a_projection_is_laid_out_head_by_head():
    # Torch keeps [out, in]; output h * d + j is place j of head h.
    rows = bert_source.lifting_names(3, scan_layers=False, target="")
    name = "encoder.layer.7.attention.self.query.weight"
    (row,) = [r for r in rows if r.match_source(name) and "long" in r.target]
    weight = np.arange(12 * 5).reshape(12, 5)
    got = row.transform.forward(weight)
    assert got.shape == (5, 3, 4)
    assert got[2, 1, 3] == weight[1 * 4 + 3, 2]


def test_norms_may_be_named_as_in_tensorflow():
    arrays = {
        "bert.embeddings.LayerNorm.gamma": np.array([1.0]),
        "cls.predictions.transform.LayerNorm.beta": np.array([2.0]),
    }
    weights = bert.BertWeights(arrays, "bert")
    assert set(weights) == {"embeddings.LayerNorm.weight", "mlm.norm.bias"}


def test_two_names_for_the_same_array_are_refused():
    arrays = {"bert.embeddings.LayerNorm.gamma": 0, "embeddings.LayerNorm.weight": 0}
    with pytest.raises(ValueError, match="gamma.*mean the same"):
        bert.BertWeights(arrays, "bert")


def test_a_folder_is_read(tmp_path):
    arrays = reference.random_arrays(reference.CONFIG)
    reference.write_folder(tmp_path, reference.CONFIG, arrays)
    config, weights = bert_source.open_checkpoint(tmp_path)
    assert config == bert_source._config(reference.CONFIG)
    np.testing.assert_array_equal(
        weights[bert.TOKENS], arrays["bert.embeddings.word_embeddings.weight"]
    )


@pytest.mark.parametrize(
    "text, message",
    [
        (None, "no config.json in"),
        ("{", "is not JSON"),
        ("[]", "holds a list"),
        ("{}", r"config\.json: model_type is None; expected one of bert"),
    ],
)
def test_a_bad_config_file_is_named(tmp_path, text, message):
    if text is not None:
        (tmp_path / "config.json").write_text(text)
    with pytest.raises(ValueError, match=message):
        bert_source.read_config(tmp_path)


def write_shards(folder, shards):
    """Shards and the index of them, as Hugging Face names them."""
    places = {}
    for i, arrays in enumerate(shards):
        name = f"model-{i + 1:05d}-of-{len(shards):05d}.safetensors"
        save_file(arrays, folder / name)
        places |= dict.fromkeys(arrays, name)
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": places}))
    return places


SHARDS = [{"a": np.arange(6.0), "b": np.eye(2)}, {"c": np.zeros((0, 3), np.float32)}]


def test_shards_are_read_as_one(tmp_path):
    write_shards(tmp_path, SHARDS)
    files = SafetensorsFiles(tmp_path)
    assert set(files) == {"a", "b", "c"} and len(files) == 3
    np.testing.assert_array_equal(files["b"], np.eye(2))
    assert files.shape("c") == (0, 3)
    with pytest.raises(KeyError):
        files["d"]


def test_a_missing_shard_is_named(tmp_path):
    write_shards(tmp_path, SHARDS)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ValueError, match="model-00002-of-00002"):
        SafetensorsFiles(tmp_path)


def test_an_index_that_differs_from_its_shards_is_refused(tmp_path):
    places = write_shards(tmp_path, SHARDS)
    del places["b"]
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": places}))
    with pytest.raises(ValueError, match="differ in 1 arrays, the first is .'b'"):
        SafetensorsFiles(tmp_path)


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"weight_map": 3}'])
def test_a_damaged_index_is_refused(tmp_path, text):
    (tmp_path / INDEX).write_text(text)
    with pytest.raises(ValueError, match="is no index of shards"):
        SafetensorsFiles(tmp_path)


def test_a_file_cut_short_is_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    save_file(SHARDS[0], path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="no whole safetensors file .*fetch it again"):
        SafetensorsFiles(tmp_path)


def test_pickles_are_refused_with_what_to_do(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"\x80")
    with pytest.raises(ValueError, match="pickles run code .*save_pretrained"):
        SafetensorsFiles(tmp_path)


def test_an_empty_or_absent_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match="has neither model.safetensors nor"):
        SafetensorsFiles(tmp_path)
    with pytest.raises(ValueError, match="no such file or folder"):
        SafetensorsFiles(tmp_path / "absent")


@pytest.mark.parametrize(
    "array",
    [
        np.array(1.5, np.float32),
        np.arange(6.0).reshape(2, 3).T,
        np.arange(24, dtype=np.float16).reshape(2, 3, 4)[:, ::2],
        np.arange(4).astype(ml_dtypes.bfloat16),
        np.zeros((0, 2), np.int64),
        np.array([np.nan, -0.0, np.inf], ">f4"),
    ],
    ids=["scalar", "transposed", "strided", "bfloat16", "empty", "big-endian"],
)
def test_any_layout_is_written(tmp_path, array):
    write(tmp_path / "x.safetensors", {"x": array})
    got = SafetensorsFiles(tmp_path / "x.safetensors")["x"]
    assert got.dtype == array.dtype.newbyteorder("=")
    assert got.shape == array.shape
    np.testing.assert_array_equal(got, array)
