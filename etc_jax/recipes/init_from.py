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
from etc_jax.data.tokenizers.tokenizer import Tokenizer, open_tokenizer
from etc_jax.loading import model_source
from etc_jax.models.extension import targets_of
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
      explicit: dotted paths of those that the command line gives, by name or by a
        variant of the file.
      override: fields that are explicit may differ from those there.
      workdir: of the run; where it has begun, the models are those of its record, and
        the folders that it started from are needed no more.

    Returns:
      Nested dicts, for `config.from_config_dict`.

    Raises:
      UserError: if there is no model, it is of no use to the config, or a field that is
        explicit differs there.
    """
    target = copy.deepcopy(dict(values))
    starts = list(_starts(target))
    record = workdir_lib.recorded(workdir) if starts and workdir is not None else {}
    for start in starts:
        if _value(record, start.field) == start.folder:
            _complete(target, _recorded(record, start), start, explicit, None)
            _set_vocabulary(target, explicit, record["data"])
            continue
        try:
            _start(target, start, explicit, override)
        except (ValueError, OSError) as error:
            raise UserError(f"{start.field}: {error}") from error
    return target


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
    target: dict[str, Any], start: _Start, explicit: Collection[str], override: bool
) -> None:
    source = model_source.find(start.folder, named="the folder")
    fields, rows = dict(source.section), _value(target, "model.vocab_size")
    _complete(target, fields, start, explicit, override)
    if start.section != "model":
        return
    vocabulary, tokenizer = {}, source.tokenizer
    if tokenizer is not None:
        vocabulary["tokenizer"] = str(source.place.tokenizer_folder)
    elif _value(target, "data.vocab_size") == rows:
        vocabulary["vocab_size"] = fields.get("vocab_size")
    _set_vocabulary(target, explicit, vocabulary, tokenizer)
    _LOG.info("the model is that of %s, a %s", source.place.path, fields["family"])


def _complete(
    target: dict[str, Any],
    source: Mapping[str, Any],
    start: _Start,
    explicit: Collection[str],
    override: bool | None,
) -> None:
    """Puts a model's fields into its section.

    Args:
      target: the config's values.
      source: family and fields of the model to start from.
      start: of the section.
      explicit: see `completed`.
      override: see there; None: nothing is compared.
    """
    section = dict(_value(target, start.section) or {})
    section["family"] = _value(target, start.family)
    if registry.problem("model_config", section["family"]):
        return  # is told where the config is built
    checkpoint = target.get("checkpoint", {}) if start.section == "model" else {}
    changes = tuple(checkpoint.get("init_from_changes") or ())
    stays = {
        path.removeprefix(f"{start.section}.") for path in explicit
    } & section.keys()
    stays |= ({"family"} if start.family in explicit else set()) | {*changes} & {
        *section
    }
    family = (section if "family" in stays else source)["family"]
    cls = registry.lookup("model_config", family)
    compared = {"family", *must_agree(cls)} & stays & source.keys() - {*changes}
    different = [x for x in sorted(compared) if not _same(source[x], section[x])]
    if override:
        checkpoint["init_from_changes"] = (*changes, *different)
    elif different and override is not None:
        raise ValueError(_disagreement(start, source, section, different))
    if family != section["family"]:
        _check_use(start, source["family"], section["family"])
    fields = _fields(cls, source, section, stays, family != source["family"])
    if start.section == "model":
        target["model"] = {"family": family, **fields}
    else:
        _set(target, start.section, fields)
        _set(target, start.family, family)


def _fields(
    cls: type,
    source: Mapping[str, Any],
    section: Mapping[str, Any],
    stays: Collection[str],
    changed: bool,
) -> dict[str, Any]:
    """The fields of a model: of its source, or as the config's section has them.

    Args:
      cls: config of the model.
      source: fields of the model to start from.
      section: of the config.
      stays: names that the section decides.
      changed: whether the source is of another family.
    """
    fields = {}
    # A field of a later version than the source has its default.
    for name in field_names(cls):
        of_section = name in stays or is_free(cls, name)
        if name in section and (of_section or (changed and name not in source)):
            fields[name] = section[name]
        elif name in source:
            fields[name] = source[name]
    return fields


def _same(a: Any, b: Any) -> bool:
    return flat_items({"": a}) == flat_items({"": b})


def _disagreement(
    start: _Start,
    source: Mapping[str, Any],
    section: Mapping[str, Any],
    names: Collection[str],
) -> str:
    paths = {n: f"{start.section}.{n}" for n in names} | {"family": start.family}
    lines = [f"{paths[n]}: {source[n]!r} there, {section[n]!r} here" for n in names]
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
    source_cls = registry.lookup("model_config", source)
    target_cls = registry.lookup("model_config", target)
    if set(source_cls.formats) & set(target_cls.formats):
        return
    hint = "name another folder, or a config or variant of that family"
    if target in targets_of(source_cls):
        hint = (
            f"make an {target} of it with `etc-jax extend "
            f"--from={start.folder} --to={target} --out=FOLDER`, or {hint}"
        )
    raise ValueError(
        f"{start.folder} is a {source}, which reads {', '.join(source_cls.formats)} "
        f"inputs, but the config is for a {target}, which reads "
        f"{', '.join(target_cls.formats)}; {hint}"
    )


def _set_vocabulary(
    target: dict[str, Any],
    explicit: Collection[str],
    vocabulary: Mapping[str, Any],
    tokenizer: Tokenizer | None = None,
) -> None:
    """Puts tokenizer and size of the vocabulary into the section `data`.

    Args:
      target: the config's values.
      explicit: see `completed`.
      vocabulary: `tokenizer`, a path, and `vocab_size` of the model.
      tokenizer: of the model, if it has one.
    """
    data = target.setdefault("data", {})
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
