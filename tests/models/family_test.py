"""What holds for the records of all families."""

import dataclasses
import typing

import pytest

from etc_jax.base import registry

NOBODY = "nobody"


def named_fields(cls):
    """Fields whose values are names, or tuples of names; the kind of positions too."""
    types = typing.get_type_hints(cls)
    names = [f.name for f in dataclasses.fields(cls)]
    fields = {n: NOBODY for n in names if types[n] in (str, str | None)}
    fields |= {n: (NOBODY,) for n in names if types[n] == tuple[str, ...]}
    return fields | ({"positions": NOBODY} if hasattr(cls, "positions") else {})


# Other tests register toys.
FAMILIES = {
    name: cls
    for name in registry.names("model_config")
    if (cls := registry.lookup("model_config", name)).__module__.startswith("etc_jax.")
}
CASES = [
    pytest.param(cls, field, value, id=f"{name}-{field}")
    for name, cls in FAMILIES.items()
    for field, value in named_fields(cls).items()
]


@pytest.mark.parametrize("cls, field, value", CASES)
def test_a_name_that_nobody_handles_is_one_error(cls, field, value):
    if field in (f.name for f in dataclasses.fields(cls)):
        config = dataclasses.replace(cls(), **{field: value})
    else:
        # What the family gives no choice of, a family made of it may.
        config = type("Own", (cls,), {field: value})()
    messages = [message for name, message in config.problems() if name == field]
    assert len(messages) == 1 and NOBODY in messages[0] and "expected" in messages[0]


def test_fields_that_are_names_are_found():
    got = {name: list(named_fields(cls)) for name, cls in FAMILIES.items()}
    general = {"activation", "attention", "dtype", "remat_policy"}
    assert all(general - {"remat_policy"} <= set(fields) for fields in got.values())
    assert {"pattern", "random_blocks", "positions"} <= set(got["big_bird"])
    assert "encoder_attention" in got["long_t5"] and "pattern" in got["reformer"]
