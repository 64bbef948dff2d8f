"""Lifted models against PyTorch: its recorded outputs, and live."""

import json

import numpy as np
import pytest
from golden_data import require_shared
from lift_cases import lifted, mlm_logits, run_long
from real_bert import encoded, package_folder, torch_hidden

from etc_jax.base.types import Rows
from etc_jax.models.etc import bert_source
from etc_jax.models.etc.body import EtcForPretraining
from etc_jax.models.etc.lift import PAPER, LiftOptions
from etc_jax.structure import Structure

TOLERANCE = 1e-4


def lifted_alike(source, weights, **changes):
    """(config, parameters) of the ETC that computes what the source does."""
    options = LiftOptions(
        positions="copy",
        # RoBERTa's single type is that of every token.
        types="copy" if source.num_types > 1 else "first",
        activation="source",
        epsilon="source",
    )
    return lifted(source, weights, options, **changes)[:2]


def hidden_states(config, params, ids, mask, types) -> list[np.ndarray]:
    """The embeddings and the output of every layer, of unrolled layers."""
    none = np.zeros((len(ids), 0), np.int32)
    structure = Structure(mask, none, np.zeros((*ids.shape, 0), np.int16))
    wanted = ("EtcEmbeddings", "Block")
    _, state = EtcForPretraining(config).apply(
        {"params": params},
        ids,
        none,
        structure,
        method=lambda m, *given: m.encoder(*given, types=Rows(types, None)),
        mutable=["intermediates"],
        capture_intermediates=lambda module, _: type(module).__name__ in wanted,
    )
    found = state["intermediates"]["encoder"]
    layers = [found["stack"][f"layers_{i}"]["layer"] for i in range(config.num_layers)]
    outputs = [x["__call__"][0][0] for x in layers]  # and what is kept
    return [x.long for x in (found["embeddings"]["__call__"][0], *outputs)]


def worst(got, want, mask) -> float:
    """The largest difference at real tokens."""
    return float(np.abs(np.asarray(got) - want)[mask > 0].max())


@pytest.mark.parametrize("kind", ["BertForMaskedLM", "RobertaForMaskedLM"])
def test_recorded_hidden_states_and_logits_are_reproduced(kind, record_property):
    folder = require_shared("fixtures/peers")
    cases = [
        path.parent
        for path in sorted(folder.glob("*/meta.json"))
        if json.loads(path.read_text())["model_class"] == kind
    ]
    assert cases, f"no {kind} under {folder}"
    for case in cases:
        source, weights = bert_source.open_checkpoint(case)
        config, params = lifted_alike(source, weights, scan_layers=False)
        with (
            np.load(case / "inputs.npz") as inputs,
            np.load(case / "outputs.npz", allow_pickle=False) as outputs,
        ):
            ids, mask = inputs["input_ids"], inputs["attention_mask"]
            types = inputs.get("token_type_ids")
            states = hidden_states(config, params, ids, mask, types)
            assert f"hidden_states.{len(states)}" not in outputs
            differences = [
                worst(state, outputs[f"hidden_states.{i}"], mask)
                for i, state in enumerate(states)
            ]
            logits = mlm_logits(config, params, np.asarray(states[-1]))
            differences.append(worst(logits, outputs["logits"], mask))
        record_property(case.name, max(differences))
        assert max(differences) < TOLERANCE


@pytest.mark.torch
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_a_live_random_model_is_reproduced(family, tmp_path):
    torch = pytest.importorskip("torch", reason="extra parity is not installed")
    transformers = pytest.importorskip("transformers", reason="extra parity")
    torch.manual_seed(0)
    sizes = {
        "vocab_size": 97,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 48,
        "max_position_embeddings": 40,
        "initializer_range": 0.3,
        "attn_implementation": "eager",
    }
    kinds = {
        "bert": (transformers.BertConfig, transformers.BertModel),
        "roberta": (transformers.RobertaConfig, transformers.RobertaModel),
    }
    make_config, make_model = kinds[family]
    extra = {"type_vocab_size": 1, "pad_token_id": 1} if family == "roberta" else {}
    model = make_model(make_config(**sizes, **extra)).eval()
    # In shards, and without the prefix, as a body is saved alone.
    model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    source, weights = bert_source.open_checkpoint(tmp_path)
    config, params = lifted_alike(source, weights)

    rng = np.random.default_rng(0)
    ids = rng.integers(5, 97, size=(2, 30))
    mask = np.ones_like(ids)
    ids[1, 20:], mask[1, 20:] = extra.get("pad_token_id", 0), 0
    types = rng.integers(2, size=ids.shape) if family == "bert" else None
    want = torch_hidden(model, ids, mask, types)
    assert worst(run_long(config, params, ids, mask, types), want, mask) < TOLERANCE


@pytest.mark.torch
def test_a_real_bert_of_six_layers_is_reproduced(record_property):
    folder = package_folder()
    transformers = pytest.importorskip("transformers", reason="extra parity")
    source, weights = bert_source.open_checkpoint(folder)
    assert source.num_layers == 6
    config, params = lifted_alike(source, weights)
    ids, mask = encoded(folder)
    model = transformers.BertModel.from_pretrained(folder).eval()
    want = torch_hidden(model, ids, mask)
    got = run_long(config, params, ids, mask, ids * 0)
    difference = worst(got, want, mask)
    print(f"real BERT of 6 layers: largest difference {difference:.2e}")
    record_property("largest_difference", difference)
    assert difference < TOLERANCE
    # The paper's own lift is another model until it is trained on.
    config, params, _ = lifted(source, weights, PAPER)
    assert worst(run_long(config, params, ids, mask), want, mask) > 0.1
