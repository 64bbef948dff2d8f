"""A config completed by the model that `checkpoint.init_from` names.

Of that model come the section `model`, the vocabulary and its size, so that a config
need not repeat them:

    etc-jax train --config=pairs:bart --workdir=runs/pairs \\
        --config.checkpoint.init_from=models/my_bart \\
        --config.data.paths="('train.jsonl',)" ...

What changes nothing that was learnt (`model_fields.free`: dropout, dtypes, chunks)
stays as the config says. Other fields are taken from there, unless the command line
gives them. If it does, and no shape shows the field, both must agree; with
--override_model the command line wins. Helper models, as that of
`objective.generator_init_from`, are completed in the same way.
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import os
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from etc_jax.base import registry
from etc_jax.config import flat_items
from etc_jax.config.fields import field_names
from etc_jax.config.kinds import DEFAULT_NAMES
from etc_jax.config.model_fields import is_free, must_agree
from etc_jax.conversion.surgery.extend import targets_of
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.loading import model_source
from etc_jax.training import workdir as workdir_lib
from etc_jax.training.errors import UserError

_LOG = logging.getLogger(__name__)
_FIELD = "_init_from"


class _Start(NamedTuple):
    """A section that is completed.

    Attributes:
      field: of the config, that names the folder.
      folder: of the model.
      section: path of the model in the config.
      family: path of the name of its family.
    """

    field: str
    folder: str
    section: str
    family: str


def completed(
    values: Mapping[str, Any],
    *,
    said: Collection[str] = (),
    override: bool = False,
    workdir: os.PathLike | str | None = None,
) -> dict[str, Any]:
    """The values of a config with those of the models that it starts from.

    Args:
      values: of the sections, as a config file and a command line give them.
      said: dotted paths of those that the command line gives, by name or by a variant
        of the file.
      override: fields that are said may differ from those there.
      workdir: of the run; where it has begun, the models are those of its record, and
        the folders that it started from are needed no more.

    Returns:
      Nested dicts, for `config.from_config_dict`.

    Raises:
      UserError: if there is no model, it is of no use to the config, or a field that is
        said differs there.
    """
    made = copy.deepcopy(dict(values))
    starts = list(_starts(made))
    record = workdir_lib.recorded(workdir) if starts and workdir is not None else {}
    for start in starts:
        if _value(record, start.field) == start.folder:
            _complete(made, _recorded(record, start), start, said, None)
            _set_vocabulary(made, said, record["data"])
            continue
        try:
            _start(made, start, said, override)
        except (ValueError, OSError) as error:
            raise UserError(f"{start.field}: {error}") from error
    return made


def is_needed(values: Mapping[str, Any]) -> bool:
    """Whether a config starts from a model, so that `completed` changes it."""
    return any(_starts(values))


def _starts(values: Mapping[str, Any]) -> Iterator[_Start]:
    if folder := _value(values, "checkpoint.init_from"):
        yield _Start("checkpoint.init_from", folder, "model", "model.family")
    for name, folder in dict(values.get("objective") or {}).items():
        if name.endswith(_FIELD) and folder:
            path = f"objective.{name}"
            section = path.removesuffix(_FIELD)
            yield _Start(path, folder, section, f"{section}_family")


def _value(values: Mapping[str, Any], path: str) -> Any:
    """What stands at a dotted path; None if nothing does."""
    for name in path.split("."):
        if not isinstance(values, Mapping):
            return None
        values = values.get(name)
    return values


def _set(values: dict[str, Any], path: str, value: Any) -> None:
    *sections, name = path.split(".")
    for section in sections:
        values = values[section]
    values[name] = value


def _recorded(record: Mapping[str, Any], start: _Start) -> dict[str, Any]:
    """Family and fields of a model as a run has recorded them."""
    family = _value(record, start.family)
    return {**_value(record, start.section), "family": family}


def _start(
    made: dict[str, Any], start: _Start, said: Collection[str], override: bool
) -> None:
    source = model_source.find(start.folder, named="the folder")
    there, rows = dict(source.section), _value(made, "model.vocab_size")
    _complete(made, there, start, said, override)
    if start.section != "model":
        return
    found, tokenizer = {}, source.tokenizer
    if tokenizer is not None:
        found["tokenizer"] = str(source.place.tokenizer_folder)
    elif _value(made, "data.vocab_size") == rows:
        found["vocab_size"] = there.get("vocab_size")
    _set_vocabulary(made, said, found, tokenizer)
    _LOG.info("the model is that of %s, a %s", source.place.path, there["family"])


def _complete(
    made: dict[str, Any],
    there: Mapping[str, Any],
    start: _Start,
    said: Collection[str],
    override: bool | None,
) -> None:
    """Puts a model's fields into its section.

    Args:
      made: the config's values.
      there: family and fields of the model to start from.
      start: of the section.
      said: see `completed`.
      override: see there; None: nothing is compared.
    """
    section = dict(_value(made, start.section) or {})
    here = {**section, "family": _value(made, start.family)}
    if registry.problem("model_config", here["family"]):
        return  # is told where the config is built
    asked = made.get("checkpoint", {}) if start.section == "model" else {}
    changes = tuple(asked.get("init_from_changes") or ())
    kept = {path.removeprefix(f"{start.section}.") for path in said} & here.keys()
    if start.family in said:
        kept.add("family")
    kept |= set(changes) & here.keys()
    family = here["family"] if "family" in kept else there["family"]
    cls = registry.lookup("model_config", family)
    compared = {"family", *must_agree(cls)} & kept - set(changes)
    different = [
        name
        for name in sorted(compared)
        if name in there and not _same(there[name], here[name])
    ]
    if override:
        asked["init_from_changes"] = (*changes, *different)
    elif different and override is not None:
        raise ValueError(_disagreement(start, there, here, different))
    if family != here["family"]:
        _check_use(start, there["family"], here["family"])
    # A field of a later version than there has its default.
    fields, changed = {}, family != there["family"]
    for name in (field.name for field in dataclasses.fields(cls)):
        stays = name in kept or is_free(cls, name) or (changed and name not in there)
        if stays and name in here:
            fields[name] = here[name]
        elif name in there:
            fields[name] = there[name]
    if start.section == "model":
        made["model"] = {"family": family, **fields}
    else:
        _set(made, start.section, fields)
        _set(made, start.family, family)


def _same(there: Any, here: Any) -> bool:
    return flat_items({"": there}) == flat_items({"": here})


def _disagreement(
    start: _Start,
    there: Mapping[str, Any],
    here: Mapping[str, Any],
    names: Collection[str],
) -> str:
    paths = {n: f"{start.section}.{n}" for n in names} | {"family": start.family}
    lines = [f"{paths[n]}: {there[n]!r} there, {here[n]!r} here" for n in names]
    cure = "" if start.section != "model" else ", or add --override_model"
    return (
        f"the model in {start.folder} is another one than the command line says:\n  "
        + "\n  ".join(lines)
        + f"\nLeave out what says {', '.join(paths[n] for n in names)}{cure}"
    )


def _check_use(start: _Start, there: str, here: str) -> None:
    """Refuses a model that does not read what the config's would.

    Raises:
      ValueError: with the command that makes one of it that does, if there is one.
    """
    given = registry.lookup("model_config", there)
    wanted = registry.lookup("model_config", here)
    if set(given.formats) & set(wanted.formats):
        return
    hint = "name another folder, or a config or variant of that family"
    if here in targets_of(given):
        hint = (
            f"make an {here} of it with `etc-jax convert extend "
            f"--from={start.folder} --to={here} --out=FOLDER`, or {hint}"
        )
    raise ValueError(
        f"{start.folder} is a {there}, which reads {', '.join(given.formats)} inputs, "
        f"but the config is for a {here}, which reads {', '.join(wanted.formats)}; "
        f"{hint}"
    )


def _set_vocabulary(
    made: dict[str, Any],
    said: Collection[str],
    found: Mapping[str, Any],
    tokenizer: Tokenizer | None = None,
) -> None:
    """Puts tokenizer and size of the vocabulary into the section `data`.

    Args:
      made: the config's values.
      said: see `completed`.
      found: `tokenizer`, a path, and `vocab_size` of the model.
      tokenizer: of the model, if it has one.
    """
    data = made.setdefault("data", {})
    source = data.get("source", DEFAULT_NAMES["data"])
    has_one = not registry.problem("source_config", source) and (
        "tokenizer" in field_names(registry.lookup("source_config", source))
    )
    given = data.get("tokenizer") if has_one else None
    if has_one and given is None:
        data["tokenizer"] = found.get("tokenizer")
    if "data.vocab_size" in said:
        return
    if given is not None:
        tokenizer = open_tokenizer(given, lower_case=data.get("lower_case"))
    size = found.get("vocab_size") if tokenizer is None else tokenizer.vocab_size
    if size is not None:
        data["vocab_size"] = size
