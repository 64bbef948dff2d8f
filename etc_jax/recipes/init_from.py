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
    explicit: Collection[str] = (),
    override: bool = False,
    workdir: os.PathLike | str | None = None,
) -> dict[str, Any]:
    """The values of a config with those of the models that it starts from.

    Args:
      values: of the sections, as a config file and a command line give them.
      explicit: dotted paths of those that the command line sets, by name or by a
        variant of the file.
      override: fields that are set explicitly may differ from those of the model.
      workdir: of the run; where it has begun, the models are those of its record, and
        the folders that it started from are needed no more.

    Returns:
      Nested dicts, for `config.from_config_dict`.

    Raises:
      UserError: if there is no model, it is of no use to the config, or a field that is
        set explicitly differs there.
    """
    config = copy.deepcopy(dict(values))
    starts = list(_starts(config))
    record = workdir_lib.recorded(workdir) if starts and workdir is not None else {}
    for start in starts:
        if _value(record, start.field) == start.folder:
            _complete(config, _recorded(record, start), start, explicit, None)
            _set_vocabulary(config, explicit, record["data"])
            continue
        try:
            _start(config, start, explicit, override)
        except (ValueError, OSError) as error:
            raise UserError(f"{start.field}: {error}") from error
    return config


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
    config: dict[str, Any], start: _Start, explicit: Collection[str], override: bool
) -> None:
    model = model_source.find(start.folder, named="the folder")
    source, rows = dict(model.section), _value(config, "model.vocab_size")
    _complete(config, source, start, explicit, override)
    if start.section != "model":
        return
    vocabulary, tokenizer = {}, model.tokenizer
    if tokenizer is not None:
        vocabulary["tokenizer"] = str(model.place.tokenizer_folder)
    elif _value(config, "data.vocab_size") == rows:
        vocabulary["vocab_size"] = source.get("vocab_size")
    _set_vocabulary(config, explicit, vocabulary, tokenizer)
    _LOG.info("the model is that of %s, a %s", model.place.path, source["family"])


def _complete(
    config: dict[str, Any],
    source: Mapping[str, Any],
    start: _Start,
    explicit: Collection[str],
    override: bool | None,
) -> None:
    """Puts a model's fields into its section.

    Args:
      config: its values, which are changed.
      source: family and fields of the model to start from.
      start: of the section.
      explicit: see `completed`.
      override: see there; None: nothing is compared.
    """
    section = dict(_value(config, start.section) or {})
    target = {**section, "family": _value(config, start.family)}
    if registry.problem("model_config", target["family"]):
        return  # is told where the config is built
    asked = config.get("checkpoint", {}) if start.section == "model" else {}
    changes = tuple(asked.get("init_from_changes") or ())
    paths = {path.removeprefix(f"{start.section}.") for path in explicit}
    if start.family in explicit:
        paths.add("family")
    fixed = (paths | set(changes)) & target.keys()
    family = target["family"] if "family" in fixed else source["family"]
    cls = registry.lookup("model_config", family)
    compared = {"family", *must_agree(cls)} & fixed - set(changes)
    different = [
        name
        for name in sorted(compared)
        if name in source and not _same(source[name], target[name])
    ]
    if override:
        asked["init_from_changes"] = (*changes, *different)
    elif different and override is not None:
        raise ValueError(_disagreement(start, source, target, different))
    if family != target["family"]:
        _check_use(start, source["family"], target["family"])
    converted = family != source["family"]
    fields = _merged(cls, source, target, fixed, converted=converted)
    if start.section == "model":
        config["model"] = {"family": family, **fields}
    else:
        _set(config, start.section, fields)
        _set(config, start.family, family)


def _merged(
    cls: type,
    source: Mapping[str, Any],
    target: Mapping[str, Any],
    fixed: Collection[str],
    *,
    converted: bool,
) -> dict[str, Any]:
    """The fields of a model: those of the source, but for what the target has fixed.

    A field that neither has, such as one of a later version, has its default. Where the
    model is converted to another family, the source lacks some.
    """
    fields = {}
    for name in field_names(cls):
        stays = name in fixed or is_free(cls, name)
        stays = stays or (converted and name not in source)
        if stays and name in target:
            fields[name] = target[name]
        elif name in source:
            fields[name] = source[name]
    return fields


def _same(source: Any, target: Any) -> bool:
    return flat_items({"": source}) == flat_items({"": target})


def _disagreement(
    start: _Start,
    source: Mapping[str, Any],
    target: Mapping[str, Any],
    names: Collection[str],
) -> str:
    paths = {n: f"{start.section}.{n}" for n in names} | {"family": start.family}
    lines = [f"{paths[n]}: {source[n]!r} there, {target[n]!r} here" for n in names]
    cure = "" if start.section != "model" else ", or add --override_model"
    return (
        f"the model in {start.folder} is another one than the command line says:\n  "
        + "\n  ".join(lines)
        + f"\nLeave out what says {', '.join(paths[n] for n in names)}{cure}"
    )


def _check_use(start: _Start, source: str, target: str) -> None:
    """Refuses a model that does not read what the config's would.

    Raises:
      ValueError: with the command that makes one of it that does, if there is one.
    """
    source_config = registry.lookup("model_config", source)
    target_config = registry.lookup("model_config", target)
    if set(source_config.formats) & set(target_config.formats):
        return
    hint = "name another folder, or a config or variant of that family"
    if target in targets_of(source_config):
        hint = (
            f"make an {target} of it with `etc-jax convert extend "
            f"--from={start.folder} --to={target} --out=FOLDER`, or {hint}"
        )
    raise ValueError(
        f"{start.folder} is a {source}, which reads {', '.join(source_config.formats)} "
        f"inputs, but the config is for a {target}, which reads "
        f"{', '.join(target_config.formats)}; {hint}"
    )


def _set_vocabulary(
    config: dict[str, Any],
    explicit: Collection[str],
    vocabulary: Mapping[str, Any],
    tokenizer: Tokenizer | None = None,
) -> None:
    """Puts tokenizer and size of the vocabulary into the section `data`.

    Args:
      config: its values, which are changed.
      explicit: see `completed`.
      vocabulary: `tokenizer`, a path, and `vocab_size` of the model.
      tokenizer: of the model, if it has one.
    """
    data = config.setdefault("data", {})
    source = data.get("source", DEFAULT_NAMES["data"])
    has_one = not registry.problem("source_config", source) and (
        "tokenizer" in field_names(registry.lookup("source_config", source))
    )
    path = data.get("tokenizer") if has_one else None
    if has_one and path is None:
        data["tokenizer"] = vocabulary.get("tokenizer")
    if "data.vocab_size" in explicit:
        return
    if path is not None:
        tokenizer = open_tokenizer(path, lower_case=data.get("lower_case"))
    size = vocabulary.get("vocab_size") if tokenizer is None else tokenizer.vocab_size
    if size is not None:
        data["vocab_size"] = size
