"""Checks of a config that read fields of several sections.

The config is a `config.Config`, which is built of the sections, and then checked here.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from etc_jax.base.rules import Problem
from etc_jax.config import kinds as config_kinds
from etc_jax.config.sections import LENGTHS, DataConfig
from etc_jax.sharding import DEFAULT_RULES, nearest_multiples

# Tokens of a batch over all devices: 100 times what the largest of models are trained
# with. More is a slip, and would end in memory running out after minutes.
MAX_BATCH_TOKENS = 1 << 28


_LENGTHS = tuple(f"data.{field}" for field in LENGTHS)
_Check = Callable[[Any], Iterator[Problem]]
_CHECKS: list[tuple[tuple[str, ...], _Check]] = []


def _reads(*fields: str) -> Callable[[_Check], _Check]:
    """Decorator of a check, with the paths of the fields that it reads."""

    def add(check: _Check) -> _Check:
        _CHECKS.append((fields, check))
        return check

    return add


@_reads("schedule.warmup_steps", "train.num_steps")
def _warmup_fits(config: Any) -> Iterator[Problem]:
    total = config.train.num_steps
    warmup = config.schedule.warmup(total)
    # Where no step is taken, no learning rate is read.
    if warmup > total and not config.train.only_evaluates:
        yield (
            "schedule.warmup_steps",
            f"is {warmup}, more than train.num_steps = {total}; make it no larger",
        )


def batch_problem(rows: int, *lengths: int | None) -> str | None:
    """Why a batch is too large to be meant; None if it is not.

    Args:
      rows: of the batch, over all devices.
      lengths: tokens of each input of a row.
    """
    tokens = rows * sum(filter(None, lengths))
    if tokens <= MAX_BATCH_TOKENS:
        return None
    return (
        f"is {rows}: a batch of {tokens:,} tokens, {tokens * 4 / 1e9:,.0f} GB for each "
        f"array of them, is more than {MAX_BATCH_TOKENS:,}; lower it"
    )


@_reads("train.batch_size", *_LENGTHS)
def _batch_is_meant(config: Any) -> Iterator[Problem]:
    used = config_kinds.lengths_of(config) or LENGTHS
    lengths = (getattr(config.data, field) for field in used)
    problem = batch_problem(config.train.batch_size, *lengths)
    if problem is not None:
        yield "train.batch_size", problem


@_reads("train.batch_size", "train.accumulation_steps", "mesh.data", "mesh.fsdp")
def _batch_divides(config: Any) -> Iterator[Problem]:
    ways = max(config.mesh.data, 1) * config.mesh.fsdp
    micro = config.train.accumulation_steps
    size = config.train.batch_size
    if ways > 0 and size % (ways * micro):
        steps = " x train.accumulation_steps" if micro > 1 else ""
        yield (
            "train.batch_size",
            f"is {size}, not divisible by {ways * micro} "
            f"(mesh.data x mesh.fsdp{steps}); {nearest_multiples(size, ways * micro)}",
        )


@_reads(*_LENGTHS, "data.cpc_long_length", "mesh.sequence")
def _lengths_divide(config: Any) -> Iterator[Problem]:
    ways = config.mesh.sequence
    used = config_kinds.lengths_of(config) or LENGTHS
    along = (field for field in used if field != "global_length")
    for field in (*along, "cpc_long_length"):
        size = getattr(config.data, field, None)
        if size is not None and ways > 1 and size % ways:
            yield (
                f"data.{field}",
                f"is {size}, not divisible by mesh.sequence = {ways}; "
                f"{nearest_multiples(size, ways)}",
            )


@_reads("schedule.end_value", "optimizer.learning_rate")
def _end_is_below_the_peak(config: Any) -> Iterator[Problem]:
    end, peak = config.schedule.end_value, config.optimizer.learning_rate
    if end > peak:
        yield (
            "schedule.end_value",
            f"is {end}, more than the peak, optimizer.learning_rate = {peak}; make it "
            "no larger",
        )


@_reads("train.profile_start_step", "train.num_steps")
def _profile_comes(config: Any) -> Iterator[Problem]:
    start, total = config.train.profile_start_step, config.train.num_steps
    if start is not None and start >= total:
        yield (
            "train.profile_start_step",
            f"is {start}, but the run ends at train.num_steps = {total}; make it "
            "smaller",
        )


@_reads("checkpoint.every_steps", "checkpoint.keep_best", "train.eval_every_steps")
def _best_are_evaluated(config: Any) -> Iterator[Problem]:
    saves, evaluations = config.checkpoint.every_steps, config.train.eval_every_steps
    if config.checkpoint.keep_best and saves % evaluations:
        yield (
            "checkpoint.every_steps",
            f"is {saves}, not a multiple of train.eval_every_steps = {evaluations}, "
            "but checkpoint.keep_best ranks by an evaluation at the same step; "
            f"{nearest_multiples(saves, evaluations)}",
        )


@_reads("model", "mesh.fsdp", "mesh.tensor")
def _model_divides(config: Any) -> Iterator[Problem]:
    dims = {
        "num_heads": "heads",
        "mlp_dim": "mlp",
        "vocab_size": "vocab",
        "embed_dim": "embed",
    }
    for field, logical in dims.items():
        size = getattr(config.model, field, None)
        axes = DEFAULT_RULES[logical]
        axes = (axes,) if isinstance(axes, str) else axes
        ways = math.prod(getattr(config.mesh, axis) for axis in axes)
        if isinstance(size, int) and ways > 0 and size % ways:
            over = " x ".join(f"mesh.{axis}" for axis in axes)
            yield (
                f"model.{field}",
                f"is {size}; the {logical} dimension of the parameters is split over "
                f"{over} = {ways}, which does not divide it; "
                f"{nearest_multiples(size, ways)}",
            )


@_reads("model.vocab_size", "data.vocab_size", "checkpoint.init_from")
def _vocabulary_fits(config: Any) -> Iterator[Problem]:
    rows = getattr(config.model, "vocab_size", None)
    if config.checkpoint.init_from is not None:
        return  # a model that is there may lack rows: ids of the data are looked at
    if isinstance(rows, int) and rows < config.data.vocab_size:
        yield (
            "model.vocab_size",
            f"is {rows}, less than data.vocab_size = {config.data.vocab_size}; token "
            "ids would point outside the table, so make it at least as large",
        )


@_reads("model.max_positions", "data.long_length", "data.global_length")
def _positions_suffice(config: Any) -> Iterator[Problem]:
    rows = getattr(config.model, "max_positions", 0)
    for field in ("long_length", "global_length"):
        length = getattr(config.data, field)
        if isinstance(rows, int) and 0 < rows < length:
            yield (
                f"data.{field}",
                f"is {length}, but the model has positions for {rows} tokens; lower it "
                f"to {rows}, or raise model.max_positions to {length} (0: none)",
            )


@_reads(*_LENGTHS, "model.max_length")
def _sequence_fits(config: Any) -> Iterator[Problem]:
    model, read = config.model, None
    usual = "max_length", getattr(model, "max_length", None)
    limit, longest = getattr(model, "input_limit", usual)
    if longest is not None:
        read = config_kinds.read_at_once(config)
    if read is not None and read[1] > longest:
        field, length = read
        yield (
            f"data.{field}",
            f"is {length}, more than the {longest} tokens of model.{limit}; lower it, "
            "or raise that",
        )


@_reads("model", *_LENGTHS)
def _model_fits(config: Any) -> Iterator[Problem]:
    # What a family of models asks of the rest, which this module need not know.
    check = getattr(config.model, "problems_with", None)
    if check is not None:
        yield from check(config.objective, config.data)


@_reads("objective.r3f.weight", "train.param_dtype")
def _noise_is_kept(config: Any) -> Iterator[Problem]:
    r3f = getattr(config.objective, "r3f", None)
    if r3f and r3f.weight and config.train.param_dtype == "bfloat16":
        yield (
            "objective.r3f.noise",
            f"is {r3f.noise}, which is lost in a token table of bfloat16; set "
            "train.param_dtype='float32', or objective.r3f.weight=0",
        )


@_reads(*_LENGTHS)
def _lengths_are_used(config: Any) -> Iterator[Problem]:
    used = config_kinds.lengths_of(config)
    for field in LENGTHS if used else ():
        length, usual = getattr(config.data, field), getattr(DataConfig, field)
        if field not in used and length != usual:
            lengths = " and ".join(f"data.{name}" for name in used)
            yield (
                f"data.{field}",
                f"is {length}, but inputs of this run have another length: {lengths}; "
                "set that, and leave this one out",
            )


@_reads("data.source", "objective.name")
def _objective_has_its_data(config: Any) -> Iterator[Problem]:
    name, source = config.objective.name, config.data.source
    reads = config.objective.reads
    if not reads or config.data.gives in reads:
        return
    sources = config_kinds.known_sections("data").items()
    can = [other for other, section in sources if section.gives in reads]
    hints = {section.hint for other, section in sources if other in can}
    hint = "".join(f", {hint}" for hint in sorted(hints) if hint)
    yield (
        "data.source",
        f"is {source!r}, but objective.name={name!r} learns from one of "
        f"{', '.join(can)}; set it to that{hint}",
    )


def cross_problems(config: Any, bad: set[str]) -> Iterator[Problem]:
    """What is wrong between sections.

    Args:
      config: each section of which could be built.
      bad: paths of fields that are in error already; a check that reads one is left
        out.
    """
    for fields, check in _CHECKS:
        if not bad.intersection(fields):
            yield from (p for p in check(config) if p[0] not in bad)
    if not any(path.startswith(("objective.", "data.")) for path in bad):
        yield from config.objective.problems_with(config.data)
