"""Encoders of one sequence as Hugging Face writes them, both ways.

Weights go by the names of `weight_names`, which are those of the body without the
family's prefix. The name of the class gives the heads in config.json,
or else by the weights; a pooler, and BERT's head for the next sentence, come along
wherever a checkpoint has them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion.config_rules import check_sizes, layers_in
from etc_jax.conversion.engine import (
    TRANSPOSE,
    Report,
    Row,
    compose,
    export_params,
    import_params,
    split_first,
    split_last,
)
from etc_jax.conversion.exchange import Exchange
from etc_jax.conversion.formats.native import family_of
from etc_jax.conversion.renaming import LayerRuns, Renamed, tied
from etc_jax.conversion.torch_rows import linear, norm
from etc_jax.models.encoder.body import EncoderForMaskedLm
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder.heads import (
    EncoderForChoices,
    EncoderForLabels,
    EncoderForSpans,
    EncoderForTokenLabels,
    EncoderWithoutHead,
)
from etc_jax.models.encoder.hf_config import (
    EncoderFamily,
    config_from_hf,
    config_to_hf,
    facts_of,
)
from etc_jax.models.encoder.weight_names import (
    DECODER,
    DECODER_BIAS,
    MLM_BIAS,
    POSITION_IDS,
    POSITIONS,
    TOKENS,
    TYPES,
    BertWeights,
    original_name,
)

# Ends of the names of transformers' classes -> a parameter that only these models have.
_HEADS = {
    "ForPreTraining": "next_sentence",
    "ForMaskedLM": "mlm_bias",
    "ForQuestionAnswering": "answer_span",
    "ForSequenceClassification": "label_out",
    "ForTokenClassification": "token_label_out",
    "ForMultipleChoice": "choice_out",
    "Model": "encoder",
}
_POOLER = re.compile(r"pooler\.(dense\.)?weight")
_NEXT_SENTENCE = "cls.seq_relationship"
# The weight of the last layer whose shape gives the number of labels.
_LABELS = ("classifier.out_proj.bias", "classifier.bias")


def _head(values: Mapping[str, Any], weights: Mapping[str, np.ndarray]) -> str:
    """The end of a class's name, of `_HEADS`.

    Raises:
      ValueError: if the config names a class of another kind, or none and there is a
        classifier, which may be of sequences, tokens or choices.
    """
    named = values.get("architectures") or []
    heads = [h for h in _HEADS for name in named if name.endswith(h)]
    if named and not heads:
        raise ValueError(
            f"architectures is {named}; what has a counterpart ends with one of "
            f"{', '.join(_HEADS)}"
        )
    if heads:
        return heads[0]
    if any(name in weights for name in _LABELS):
        raise ValueError(
            "config.json names no class in architectures, and the checkpoint has a "
            "classifier, which may be of sequences, of tokens or of choices; name the "
            'class, as "architectures": ["BertForSequenceClassification"]'
        )
    if any("qa_outputs" in name for name in weights):
        return "ForQuestionAnswering"
    return "ForMaskedLM" if MLM_BIAS in weights else "Model"


def model_of(
    values: Mapping[str, Any],
    weights: Mapping[str, np.ndarray],
    config: EncoderConfig,
) -> Any:
    """The Linen module that a checkpoint is of, with the parts that it has.

    Args:
      values: of its config.json.
      weights: by the names of `weight_names`, shapes as in the checkpoint.
      config: of the encoder.

    Raises:
      ValueError: if the config does not give it.
    """
    head = _head(values, weights)
    pooler = any(_POOLER.fullmatch(name) for name in weights)
    if head in ("ForMaskedLM", "ForPreTraining"):
        second = f"{_NEXT_SENTENCE}.bias" in weights
        return EncoderForMaskedLm(config, with_pooler=pooler, with_next_sentence=second)
    if head == "ForMultipleChoice":
        return EncoderForChoices(config)
    if head in ("ForSequenceClassification", "ForTokenClassification"):
        of_tokens = head == "ForTokenClassification"
        kind = EncoderForTokenLabels if of_tokens else EncoderForLabels
        return kind(config, num_labels=_num_labels(weights), with_pooler=pooler)
    kind = EncoderForSpans if head == "ForQuestionAnswering" else EncoderWithoutHead
    return kind(config, with_pooler=pooler)


def _num_labels(weights: Mapping[str, np.ndarray]) -> int:
    biases = [weights[name].shape for name in _LABELS if name in weights]
    if not biases or len(biases[0]) != 1:
        raise ValueError(
            f"the class named in architectures has a classifier, but the checkpoint "
            f"has neither {' nor '.join(_LABELS)} as a bias of labels"
        )
    return biases[0][0]


def shapes(model: Any) -> Any:
    """Of the parameters of a Linen module, as `jax.eval_shape` gives them."""
    leading = (1, 1) if isinstance(model, EncoderForChoices) else (1,)
    tokens = jnp.zeros((*leading, 1), jnp.int32)
    return jax.eval_shape(lambda: model.init(jax.random.key(0), tokens))["params"]


def _runs(config: EncoderConfig) -> LayerRuns:
    return LayerRuns("encoder.layer", len(config.patterns))


def names(config: EncoderConfig) -> tuple[Row, ...]:
    """Rows for all weights of the body and its heads."""
    split = split_last(config.num_heads)
    projection = (compose(TRANSPOSE, split), split)
    out = compose(TRANSPOSE, split_first(config.num_heads))
    tables = {"token": TOKENS, "position": POSITIONS, "segment": TYPES}
    start = "encoder/embeddings/"
    rows = [
        Row(theirs, f"{start}{ours}_embedder/embedding")
        for ours, theirs in tables.items()
    ]
    rows += norm("embeddings.LayerNorm", f"{start}embed_norm")
    rows += linear("mlm.dense", "mlm_dense", TRANSPOSE)
    rows += norm("mlm.norm", "mlm_norm")
    rows.append(Row(MLM_BIAS, "mlm_bias"))
    rows += _head_names(config)
    for i, pattern in enumerate(config.patterns):
        theirs = _runs(config).source(i)
        ours = f"encoder/stack/layers/period/layer_{i}/"
        for kind in ("query", "key", "value", *pattern.more_projections):
            rows += linear(
                f"{theirs}attention.self.{kind}", f"{ours}attention/{kind}", *projection
            )
        rows += linear(f"{theirs}attention.output.dense", f"{ours}attention/out", out)
        rows += norm(f"{theirs}attention.output.LayerNorm", f"{ours}attention_norm")
        rows += linear(f"{theirs}intermediate.dense", f"{ours}mlp/wi", TRANSPOSE)
        rows += linear(f"{theirs}output.dense", f"{ours}mlp/wo", TRANSPOSE)
        rows += norm(f"{theirs}output.LayerNorm", f"{ours}mlp_norm")
    return tuple(rows)


def _head_names(config: EncoderConfig) -> list[Row]:
    family = facts_of(family_of(config))
    labels = "" if config.label_activation is None else ".out_proj"
    pairs = {
        family.pooler: "encoder/pooler",
        _NEXT_SENTENCE: "next_sentence",
        f"{family.answers}qa_outputs": "answer_span",
        "qa_classifier.intermediate.dense": "answer_mlp/wi",
        "qa_classifier.output.dense": "answer_mlp/wo",
        "classifier.dense": "label_dense",
        f"classifier{labels}": "label_out",
    }
    rows = [*norm("qa_classifier.output.LayerNorm", "answer_norm")]
    for theirs, ours in pairs.items():
        rows += linear(theirs, ours, TRANSPOSE)
    for ours in ("token_label_out", "choice_out"):
        rows += linear("classifier", ours, TRANSPOSE)
    return rows


# Names of one array: the token table, and the bias over the vocabulary.
_TIED = ((TOKENS, DECODER), (MLM_BIAS, DECODER_BIAS))


def import_hf(
    source: Mapping[str, np.ndarray], config: EncoderConfig, abstract: Any
) -> tuple[dict[str, Any], Report]:
    """Weights of a checkpoint -> parameters of a model of `models.encoder`.

    Args:
      source: name of transformers, or of allenai -> array of its shape there.
      config: of the checkpoint.
      abstract: of the parameters, see `engine.import_params`.

    Raises:
      ConversionError: naming everything that does not fit.
    """
    weights = BertWeights(source, family_of(config))
    return from_common(_untied(weights), config, abstract, unused=[POSITION_IDS])


def _untied(weights: Renamed) -> Renamed:
    """The weights with one name for each array."""
    return functools.reduce(tied, _TIED, weights)


def export_hf(params: Mapping[str, Any], config: EncoderConfig) -> dict[str, Any]:
    """The inverse of `import_hf`."""
    # Without heads, transformers has no name before those of the body.
    family = family_of(config) if params.keys() > {"encoder"} else None
    common = to_common(params, config)
    return {original_name(name, family): array for name, array in common.items()}


def from_common(
    weights: Mapping[str, np.ndarray],
    config: EncoderConfig,
    abstract: Any,
    *,
    unused: Sequence[str] = (),
) -> tuple[dict[str, Any], Report]:
    """Weights by the names of `weight_names`, which families share -> parameters.

    Args:
      weights: name -> array of its shape there; may be lazy.
      config: of the model.
      abstract: of the parameters, see `engine.import_params`.
      unused: names that may stay unused.

    Raises:
      ConversionError: naming everything that does not fit.
    """
    runs = _runs(config)
    renamed = Renamed(weights, runs.split, runs.join)
    allowed = [re.escape(name) for name in unused]
    return import_params(names(config), renamed, abstract, allow_unused=allowed)


def to_common(params: Mapping[str, Any], config: EncoderConfig) -> dict[str, Any]:
    """The inverse of `from_common`."""
    join = _runs(config).join
    exported = export_params(names(config), params)
    return {join(name): array for name, array in exported.items()}


def _check_sizes(weights: Renamed, config: EncoderConfig) -> None:
    """Refuses weights of another size than the config says, which are only looked at.

    Raises:
      ValueError: naming the keys of config.json.
    """
    size, layer = weights.size, "encoder.layer"
    check_sizes(
        {
            "vocab_size": (config.vocab_size, size(TOKENS, 0)),
            "hidden_size": (config.embed_dim, size(TOKENS, 1)),
            "max_position_embeddings": (config.num_positions, size(POSITIONS, 0)),
            "type_vocab_size": (config.num_types, size(TYPES, 0)),
            "num_hidden_layers": (config.num_layers, layers_in(weights, layer)),
            "intermediate_size": (
                config.mlp_dim,
                size(f"{layer}.0.intermediate.dense.weight", 0),
            ),
        }
    )


def read_hf(
    values: Mapping[str, Any], source: Mapping[str, np.ndarray], config: EncoderConfig
) -> tuple[dict[str, Any], Report]:
    """All that a checkpoint has: see `import_hf`.

    Args:
      values: of its config.json.
      source: name -> array of its shape there.
      config: made of `values`.

    Raises:
      ConversionError, ValueError: if something does not fit.
    """
    weights = _untied(BertWeights(source, family_of(config)))
    _check_sizes(weights, config)
    model = model_of(values, weights, config)
    return import_hf(source, config, shapes(model))


def head_of(params: Mapping[str, Any]) -> str:
    """What the name of transformers' class ends with for the heads of a model."""
    return next(end for end, part in _HEADS.items() if part in params)


def values_to_hf(params: Mapping[str, Any], config: EncoderConfig) -> dict[str, Any]:
    """The content of a `config.json` for what `export_hf` gives."""
    name = f"{facts_of(family_of(config)).classes}{head_of(params)}"
    values = {**config_to_hf(config), "architectures": [name]}
    for part in ("label_out", "token_label_out"):
        if part in params:
            labels = [f"LABEL_{i}" for i in range(len(params[part]["bias"]))]
            values["id2label"] = {str(i): label for i, label in enumerate(labels)}
            values["label2id"] = {label: i for i, label in enumerate(labels)}
    return values


def exchange_of(
    config_class: type[EncoderConfig], facts: EncoderFamily, **more: Any
) -> Exchange:
    """How the models of such configs are exchanged, by what differs in the family."""
    functions = config_from_hf, read_hf, export_hf, values_to_hf
    return Exchange(config_class, *functions, facts=facts, **more)
