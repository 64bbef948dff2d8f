"""What each family can: read off its record, its config and the patterns of its layers.

The tables of docs/models.md are `table(ATTENTION)` and `table(USES)`.
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from etc_jax import sharding
from etc_jax.base import registry
from etc_jax.conversion import exchange
from etc_jax.layers.self_attention import Pattern
from etc_jax.models.family import Family, find


class Answer(NamedTuple):
    """Whether a family can.

    Attributes:
      can: it can.
      words: what the table says after "yes" or "no"; empty: nothing more.
    """

    can: bool
    words: str = ""

    def __str__(self) -> str:
        yes = "yes" if self.can else "no"
        return f"{yes}: {self.words}" if self.words else yes


class Ability(NamedTuple):
    """One column of a table.

    Attributes:
      of: (record, config) -> the answer.
      choices: fields that are set so where the config of a paper cannot.
    """

    of: Callable[[Family, Any], Answer]
    choices: Mapping[str, Any] = MappingProxyType({})


def patterns_of(config: Any) -> tuple[Pattern, ...]:
    """What tokens see in all layers; of an encoder-decoder those of its encoder."""
    top = getattr(getattr(config, "encoder_side", None), "top_pattern", None)
    return config.patterns if top is None else (*config.patterns, top)


def _unless(problems: Iterable[str | None]) -> Answer:
    """No, by the first problem; otherwise yes."""
    words = next(filter(None, problems), "")
    return Answer(not words, words)


def _causal(family: Family, config: Any) -> Answer:
    if family.seq2seq is not None:
        return Answer(True, "its decoder")
    return Answer(getattr(config, "causal", False))


def _global_tokens(family: Family, config: Any) -> Answer:
    if "structured" in config.formats:
        return Answer(True, "an input of their own")
    if config.has_globals:
        return Answer(True, "where the input says")
    return Answer(getattr(config, "num_globals", 0) > 0)


def _relative_bias(family: Family, config: Any) -> Answer:
    positions = getattr(config, "positions", None)
    return Answer(positions == "relative" or getattr(config, "max_distance", 0) > 0)


def _packed(family: Family, config: Any) -> Answer:
    return _unless(pattern.packing_problem for pattern in patterns_of(config))


def _sequence(family: Family, config: Any) -> Answer:
    return _unless(
        f"{type(pattern).__name__} does not work on a split sequence"
        for pattern in patterns_of(config)
        if not pattern.splits_sequence
    )


def _tensor(family: Family, config: Any) -> Answer:
    maps = [name for pattern in patterns_of(config) for name in pattern.projections]
    axes = (sharding.axes_for(f"attention/{name}/kernel", 3) for name in maps)
    return Answer(all("heads" in of_map for of_map in axes))


def _kernels(family: Family, config: Any) -> Answer:
    return _unless(
        f"of the pattern {type(pattern).__name__} {pattern.kernel_problem}"
        for pattern in patterns_of(config)
        if pattern.kernel_problem
    )


def _generates(family: Family, config: Any) -> Answer:
    return Answer(family.decoder is not None and _causal(family, config).can)


def _encodes(family: Family, config: Any) -> Answer:
    return Answer(family.text_encoder is not None)


def _weights_in(family: Family, config: Any) -> Answer:
    if exchange.find(config) is None:
        return Answer(False, "no counterpart in transformers")
    read = {
        name: registry.lookup(exchange.KIND, name).config_from({"model_type": name})
        for name in registry.names(exchange.KIND)
    }
    names = (f"`{name}`" for name, x in read.items() if type(x) is type(config))
    return Answer(True, ", ".join(names))


def _weights_out(family: Family, config: Any) -> Answer:
    if exchange.find(config) is None:
        return Answer(False, "no counterpart in transformers")
    return Answer(True, f"`{exchange.model_type_of(config)}`")


def _extended(family: Family, config: Any) -> Answer:
    if family.extension is None:
        return Answer(False)
    names = (registry.name_of("model_config", x) for x in family.extension.sources)
    return Answer(True, "of " + ", ".join(names))


# What tokens see, and where it can be computed; of an encoder-decoder, in its encoder.
ATTENTION = {
    "causal": Ability(_causal, {"causal": True}),
    "global tokens": Ability(_global_tokens, {"num_globals": 1}),
    "relative bias": Ability(_relative_bias, {"causal": True, "positions": "relative"}),
    "packed": Ability(_packed),
    "sequence axis": Ability(_sequence),
    "tensor axis": Ability(_tensor),
    "kernels": Ability(_kernels),
}
# What the model is used for, and where its weights come from and go.
USES = {
    "generate": Ability(_generates, {"causal": True}),
    "encode": Ability(_encodes),
    "weights in": Ability(_weights_in),
    "weights out": Ability(_weights_out),
    "extension": Ability(_extended),
}


def ask(family: str, title: str, config: Any = None) -> Answer:
    """Whether models of a family can do something.

    Args:
      family: its name.
      title: of the ability.
      config: of the model; None: what the family is without choices.

    Raises:
      KeyError: if there is no such family or ability.
    """
    record = find(family)
    config = record.config() if config is None else config
    return (ATTENTION | USES)[title].of(record, config)


def _with_choices(family: str, title: str, ability: Ability) -> Answer:
    """Of a family: by the choices of its config where it cannot without."""
    answer, config = ask(family, title), find(family).config()
    fields = {field.name for field in dataclasses.fields(config)}
    if answer.can or not ability.choices or not ability.choices.keys() <= fields:
        return answer
    config = dataclasses.replace(config, **ability.choices)
    if list(config.problems()) or not ask(family, title, config).can:
        return answer
    words = ", ".join(f"{name}={value!r}" for name, value in ability.choices.items())
    return Answer(True, f"`{words}`")


def table(abilities: Mapping[str, Ability]) -> str:
    """Families by what they can, in Markdown."""
    rows = [["family", *abilities], ["---"] * (1 + len(abilities))]
    for name in registry.names("family"):
        answers = (_with_choices(name, *pair) for pair in abilities.items())
        rows.append([f"`{name}`", *map(str, answers)])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
