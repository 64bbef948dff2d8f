"""What is wrong with the config of a model: checks that several families share.

Each gives (field, message) for every problem; a config's `problems()` is made of them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from etc_jax.base import rules
from etc_jax.layers.common import ACTIVATIONS
from etc_jax.ops.attention.parts.checks import IMPLEMENTATIONS, dropout_rate_problem
from etc_jax.ops.attention.parts.lsh_hashing import factors_of

Problems = Iterator[rules.Problem]

DTYPES = ("float32", "bfloat16")


def refuse(config: Any) -> None:
    """Raises ValueError, naming everything, if the config has problems."""
    rules.refuse(config.problems(), type(config).__name__)


def transformer_problems(config: Any) -> Problems:
    """Fields that every transformer here has."""
    for name in ("dropout_rate", "attention_dropout_rate"):
        if problem := dropout_rate_problem(getattr(config, name)):
            yield name, problem
    yield from rules.more_than(0).problems(config, "layer_norm_epsilon")
    # 0 stands in configs of models that are trained already.
    yield from rules.at_least(0).problems(config, "initializer_range")
    yield from rules.choice(ACTIVATIONS).problems(config, "activation")
    yield from rules.choice(IMPLEMENTATIONS).problems(config, "attention")
    yield from rules.choice(DTYPES).problems(config, "dtype")
    heads, width = config.num_heads, config.embed_dim
    # No heads at all is a problem that is named elsewhere; here it would divide by 0.
    if heads > 0 and not config.head_dim and width % heads:
        yield (
            "num_heads",
            f"{heads} does not divide embed_dim {width}; change one, or set head_dim",
        )


def pattern_problems(config: Any, kinds: Sequence[str]) -> Problems:
    """`pattern`, of some kinds of layers."""
    if not config.pattern or any(kind not in kinds for kind in config.pattern):
        yield "pattern", f"is {config.pattern}; expected names of {tuple(kinds)}"


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
