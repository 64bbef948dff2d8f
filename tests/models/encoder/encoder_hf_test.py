"""Encoders to transformers and back; the same figures there."""

import dataclasses

import jax
import numpy as np
import pytest
from hf_models import ENCODERS, params_of

from etc_jax.conversion import hugging_face
from etc_jax.conversion.engine import ConversionError
from etc_jax.data.pretraining.global_tokens import global_index
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder import hf_config as encoder_config, weights as conversion
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.longformer.config import LongformerConfig


def test_a_layer_of_a_run_goes_to_its_place():
    config = ENCODERS["longformer"]
    params = params_of(config)
    exported = conversion.export_hf(params, config)
    run = params["encoder"]["stack"]["layers"]["period"]["layer_1"]
    got = exported["longformer.encoder.layer.3.attention.self.key_global.weight"]
    want = run["attention"]["key_global"]["kernel"][1].reshape(12, 12).T
    np.testing.assert_array_equal(got, want)


def test_names_of_allenai_are_known():
    config = ENCODERS["longformer"]
    params = params_of(config)
    exported = {
        name.replace("longformer.", "roberta."): array
        for name, array in conversion.export_hf(params, config).items()
    }
    back, _ = conversion.import_hf(exported, config, params)
    jax.tree.map(np.testing.assert_array_equal, back, params)


def test_the_output_layer_is_the_token_table_and_no_other():
    config = ENCODERS["bert"]
    params = params_of(config)
    exported = conversion.export_hf(params, config)
    first = "bert.embeddings.word_embeddings.weight"
    table = exported[first]
    again = "cls.predictions.decoder.weight"
    # Programs that save a shared array once choose either name.
    alone = {name: x for name, x in exported.items() if name != first}
    for found in (exported, alone):
        back, _ = conversion.import_hf(found | {again: table}, config, params)
        jax.tree.map(np.testing.assert_array_equal, back, params)
    with pytest.raises(ValueError, match=f"{again} differs from bert.embeddings.word"):
        conversion.import_hf(exported | {again: table + 1}, config, params)


def test_missing_and_extra_tensors_are_listed():
    config = ENCODERS["roberta"]
    params = params_of(config)
    exported = conversion.export_hf(params, config)
    del exported["lm_head.bias"]
    exported["roberta.encoder.layer.4.output.dense.bias"] = np.zeros(12, np.float32)
    exported["roberta.more"] = np.zeros(3, np.float32)
    with pytest.raises(ConversionError) as error:
        conversion.import_hf(exported, config, params)
    for told in (
        "lm_head.bias (for mlm_bias): missing",
        "beyond them are roberta.encoder.layer.4.output.dense.bias",
        "roberta.more: unused",
    ):
        assert told in str(error.value)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"model_type": "gpt2"}, "model_type is 'gpt2'; expected one of bert"),
        ({"hidden_act": "mish"}, "hidden_act is 'mish'; expected one of"),
        ({"attention_window": [4, 6]}, "2 entries for 4 layers"),
        ({"attention_window": 7}, "expected even numbers"),
        ({"tie_word_embeddings": False}, "tie_word_embeddings is False"),
        (
            {"model_type": "big_bird", "attention_type": "sparse"},
            "attention_type is 'sparse'; expected one of",
        ),
        ({"attention_mode": "sliding_chunks"}, "counts one side"),
        ({"attention_mode": "sliding_chunks_no_overlap"}, "no counterpart"),
        ({"position_embedding_type": "relative_key"}, "only 'absolute'"),
    ],
)
def test_configs_without_a_counterpart_are_refused(change, message):
    values = encoder_config.config_to_hf(ENCODERS["longformer"]) | change
    with pytest.raises(ValueError, match=message):
        encoder_config.config_from_hf(values)


def test_global_tokens_in_front_of_blocks_are_not_written(tmp_path):
    config = dataclasses.replace(ENCODERS["big_bird"], num_globals=5)
    folder = tmp_path / "model"
    with pytest.raises(ValueError, match="num_globals is 5, but transformers' BigBird"):
        hugging_face.save(folder, params_of(config), config)
    assert not folder.exists()


@pytest.mark.torch
@pytest.mark.parametrize("length, padding", [(1, 0), (7, 0), (21, 6), (48, 0)])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("name", ENCODERS)
def test_transformers_computes_the_same(name, length, padding, left, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = ENCODERS[name]
    params = params_of(config)
    hugging_face.save(tmp_path / "model", params, config)
    [class_name] = conversion.values_to_hf(params, config)["architectures"]
    theirs = getattr(transformers, class_name).from_pretrained(tmp_path / "model")
    rng = np.random.default_rng(1)
    tokens = rng.integers(3, 19, size=(2, length)).astype(np.int32)
    mask = np.ones_like(tokens)
    if padding:
        mask[1, slice(padding) if left else slice(-padding, None)] = 0
    if config.position_offset:
        tokens[mask == 0] = config.pad_id
    given, more = {}, {}
    if isinstance(config, LongformerConfig):
        is_global = rng.integers(0, 4, size=tokens.shape) == 0
        more["global_index"] = global_index(is_global * mask)
        given["global_attention_mask"] = torch.tensor(is_global).long()
    with torch.no_grad():
        want = theirs.eval()(
            torch.tensor(tokens).long(), attention_mask=torch.tensor(mask), **given
        ).logits.numpy()
    with jax.default_matmul_precision("highest"):
        got = EncoderForMaskedLm(config).apply({"params": params}, tokens, mask, **more)
    # Blocks of BigBird make something else of padding.
    real = mask > (0 if isinstance(config, BigBirdConfig) else -1)
    np.testing.assert_allclose(np.asarray(got)[real], want[real], atol=1e-4, rtol=1e-4)
