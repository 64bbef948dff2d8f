"""Configs that differ in few fields from others."""

import functools
import operator

from etc_jax import config as config_lib


def change(values, changes):
    """Sets fields of a `ConfigDict` or of dicts; changes as `train__num_steps=3`."""
    for path, value in changes.items():
        *sections, field = path.split("__")
        functools.reduce(operator.getitem, sections, values)[field] = value


def changed(values, changes) -> config_lib.Config:
    """The config of some values with changes."""
    change(values, changes)
    return config_lib.from_config_dict(values)
