"""How a model of Hugging Face writes texts: generation_config.json, both ways.

The file has options of transformers' `generate` (`GenerationConfig`, version 5). It is
kept as it is, and read as fields of `etc_jax.generation.options.GenerationConfig`. Old
folders have the options in config.json, and are read so where there is no such file.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import pathlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from etc_jax.base.rules import (
    NOTHING,
    Rule,
    choice,
    either,
    flag,
    listed,
    number,
    shown,
    whole,
)
from etc_jax.conversion.config_rules import problems
from etc_jax.conversion.formats.config_file import HF_CONFIG, read_object

FILE = "generation_config.json"
_LOG = logging.getLogger(__name__)
_ANY = 1e300
_ID = whole()
# Tables of suppressed tokens and bad words are as long as a vocabulary at most.
_IDS = listed(_ID, 0, 1_000_000)


def _tuple(value: Any) -> tuple[int, ...]:
    return tuple(value) if isinstance(value, list) else (value,)


class _Key(NamedTuple):
    """An option that is read.

    Attributes:
      rule: what its value may be, if not null.
      field: of `GenerationConfig`; None: see `GenerationFile.fields`.
      read: value -> that of the field.
      write: the inverse.
    """

    rule: Rule
    field: str | None = None
    read: Callable[[Any], Any] = lambda value: value
    write: Callable[[Any], Any] = lambda value: value


def _one_or_many(ids: tuple[int, ...]) -> int | list[int]:
    return ids[0] if len(ids) == 1 else list(ids)


_READ = {
    "max_length": _Key(whole(1)),
    "max_new_tokens": _Key(whole(1), "num_tokens"),
    "min_length": _Key(whole()),
    "min_new_tokens": _Key(whole(), "min_tokens"),
    "num_beams": _Key(whole(1), "num_beams"),
    "length_penalty": _Key(number(-_ANY, _ANY), "length_penalty", float),
    "early_stopping": _Key(
        either(flag(), choice(("never",))),
        "early_stopping",
        lambda value: str(value).lower(),
        lambda value: {"true": True, "false": False}.get(value, value),
    ),
    "no_repeat_ngram_size": _Key(whole(), "no_repeat_ngram"),
    "encoder_no_repeat_ngram_size": _Key(whole(), "encoder_no_repeat_ngram"),
    "repetition_penalty": _Key(number(0, _ANY), "repetition_penalty", float),
    "num_return_sequences": _Key(whole(1), "num_texts"),
    "do_sample": _Key(flag()),
    "temperature": _Key(number(0, _ANY)),
    "top_k": _Key(whole(), "top_k"),
    "top_p": _Key(number(0, 1), "top_p", float),
    "eos_token_id": _Key(either(_ID, _IDS), "eos_ids", _tuple, _one_or_many),
    "forced_bos_token_id": _Key(_ID, "forced_bos_ids", _tuple, _one_or_many),
    "forced_eos_token_id": _Key(
        either(_ID, _IDS), "forced_eos_ids", _tuple, _one_or_many
    ),
    "decoder_start_token_id": _Key(_ID, "start_id"),
    "bos_token_id": _Key(either(_ID, _IDS)),
    "suppress_tokens": _Key(_IDS, "suppress_tokens", _tuple, list),
    "begin_suppress_tokens": _Key(_IDS, "begin_suppress_tokens", _tuple, list),
    "bad_words_ids": _Key(
        listed(listed(_ID), 0, 1_000_000),
        "bad_words",
        lambda words: tuple(map(tuple, words)),
        lambda words: list(map(list, words)),
    ),
}
# Tokens whose absence from the file says that there are none.
_TOKENS = ("eos_token_id", "forced_bos_token_id", "forced_eos_token_id")
# What `generate` of transformers draws from where a file does not say it.
_TOP_K = 50
# Options that are not supported -> the values that change no text.
_LEFT_OUT: dict[str, tuple[Any, ...]] = {
    "encoder_repetition_penalty": (1.0,),
    "sequence_bias": (),
    "exponential_decay_length_penalty": (),
    "guidance_scale": (1.0,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0.0,),
    "constraints": (),
    "force_words_ids": (),
    "penalty_alpha": (0.0,),
    "dola_layers": (),
    "max_time": (),
    "stop_strings": (),
    "token_healing": (False,),
    "watermarking_config": (),
}
_OF_DRAWS: dict[str, tuple[Any, ...]] = {
    "min_p": (0.0,),
    "top_h": (1.0,),
    "typical_p": (1.0,),
    "epsilon_cutoff": (0.0,),
    "eta_cutoff": (0.0,),
}
_OF_BEAMS: dict[str, tuple[Any, ...]] = {"renormalize_logits": (False,)}
# Options that change no text: of speed, memory and what is given back beside it.
_WITHOUT_EFFECT = frozenset(
    "pad_token_id use_cache cache_implementation cache_config max_cache_len use_mtp "
    "return_dict_in_generate output_attentions output_hidden_states output_scores "
    "output_logits remove_invalid_values low_memory is_assistant num_assistant_tokens "
    "num_assistant_tokens_schedule assistant_confidence_threshold speculation_type "
    "prompt_lookup_num_tokens max_matching_ngram_size assistant_early_exit "
    "assistant_lookbehind target_lookbehind assistant_ensemble_weight compile_config "
    "disable_compile continuous_batching_config prefill_chunk_size "
    "transformers_version _from_model_config _commit_hash".split()
)
_OPTIONS = {*_READ, *_LEFT_OUT, *_OF_DRAWS, *_OF_BEAMS, "pad_token_id"}
# Of transformers 3; and options for pipelines, which `generate` does not read.
_FORCE, _FOR_TASKS = "force_bos_token_to_be_generated", "task_specific_params"


@dataclasses.dataclass(frozen=True)
class GenerationFile:
    """The options of a folder.

    Attributes:
      path: of the file that has them.
      values: by the names of transformers.
      whole: what is not there is not: no token ends texts, for example. Of config.json
        such are those of the model's kind.
      unread: keys that no `generate` reads.
    """

    path: pathlib.Path
    values: Mapping[str, Any]
    whole: bool = True
    unread: tuple[str, ...] = ()

    def fields(self, prompt_length: int = 1) -> dict[str, Any]:
        """Fields of `GenerationConfig`, without those that are not said.

        Args:
          prompt_length: tokens that are given, which min_length and max_length count.
        """
        values = {k: x for k, x in self.values.items() if x is not None}
        fields = {
            key.field: key.read(values[name])
            for name, key in _READ.items()
            if key.field and name in values
        }
        for name, field in (("max_length", "num_tokens"), ("min_length", "min_tokens")):
            if name in values and field not in fields:
                fields[field] = max(values[name] - prompt_length, 0)
        if self.whole:
            fields |= {_READ[n].field: () for n in _TOKENS if n not in values}
        if "start_id" not in fields and (ids := _tuple(values.get("bos_token_id", []))):
            if self.whole:
                fields["start_id"] = ids[0]
        if self._draws:
            fields["temperature"] = float(values.get("temperature", 1.0))
            fields.setdefault("top_k", _TOP_K)
            # A text is one draw.
            fields.pop("num_texts", None)
        return fields

    @property
    def _draws(self) -> bool:
        """Whether tokens are drawn, which a beam search does not do here."""
        return bool(self.values.get("do_sample")) and not self._has_beams

    @property
    def _has_beams(self) -> bool:
        return (self.values.get("num_beams") or 1) > 1

    def left_out(self) -> list[str]:
        """`NAME=VALUE` of each option that would change a text and is not supported."""
        neutral = dict(_LEFT_OUT)
        if self.values.get("do_sample"):
            neutral |= _OF_DRAWS
        if self._has_beams:
            neutral |= _OF_BEAMS | {"do_sample": (False,)}
        elif self._draws:
            neutral |= {"num_return_sequences": (1,)}
        left_out = {
            name: self.values[name]
            for name, same in neutral.items()
            if self.values.get(name) is not None and self.values[name] not in same
        }
        supported = _OPTIONS | _WITHOUT_EFFECT | _OF_DRAWS.keys() | _OF_BEAMS.keys()
        left_out |= {k: x for k, x in self.values.items() if k not in supported}
        return [f"{name}={shown(value)}" for name, value in left_out.items()] + [
            *self.unread
        ]


def read(folder: pathlib.Path) -> GenerationFile | None:
    """That of a folder; None if it has no such file.

    Raises:
      ValueError: naming the file and the option, if a value is none.
      OSError: if it cannot be read.
    """
    path = pathlib.Path(folder) / FILE
    if not path.is_file():
        return None
    return _checked(GenerationFile(path, read_object(path)))


def of_config(folder: pathlib.Path) -> GenerationFile:
    """That of the config.json of a folder, as transformers reads it without `FILE`.

    Raises:
      ValueError: see `read`.
      OSError: see `read`.
    """
    path = pathlib.Path(folder) / HF_CONFIG
    config = {k: x for k, x in read_object(path).items() if x is not None}
    values = {k: x for k, x in config.items() if k in _OPTIONS}
    if config.get(_FORCE) is True and "bos_token_id" in values:
        values["forced_bos_token_id"] = values["bos_token_id"]
    unread = (_FOR_TASKS,) if config.get(_FOR_TASKS) else ()
    return _checked(GenerationFile(path, values, False, unread))


def _checked(file: GenerationFile) -> GenerationFile:
    rules = {name: either(key.rule, NOTHING) for name, key in _READ.items()}
    wrong = [*problems(file.values, rules), *_problems(file.values)]
    if wrong:
        raise ValueError(f"{file.path}: {'; '.join(wrong)}")
    return file


def _problems(values: Mapping[str, Any]) -> Iterator[str]:
    """Of options that are each allowed."""
    for name in ("eos_token_id", "forced_eos_token_id"):
        if values.get(name) == []:
            yield f"{name} is []; expected an id, a list of some, or null"


def log_left_out(file: GenerationFile) -> None:
    """One warning of the options that are not supported, if there are any."""
    if left_out := file.left_out():
        _LOG.warning(
            "%s: left out, as no text is written by it: %s",
            file.path,
            ", ".join(left_out),
        )


def values_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `GenerationFile.fields`, by the names of transformers.

    Args:
      fields: of `GenerationConfig`, without those that are not said. Left out: the
        dialect of scores, which transformers does not choose.
    """
    values = {
        name: key.write(fields[key.field])
        for name, key in _READ.items()
        if key.field in fields and fields[key.field] != ()
    }
    if fields.get("temperature"):
        values |= {"do_sample": True, "temperature": fields["temperature"]}
        values.setdefault("top_k", 0)
    return values


def files_of(values: Mapping[str, Any]) -> dict[str, bytes]:
    """{name: content} of what is saved with a model; {} without options."""
    return {FILE: f"{json.dumps(values, indent=2)}\n".encode()} if values else {}
