"""What is wrong with the config of a model: checks that several families share.

Each gives (field, message) for every problem; a config's `problems()` is made of them.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from etc_jax.layers.common import ACTIVATIONS
from etc_jax.ops.attention.parts.checks import IMPLEMENTATIONS, dropout_rate_problem
from etc_jax.ops.attention.parts.lsh_hashing import factors_of

Problems = Iterator[tuple[str, str]]

DTYPES = ("float32", "bfloat16")


def refuse(config: Any) -> None:
    """Raises ValueError, naming everything, if the config has problems."""
    if problems := [f"{field} {message}" for field, message in config.problems()]:
        raise ValueError(f"{type(config).__name__}: " + "; ".join(problems))


def choice_problems(config: Any, choices: Mapping[str, Sequence[str]]) -> Problems:
    """Fields whose value is not one of their choices."""
    for name, allowed in choices.items():
        value = getattr(config, name)
        if value not in allowed:
            near = difflib.get_close_matches(value, allowed, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            yield name, f"is {value!r}; {hint}expected one of {', '.join(allowed)}"


def too_small(
    config: Any, names: Iterable[str], least: int, meaning: str = ""
) -> Problems:
    """Fields below a number; None is left alone.

    Args:
      config: of a model.
      names: of the fields.
      least: that is allowed.
      meaning: of that number, for the message.
    """
    expected = f"{least} ({meaning})" if meaning else f"{least}"
    for name in names:
        value = getattr(config, name)
        if value is not None and value < least:
            yield name, f"is {value}; expected {expected} or more"


def transformer_problems(config: Any) -> Problems:
    """Fields that every transformer here has."""
    for name in ("dropout_rate", "attention_dropout_rate"):
        if problem := dropout_rate_problem(getattr(config, name)):
            yield name, problem
    if not config.layer_norm_epsilon > 0:
        yield (
            "layer_norm_epsilon",
            f"is {config.layer_norm_epsilon}; expected more than 0",
        )
    # 0 stands in configs of models that are trained already.
    if not config.initializer_range >= 0:
        yield "initializer_range", f"is {config.initializer_range}; expected 0 or more"
    choices = {
        "activation": tuple(ACTIVATIONS),
        "attention": IMPLEMENTATIONS,
        "dtype": DTYPES,
    }
    yield from choice_problems(config, choices)
    heads, width = config.num_heads, config.embed_dim
    # No heads at all is a problem that `too_small` names; here it would divide by 0.
    if heads > 0 and not config.head_dim and width % heads:
        yield (
            "num_heads",
            f"{heads} does not divide embed_dim {width}; change one, or set head_dim",
        )


def pattern_problems(config: Any, kinds: Sequence[str]) -> Problems:
    """`pattern`, of some kinds of layers, and the number of layers."""
    if not config.pattern or any(kind not in kinds for kind in config.pattern):
        yield "pattern", f"is {config.pattern}; expected names of {tuple(kinds)}"
    elif config.num_layers % len(config.pattern):
        yield (
            "num_layers",
            f"is {config.num_layers}; expected whole repeats of the "
            f"{len(config.pattern)} layers of pattern",
        )


def window_problems(config: Any) -> Problems:
    """`attention_window`."""
    odd = [w for w in config.attention_window if w < 2 or w % 2]
    if not config.attention_window or odd:
        yield (
            "attention_window",
            f"is {config.attention_window}; expected even numbers, 2 or more, that "
            "count both sides (twice the one-sided numbers of allenai's code)",
        )


def bucket_problems(config: Any) -> Problems:
    """`num_buckets`, of LSH layers."""
    if config.num_buckets is not None:
        try:
            factors_of(config.num_buckets)
        except ValueError as error:
            yield "num_buckets", str(error).removeprefix("num_buckets ")
