"""Lifting BERT and RoBERTa into ETC (Ainslie et al. 2020, section 3.6, appendix D).

Feed-forward blocks, projections, norms and the token table are taken over, a matrix
that ETC has more than once into every copy. Absolute positions and the weights of next
sentence prediction are dropped; label tables and CPC begin as in a new model. The paper
does not name token types, so these begin anew as well. Departures are `LiftOptions`.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from etc_jax.conversion.engine import ConversionError, flatten, import_params, unflatten
from etc_jax.models.encoder import weight_names as bert
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder.weight_names import BertWeights
from etc_jax.models.etc.bert_source import lifting_names
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.etc.lift_report import LiftReport, describe_values


@dataclasses.dataclass(frozen=True)
class LiftOptions:
    """Departures from the paper's lift, which are its defaults.

    Attributes:
      positions: "drop"; "copy" into the tables of both inputs.
      types: "drop"; "copy" row by row; "first": the source's first row, which a lone
        text has there, into every row. Long tokens have type 1 unless given otherwise.
      activation: "model" keeps the config's, whose gelu is the tanh approximation;
        "source" takes the source's.
      epsilon: of the norms; "model" or "source", as for `activation`.
      token_rows: (id, id whose row of the token table it begins with) of tokens that
        the source has never seen, such as those of the global input.
    """

    positions: Literal["drop", "copy"] = "drop"
    types: Literal["drop", "copy", "first"] = "drop"
    activation: Literal["model", "source"] = "model"
    epsilon: Literal["model", "source"] = "model"
    token_rows: tuple[tuple[int, int], ...] = ()


PAPER = LiftOptions()

_EQUAL = ("num_layers", "embed_dim", "num_heads", "mlp_dim")
_GELUS = {"gelu", "gelu_exact"}


def lifted_config(
    source: EncoderConfig, config: EtcConfig, options: LiftOptions = PAPER
) -> EtcConfig:
    """The config of the ETC that a lift makes: `config` as the options change it.

    Copied positions give tables to a config that has none.

    Raises:
      ConversionError: naming every field that does not fit.
    """
    changes: dict[str, Any] = {}
    if options.activation == "source":
        changes["activation"] = source.activation
    if options.epsilon == "source":
        changes["layer_norm_epsilon"] = source.layer_norm_epsilon
    if options.positions == "copy" and not config.max_positions:
        changes["max_positions"] = source.max_length
    config = dataclasses.replace(config, **changes)
    if problems := list(_misfits(source, config, options)):
        raise ConversionError(problems)
    return config


def _misfits(source: EncoderConfig, config: EtcConfig, options) -> Iterator[str]:
    for field in _EQUAL:
        got, expected = getattr(config, field), getattr(source, field)
        if got != expected:
            yield f"model.{field} is {got}; the source has {expected}"
    if config.token_dim != config.embed_dim:
        yield (
            f"model.embedding_dim is {config.embedding_dim}; the source projects no "
            "token table: leave it at None"
        )
    if config.attention_head_dim * config.num_heads != config.embed_dim:
        yield (
            f"model.head_dim is {config.head_dim}; the source has embed_dim / num_heads"
            ": leave it at None"
        )
    if config.pre_norm:
        yield "model.pre_norm is True; the source has its norms after each block"
    for field, least in (
        ("vocab_size", source.vocab_size),
        ("max_positions", source.max_length * (options.positions == "copy")),
        ("num_types", source.num_types * (options.types == "copy")),
    ):
        if getattr(config, field) < least:
            yield (
                f"model.{field} is {getattr(config, field)}; the source has {least}, "
                "and none may be lost: make it at least as large"
            )
    if config.activation != source.activation and (
        {config.activation, source.activation} != _GELUS
    ):
        yield (
            f"model.activation is {config.activation!r}; the source has "
            f"{source.activation!r}: take the source's"
        )
    new_ids = [new for new, _ in options.token_rows]
    if twice := sorted({new for new in new_ids if new_ids.count(new) > 1}):
        yield f"token_rows tells twice what tokens {twice} begin with"
    for new, old in options.token_rows:
        if not (0 <= new < config.vocab_size and 0 <= old < source.vocab_size):
            yield (
                f"token_rows has ({new}, {old}), but the model has {config.vocab_size} "
                f"ids and the source {source.vocab_size}"
            )


class _Table(NamedTuple):
    """Rows of a table of ours that are rows of one of the source."""

    target: str
    source: str
    ours: np.ndarray
    theirs: np.ndarray


def lift(
    weights: BertWeights,
    source: EncoderConfig,
    fresh: Mapping[str, Any],
    config: EtcConfig,
    options: LiftOptions = PAPER,
    *,
    target: str = "encoder/",
) -> tuple[dict[str, Any], LiftReport]:
    """Parameters of an ETC that begins with the weights of a BERT or RoBERTa.

    Args:
      weights: of the source, from `bert_source.open_checkpoint`.
      source: its config, from `bert_source.open_checkpoint` too.
      fresh: initialised parameters of the model, which may have heads of its own; what
        is not lifted stays as it is there.
      config: of the model, as `lifted_config` gives it for the same options.
      options: departures from the paper.
      target: where the encoder stands in `fresh`; "" if there is nothing else.

    Returns:
      (nested dict of numpy arrays in the shapes and dtypes of `fresh`, report).

    Raises:
      ConversionError: naming everything that does not fit.
    """
    if lifted_config(source, config, options) != config:
        raise ConversionError(
            ["the config is not that of the options; take it from lifted_config"]
        )
    _check_head(weights)
    _check_tables(weights, source)
    flat = {path: np.asarray(leaf) for path, leaf in flatten(fresh).items()}
    tables = list(_tables(source, config, options, target))
    if bert.MLM_BIAS in weights and "mlm_bias" in flat:
        ids = np.arange(source.vocab_size)
        tables.append(_Table("mlm_bias", bert.MLM_BIAS, ids, ids))
    left_over = _left_over(weights, tables, with_head="mlm_dense/kernel" in flat)
    rows = lifting_names(
        config.num_heads, scan_layers=config.scan_layers, target=target
    )
    taken, report = import_params(
        rows,
        weights,
        fresh,
        allow_missing=_may_begin_anew(target),
        allow_unused=[re.escape(n) for n in (*left_over, *(t.source for t in tables))],
    )
    lifted = dict(report.loaded)
    new = {path: describe_values(flat[path]) for path in report.missing}
    params = flat | flatten(taken)
    for table in tables:
        path = table.target
        params[path] = _filled(flat[path], table, weights)
        lifted[path] = (weights.original(table.source),)
        new.pop(path)
        new |= _rest(flat[path], table)
    if bad := [path for path in lifted if not np.isfinite(params[path]).all()]:
        raise ConversionError([f"{p}: the source's values are not finite" for p in bad])
    return unflatten(params), LiftReport(
        lifted,
        new,
        {weights.original(name): why for name, why in left_over.items()},
        tuple(_choices(source, config, options)),
    )


def _tables(source, config, options, target) -> Iterator[_Table]:
    """The encoder's tables that rows of the source go into."""
    embeddings = f"{target}embeddings/"
    ids = np.arange(source.vocab_size)
    tokens = dict(enumerate(ids)) | dict(options.token_rows)
    yield _Table(
        f"{embeddings}token_embedder/embedding",
        bert.TOKENS,
        np.array(list(tokens)),
        np.array(list(tokens.values())),
    )
    if options.types != "drop":
        copy = options.types == "copy"
        types = np.arange(source.num_types if copy else config.num_types)
        path = f"{embeddings}segment_embedder/embedding"
        yield _Table(path, bert.TYPES, types, types if copy else types * 0)
    if options.positions == "copy":
        rows = np.arange(source.max_length)
        for side in ("long", "global"):
            path = f"{embeddings}{side}_position_embedder/embedding"
            theirs = rows + source.position_offset
            yield _Table(path, bert.POSITIONS, rows, theirs)


def _filled(fresh: np.ndarray, table: _Table, weights: BertWeights) -> np.ndarray:
    """A table with the source's rows in it."""
    out = fresh.copy()
    out[table.ours] = weights[table.source][table.theirs]
    return out


def _rest(fresh: np.ndarray, table: _Table) -> dict[str, str]:
    """{"PATH[rows]": how they begin} of the rows that the source does not have."""
    rest = np.setdiff1d(np.arange(len(fresh)), table.ours)
    if not len(rest):
        return {}
    return {f"{table.target}[{_ranges(rest)}]": describe_values(fresh[rest])}


def _ranges(rows: np.ndarray) -> str:
    """Sorted numbers as "2-15,30"."""
    parts = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    return ",".join(
        str(p[0]) if len(p) == 1 else f"{p[0]}-{p[-1]}" for p in parts if len(p)
    )


def _check_head(weights: BertWeights) -> None:
    """Refuses half a head of masked language modelling, or an output table of its own.

    Raises:
      ConversionError: if the head is not whole, or not tied to the token table.
    """
    missing = [name for name in bert.MLM_PARTS if name not in weights]
    if bert.DECODER_BIAS in weights and bert.MLM_BIAS in missing:
        raise ConversionError(
            [
                f"{weights.original(bert.DECODER_BIAS)} is there, but not the bias "
                "that it is a copy of; save the checkpoint again"
            ]
        )
    if 0 < len(missing) < len(bert.MLM_PARTS):
        raise ConversionError(
            [f"the head of masked language modelling lacks {n}" for n in missing]
        )
    for copy, of in ((bert.DECODER, bert.TOKENS), (bert.DECODER_BIAS, bert.MLM_BIAS)):
        if copy in weights and not np.array_equal(weights[copy], weights[of]):
            raise ConversionError(
                [
                    f"{weights.original(copy)} differs from {weights.original(of)}: "
                    "our output layer is tied to the token table; remove the head "
                    "from the checkpoint to lift the rest"
                ]
            )


def _check_tables(weights: BertWeights, source: EncoderConfig) -> None:
    """Refuses tables that are missing or not as large as the source's config says.

    Raises:
      ConversionError: naming each of them.
    """
    problems = []
    for name, rows in (
        (bert.TOKENS, source.vocab_size),
        (bert.TYPES, source.num_types),
        (bert.POSITIONS, source.num_positions),
    ):
        expected = (rows, source.embed_dim)
        got = weights[name].shape if name in weights else None
        if got != expected:
            what = f"has shape {got}" if got else "is missing"
            problems.append(f"{name} {what}; the source's config says {expected}")
    if bert.MLM_BIAS in weights:
        got = weights[bert.MLM_BIAS].shape
        if got != (source.vocab_size,):
            problems.append(
                f"{weights.original(bert.MLM_BIAS)} has shape {got}; the source's "
                f"config says {(source.vocab_size,)}"
            )
    if problems:
        raise ConversionError(problems)


def _may_begin_anew(target: str) -> list[str]:
    """Regexes of the paths that need no source beside the tables' own rows."""
    escaped = re.escape(target)
    tables = "token|segment|long_position|global_position"
    return [
        rf"{escaped}stack/.*/(long|global)_labels/(embedding|bias)",
        rf"{escaped}embeddings/({tables})_embedder/embedding",
        *([rf"(?!{escaped}).*"] if target else []),  # heads
    ]


def _left_over(weights: BertWeights, tables, *, with_head: bool) -> dict[str, str]:
    """{name: why} of the arrays that may stay unused; others would be an error."""
    used = {table.source for table in tables}
    why = {
        bert.POSITIONS: "absolute positions are dropped",
        bert.TYPES: "token types are dropped",
        bert.POSITION_IDS: "not a weight",
        bert.DECODER: "the same values as the token table",
        bert.DECODER_BIAS: "the same values as the bias over the vocabulary",
    }
    out = {name: why[name] for name in why if name in weights and name not in used}
    for name in weights:
        if name in out or name in used or name.startswith(("embeddings.", "encoder.")):
            continue
        if not name.startswith("mlm."):
            out[name] = "a head that pre-training ETC does not have"
        elif not with_head:
            out[name] = "the model has no head of masked language modelling"
    return out


def _choices(source: EncoderConfig, config: EtcConfig, options) -> Iterator[str]:
    if options == PAPER:
        yield "the lift of the ETC paper (section 3.6, appendix D)"
    for field in ("activation", "layer_norm_epsilon"):
        ours, theirs = getattr(config, field), getattr(source, field)
        same = "as in the source" if ours == theirs else f"the source has {theirs}"
        yield f"{field}: {ours}, {same}"
    yield f"positions: {options.positions}"
    yield f"types: {options.types}"
    for new, old in options.token_rows:
        yield f"token {new} begins with the row of token {old}"
