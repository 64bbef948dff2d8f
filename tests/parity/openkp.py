"""Golden cases of the official OpenKP example builder, head, loss and looks."""

import json
import re

import jax
import numpy as np
from structured_batch import batch

from etc_jax.conversion.engine import import_params
from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from etc_jax.formats.structured import StructuredSizes
from etc_jax.models.etc import openkp_weights as etc_openkp
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.ngram_head import NgramHead
from etc_jax.models.openkp import VisualEmbedding, visual_adders
from etc_jax.objectives.losses import keyphrase
from etc_jax.ops import ngrams
from etc_jax.ops.visual import FLAGS, NUM_CROSSES, Visual, dense_features
from etc_jax.tasks.openkp.inputs import features
from etc_jax.tasks.openkp.records import FEATURES, parse
from parity.cases import Case, group, largest_difference

# What describes the case and decides no value.
_NO_MATTER = {"case", "kind", "keys", "key_doc", "notes", "provenance", "seed"}
_PADDED_TOKEN = 1
_COORDINATES = {
    "x": "x_coords",
    "y": "y_coords",
    "width": "widths",
    "height": "heights",
}
_RANGES = {"x": (-50, 1500), "y": (-50, 6000), "width": (0, 1500), "height": (0, 18000)}


# --- examples -------------------------------------------------------------------------


def _tokenizer(case: Case, sidecar: dict) -> WordPieceTokenizer:
    name = sidecar.pop("tokenizer")
    lower = re.fullmatch(r"BERT WordPiece, do_lower_case=(True|False)", name)
    assert lower, f"unknown tokenizer {name!r}"
    return WordPieceTokenizer.from_vocab_file(
        case.path.parent / sidecar.pop("vocab"), lower_case=lower[1] == "True"
    )


def _records(case: Case) -> list:
    path = case.path.with_name(f"{case.path.stem}.input.json")
    values = json.loads(path.read_text())
    assert values, "no record"
    return [parse(value, lambda kind, message: None) for value in values]


def run_builder(case: Case) -> float:
    """Inputs and labels of every page."""
    sidecar = {k: v for k, v in case.description.items() if k not in _NO_MATTER}
    tokenizer = _tokenizer(case, sidecar)
    sizes = StructuredSizes(
        sidecar.pop("long_max_length"), sidecar.pop("global_max_length")
    )
    url_length = sidecar.pop("url_max_code_points")
    assert not sidecar, f"unknown {sidecar}"
    windows = [
        window
        for record in _records(case)
        for window in features(record, tokenizer, sizes, official_quirks=True)
    ]
    want = group(case.arrays(), "out")
    got = _arrays(windows) | _looks(windows)
    got["url_code_points"] = _urls(windows, url_length)
    assert want and set(want) <= set(got), f"unknown {sorted(set(want) - set(got))}"
    for name, array in want.items():
        np.testing.assert_array_equal(got[name], array, err_msg=name)
    is_global = want["global_input_mask"] > 0
    boxes = np.stack([w.extra["visual"]["boxes"] for w in windows])
    return largest_difference(boxes[is_global], _boxes(want)[is_global])


def _arrays(windows) -> dict[str, np.ndarray]:
    """What both builders have, under the official names."""
    tokens, _, structure, labels = batch(windows)
    word = np.stack([w.extra["long_words"] for w in windows])
    is_global = structure.global_example_ids > 0
    num_words = np.array([[len(w.words)] for w in windows])
    return {
        "long_token_ids": tokens.long,
        "long_word_idx": np.maximum(word, 0),
        "long_vdom_idx": np.maximum(structure.links[..., 0], 0),
        "long_input_mask": structure.long_example_ids,
        "long_word_input_mask": np.arange(word.shape[1])[None] < num_words,
        # Padding has a token there, which nothing sees, and 0 here.
        "global_token_ids": np.where(is_global, tokens.global_, _PADDED_TOKEN),
        "global_input_mask": is_global,
        "label_start_idx": labels["start"],
        "label_phrase_len": labels["length"],
    }


def _looks(windows) -> dict[str, np.ndarray]:
    """Fonts and flags as the model takes them, places and sizes as they were read."""
    looks = [w.extra["visual"] for w in windows]
    visual = {name: np.stack([x[name] for x in looks]) for name in looks[0]}
    found = {f"global_{k}_ids": visual[k] for k in ("font", "parent_font")}
    for bit, name in enumerate(FLAGS):
        found[f"global_{name}_indicator"] = (visual["flags"] >> bit) & 1
    is_global = np.stack([w.structure.global_example_ids > 0 for w in windows])
    for name, official in _COORDINATES.items():
        for start, parent in (("global_", 0), ("global_parent_", 10)):
            column = FEATURES.index(name) + parent
            rows = np.zeros(is_global.shape, np.float32)
            rows[is_global] = np.concatenate(
                [
                    w.record.features[: np.sum(real), column]
                    for w, real in zip(windows, is_global, strict=True)
                ]
            )
            found[start + official] = rows
    return found


def _boxes(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """The official arrays of places and sizes, clipped and scaled."""
    scaled = []
    for start in ("global_", "global_parent_"):
        for name, (low, high) in _RANGES.items():
            raw = np.float64(arrays[start + _COORDINATES[name]])
            scaled.append(2 * (np.clip(raw, low, high) - low) / (high - low) - 1)
    return np.stack(scaled, axis=-1)


def _urls(windows, length: int) -> np.ndarray:
    rows = np.full((len(windows), length), -1, np.int32)
    for row, window in zip(rows, windows, strict=True):
        row[: len(window.record.id)] = [ord(c) for c in window.record.id]
    return rows


# --- model ----------------------------------------------------------------------------


def _apply(module, table, weights: dict[str, np.ndarray], *inputs):
    """Outputs with the official weights; none of `weights` may be left over."""
    abstract = jax.eval_shape(module.init, jax.random.key(0), *inputs)["params"]
    params, _ = import_params(table, weights, abstract)
    return jax.jit(module.apply)({"params": params}, *inputs)


def _own(weights: dict, table) -> dict[str, np.ndarray]:
    return {
        name: value
        for name, value in weights.items()
        if any(row.match_source(name) is not None for row in table)
    }


def _visual(inputs: dict[str, np.ndarray]) -> Visual:
    """What a case gives as a number a flag, as the model takes it."""
    crossed = inputs["indicator_cross"]
    others = inputs["indicators_inline_leaf_pheading_pleaf_pbold"]
    bits = np.sum(others << np.arange(others.shape[-1]), axis=-1) * NUM_CROSSES
    raw = np.float64(inputs["raw_dense_xywh_parent_xywh"])
    low, high = np.float64([*_RANGES.values()] * 2).T
    boxes = 2 * (np.clip(raw, low, high) - low) / (high - low) - 1
    return Visual(
        font=inputs["font_ids"],
        parent_font=inputs["parent_font_ids"],
        flags=(bits + crossed).astype(np.uint8),
        boxes=boxes.astype(np.float32),
    )


def run_head(case: Case) -> float:
    """Looks of elements, word sums, logits, targets and loss."""
    sidecar = {k: v for k, v in case.description.items() if k not in _NO_MATTER}
    assert sidecar.pop("kp_max_length") == ngrams.MAX_WORDS
    smoothing = sidecar.pop("additive_smoothing_mass")
    assert not sidecar, f"unknown {sidecar}"
    arrays = case.arrays()
    inputs, weights = group(arrays, "in"), group(arrays, "w")
    own = {t: _own(weights, t) for t in (etc_openkp.HEAD, etc_openkp.VISUAL)}
    assert sum(map(len, own.values())) == len(weights), sorted(weights)
    long, visual = inputs["long_output"], _visual(inputs)
    config = EtcConfig(embed_dim=long.shape[-1], num_heads=1)
    looks = _apply(
        VisualEmbedding(config), etc_openkp.VISUAL, own[etc_openkp.VISUAL], visual
    )
    words = np.where(inputs["long_input_mask"] > 0, inputs["long_word_idx"], -1)
    np.testing.assert_array_equal(
        np.sum(inputs["long_word_input_mask"], axis=1), ngrams.num_words(words)
    )
    head = NgramHead(config)
    logits = _apply(head, etc_openkp.HEAD, own[etc_openkp.HEAD], long, words)
    labels = (inputs["label_start_idx"], inputs["label_phrase_len"])
    got = {
        "global_embedding_adder": looks,
        "long_embedding_adder": visual_adders(looks, inputs["long_vdom_idx"]).long,
        "word_sum": ngrams.sum_words(long, words),
        "ngram_logits": logits,
        **_loss(logits, labels, smoothing),
    }
    want = group(arrays, "out")
    assert set(got) == set(want), f"{sorted(got)} of {sorted(want)}"
    aux = largest_difference(dense_features(visual), arrays["aux/scaled_dense"])
    return max(aux, *(largest_difference(got[name], want[name]) for name in want))


def _loss(logits, labels, smoothing: float) -> dict:
    b = len(logits)
    loss, _, weight = keyphrase.first_occurrence(
        logits, *labels, np.ones(b), smoothing=smoothing
    )
    # The gradient of a loss by its logits is p - target, of each example.
    gradient = jax.grad(
        lambda x: keyphrase.first_occurrence(
            x, *labels, np.ones(b), smoothing=smoothing
        )[0]
    )(logits)
    target = jax.nn.softmax(logits.reshape(b, -1), axis=-1) - gradient.reshape(b, -1)
    return {"loss": loss / weight, "ngram_labels": target}
