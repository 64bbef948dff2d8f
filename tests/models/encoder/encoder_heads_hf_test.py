"""Encoders with every head, from transformers and back; the same figures there."""

import json

import jax
import numpy as np
import pytest
from hf_models import TINY, params_of
from random_params import assert_equal

from etc_jax.conversion import hugging_face
from etc_jax.conversion.formats.safetensors_io import SafetensorsFiles
from etc_jax.models.bert.config import BertConfig
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder import weights as conversion
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.encoder.heads import (
    EncoderForChoices,
    EncoderForLabels,
    EncoderForSpans,
    EncoderForTokenLabels,
    EncoderWithoutHead,
)
from etc_jax.models.encoder.weight_names import BertWeights
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.models.roberta.config import RobertaConfig

SIZES = {**TINY, "num_layers": 2, "max_length": 32, "attention": "auto"}
CONFIGS = {
    "Bert": BertConfig(**SIZES),
    "Roberta": RobertaConfig(**SIZES),
    "Longformer": LongformerConfig(**SIZES, attention_window=(8,)),
    "BigBird": BigBirdConfig(**SIZES, block_size=4, num_random_blocks=1),
}
SEPARATOR = 2


def model_of(head: str, config):
    return {
        "ForMaskedLM": lambda: EncoderForMaskedLm(config),
        "ForPreTraining": lambda: EncoderForMaskedLm(config, with_next_sentence=True),
        "ForSequenceClassification": lambda: EncoderForLabels(config, num_labels=5),
        "ForTokenClassification": lambda: EncoderForTokenLabels(config, num_labels=5),
        "ForQuestionAnswering": lambda: EncoderForSpans(config),
        "ForMultipleChoice": lambda: EncoderForChoices(config),
        "Model": lambda: EncoderWithoutHead(config, with_pooler=True),
    }[head]()


HEADS = (
    *("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification"),
    *("ForQuestionAnswering", "ForMultipleChoice", "Model"),
)
CASES = [(f, h) for f in CONFIGS for h in HEADS]
CASES += [("Bert", "ForPreTraining"), ("BigBird", "ForPreTraining")]


# Each head with two families, each family with half of the heads.
@pytest.mark.parametrize(
    "family, head",
    [
        pytest.param(*case, marks=() if (i + i // 6) % 2 == 0 else pytest.mark.full)
        for i, case in enumerate(CASES)
    ],
)
def test_weights_come_back_and_tell_the_model(family, head, tmp_path):
    config = CONFIGS[family]
    model = model_of(head, config)
    params = params_of(model)
    hugging_face.save(tmp_path / "model", params, config)
    values = json.loads((tmp_path / "model" / "config.json").read_text())
    assert values["architectures"] == [f"{family}{head}"]
    back = hugging_face.read(tmp_path / "model")
    assert not back.report.missing and not back.report.unused
    assert_equal(back.params, params)
    weights = BertWeights(SafetensorsFiles(tmp_path / "model"), values["model_type"])
    again = conversion.model_of(values, weights, config)
    assert type(again) is type(model)
    assert getattr(again, "num_labels", 5) == 5


def exported(model, config):
    return BertWeights(
        conversion.export_hf(params_of(model), config), conversion.family_of(config)
    )


@pytest.mark.parametrize("head", ["ForMaskedLM", "ForQuestionAnswering", "Model"])
def test_weights_tell_the_head_where_the_config_does_not(head):
    config = CONFIGS["Roberta"]
    model = model_of(head, config)
    assert conversion.model_of({}, exported(model, config), config) == model


def test_a_classifier_of_no_known_class_is_refused():
    config = CONFIGS["Bert"]
    weights = exported(EncoderForLabels(config, num_labels=5), config)
    with pytest.raises(ValueError, match="names no class in architectures"):
        conversion.model_of({}, weights, config)
    values = {"architectures": ["BertForNextSentencePrediction"]}
    with pytest.raises(ValueError, match="what has a counterpart ends with one of"):
        conversion.model_of(values, weights, config)


def test_a_class_without_its_classifier_is_refused():
    config = CONFIGS["Bert"]
    weights = exported(EncoderForMaskedLm(config), config)
    values = {"architectures": ["BertForTokenClassification"]}
    with pytest.raises(ValueError, match="has neither classifier.out_proj.bias nor"):
        conversion.model_of(values, weights, config)


def test_a_pooler_comes_along_with_any_head():
    config = CONFIGS["Roberta"]
    for model in (
        EncoderForMaskedLm(config, with_pooler=True),
        EncoderForLabels(config, num_labels=2, with_pooler=True),
        EncoderForTokenLabels(config, num_labels=2, with_pooler=True),
        EncoderForSpans(config, with_pooler=True),
    ):
        params = params_of(model)
        values = conversion.values_to_hf(params, config)
        weights = conversion.export_hf(params, config)
        back, report = conversion.read_hf(values, weights, config)
        assert not report.unused
        assert_equal(back, params)


def _question(rng, length):
    """A row of RoBERTa's form: begin, 3 tokens, two separators, a text, the last."""
    tokens = rng.integers(3, 19, size=length).astype(np.int32)
    tokens[0] = 0
    tokens[[4, 5, -1]] = SEPARATOR
    return tokens


def _inputs(family: str, head: str):
    """(ours, those of transformers), with what that takes where nothing is given."""
    rng = np.random.default_rng(1)
    shape = (2, 3) if head == "ForMultipleChoice" else (2,)
    length = 30
    rows = [_question(rng, length) for _ in range(int(np.prod(shape)))]
    tokens = np.stack(rows).reshape(*shape, length)
    place = np.arange(length)
    ours = {}
    if family == "Longformer":
        of_head = {
            "ForSequenceClassification": place[:1],
            "ForQuestionAnswering": place[:4],
            "ForMultipleChoice": place[6:],
        }
        if (index := of_head.get(head)) is not None:
            index = np.broadcast_to(index, (*shape, len(index)))
            ours["global_index"] = index.astype(np.int32)
    if family == "BigBird" and head == "ForQuestionAnswering":
        behind = np.broadcast_to(place > 4, (2, length))
        ours["answerable"] = behind | (place[None] == 0)
        ours["types"] = behind.astype(np.int32)
    return tokens, ours


@pytest.mark.torch
@pytest.mark.parametrize("family, head", CASES)
def test_transformers_computes_the_same(family, head, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    config = CONFIGS[family]
    model = model_of(head, config)
    params = params_of(model)
    hugging_face.save(tmp_path / "model", params, config)
    tokens, inputs = _inputs(family, head)
    file = tmp_path / "model" / "config.json"
    values = json.loads(file.read_text()) | {"sep_token_id": SEPARATOR}
    file.write_text(json.dumps(values))
    theirs, told = getattr(transformers, f"{family}{head}").from_pretrained(
        tmp_path / "model", output_loading_info=True
    )
    unread = {n for n in told["missing_keys"] if "pooler" not in n}
    assert not unread and not told["unexpected_keys"]
    with torch.no_grad():
        want = theirs.eval()(torch.tensor(tokens).long())
    with jax.default_matmul_precision("highest"):
        got = model.apply({"params": params}, tokens, **inputs)
        if head == "ForPreTraining":
            second = model.apply(
                {"params": params}, tokens, method=model.next_sentence_logits
            )
    pairs = {
        "Model": lambda: [(got, want.last_hidden_state)],
        "ForQuestionAnswering": lambda: [
            (got.start, want.start_logits),
            (got.end, want.end_logits),
        ],
        "ForPreTraining": lambda: [
            (got, want.prediction_logits),
            (second, want.seq_relationship_logits),
        ],
    }.get(head, lambda: [(got, want.logits)])()
    for mine, other in pairs:
        np.testing.assert_allclose(
            np.asarray(mine), other.numpy(), atol=1e-4, rtol=1e-4
        )


@pytest.mark.torch
@pytest.mark.parametrize("family, head", CASES)
def test_a_model_of_transformers_comes_back_bit_by_bit(family, head, tmp_path):
    transformers = pytest.importorskip("transformers")
    values = conversion.config_to_hf(CONFIGS[family])
    config_class = getattr(transformers, f"{family}Config")
    config = config_class(**{k: v for k, v in values.items() if k != "model_type"})
    getattr(transformers, f"{family}{head}")(config).save_pretrained(tmp_path / "in")
    read = hugging_face.read(tmp_path / "in")
    hugging_face.save(tmp_path / "out", read.params, read.config)
    before, after = (SafetensorsFiles(tmp_path / name) for name in ("in", "out"))
    assert sorted(before) == sorted(after)
    for name in before:
        np.testing.assert_array_equal(before[name], after[name])
