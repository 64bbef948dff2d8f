"""The card of a saved model, README.md in the form of the Hub of Hugging Face.

A card says what is known, and nothing else: family and sizes, what the model was made
of, the training, evaluations and official scores of its run, the licence of what it was
made of, and how to load it. `native.save` leaves a card alone that the user has
changed.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from etc_jax.base import extras
from etc_jax.base.stores import is_address
from etc_jax.base.terminal import printable
from etc_jax.base.user_cache import as_given
from etc_jax.config import Config
from etc_jax.config.kinds import is_objective, learner_of, lengths_of
from etc_jax.conversion import exchange
from etc_jax.conversion.engine import flatten
from etc_jax.conversion.formats import license_files, native
from etc_jax.conversion.formats.license_files import License
from etc_jax.datasets.of_config import task_of
from etc_jax.loading import model_source, run_results
from etc_jax.loading.model_source import ModelSource
from etc_jax.loading.run_results import RunResults
from etc_jax.models.abilities import patterns_of

# Fields of configs, as tables call them.
_SIZES = {
    "num_layers": "layers",
    "num_decoder_layers": "layers of the decoder",
    "embed_dim": "width",
    "num_heads": "heads",
    "mlp_dim": "width of the feed-forward blocks",
    "vocab_size": "vocabulary",
}
# Those of a pattern of attention.
_PATTERN_SIZES = {
    "radius": "{} tokens to each side",
    "dilation": "dilation {}",
    "block_size": "blocks of {}",
    "size": "blocks of {}",
    "chunk_length": "chunks of {}",
    "num_hashes": "{} rounds of hashing",
}
# The end of the name of a class of transformers -> task on the Hub.
_HUB_TASKS = {
    "ForMaskedLM": "fill-mask",
    "ForPreTraining": "fill-mask",
    "ModelWithLMHead": "text-generation",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMultipleChoice": "multiple-choice",
}
_NOT_TEXT = ("images", "symbols")
# Before the names of metrics of `data.validation_files`.
_OFFICIAL = "official_"
_TEMPLATE = """\
---
{head}
---
<!-- Written by etc-jax, and anew with the model. A copy that was changed stays. -->

# {name}

{sizes}

## What it was made of

{origin}
{training}
## Licence

{license}

## How to load it

{loading}
"""


@dataclasses.dataclass(frozen=True)
class Origin:
    """What a model was made of.

    Attributes:
      name: of the folder, file or repository, as the user gave it; None: of a model in
        memory.
      by: the command, or the function, that made it.
      source: the model of that name; None: files of another program.
      is_source: whether the parameters are those of the source, and what is on record
        of its run holds for them.
      in_memory: whether the parameters were an object of Python in between.
    """

    name: str | None
    by: str
    source: ModelSource | None = None
    is_source: bool = False
    in_memory: bool = False

    @property
    def run(self) -> Config | None:
        """The config of the run that has trained the parameters."""
        return self.source.run if self.is_source and self.source else None

    @functools.cached_property
    def results(self) -> RunResults:
        """What is on record of the parameters.

        Raises:
          ValueError, RunError: if it is damaged.
        """
        return RunResults() if self.run is None else run_results.read(self.source)

    @property
    def repository(self) -> str | None:
        """The source's name on the Hub; None of a folder here or in a store."""
        if self.source is None or self.name is None or is_address(self.name):
            return None
        is_local = pathlib.Path(self.name).expanduser().exists()
        return None if is_local or self.in_memory else self.name

    def folders(self) -> Iterator[pathlib.Path]:
        """Where its licence may be stated, the nearest first."""
        if self.source is not None:
            yield self.source.place.root
            if (saved := self.source.saved) is not None:
                yield pathlib.Path(saved.run)
            if self.source.run is not None:
                yield from _begun_with(self.source.run)
        elif self.name is not None:
            path = pathlib.Path(self.name).expanduser()
            yield path if path.is_dir() else path.parent


def _begun_with(run: Config) -> Iterator[pathlib.Path]:
    """The folder whose parameters a run began with, if it is still there."""
    if (name := run.checkpoint.init_from) is not None:
        try:
            yield model_source.find(name).place.root
        except ValueError:
            return  # the card says that no licence was found


def files_of(
    folder: str | os.PathLike,
    params: Mapping[str, Any],
    config: Any,
    origin: Origin,
    *,
    for_transformers: bool = False,
) -> dict[str, bytes]:
    """{name: content} of the card of a model that is being saved.

    Args:
      folder: that the model is written to; its name is that of the model.
      params: nested dict of arrays.
      config: of the model.
      origin: what it was made of.
      for_transformers: whether the folder is one of Hugging Face.

    Raises:
      ValueError, RunError: if what is on record of the model's run is damaged.
    """
    name = pathlib.Path(os.path.abspath(folder)).name
    model = _Model(name, params, config, origin, for_transformers)
    training = _training(origin.run, origin.results) if origin.run else ()
    text = _TEMPLATE.format(
        head=_head(model),
        name=" ".join(printable(name).split()),
        sizes="\n".join(_table(_sizes(params, config))),
        origin=_origin(origin),
        training="\n".join(training),
        license=_license(model.license),
        loading="\n\nor\n\n".join(_loading(model)),
    )
    text = as_given(text)
    return {native.CARD: text.encode("utf-8", "backslashreplace")}


@dataclasses.dataclass(frozen=True)
class _Model:
    """A model and what is known of it; see `files_of`."""

    name: str
    params: Mapping[str, Any]
    config: Any
    origin: Origin
    for_transformers: bool

    @functools.cached_property
    def license(self) -> License | None:
        """Of what it was made of; None: none is stated there."""
        licenses = (license_files.read(folder) for folder in self.origin.folders())
        return next(filter(None, licenses), None)

    @functools.cached_property
    def class_name(self) -> str | None:
        """The class of transformers that reads it; None if there is none."""
        if (family := exchange.find(self.config)) is None:
            return None
        try:
            [name] = family.values_to(self.params, self.config)["architectures"]
        except ValueError:  # a config that transformers does not have
            return None
        return name

    @property
    def hub_task(self) -> str | None:
        """What the Hub calls its task; None if the Hub has no word for it."""
        if (run := self.origin.run) is not None:
            if run.data.gives in _NOT_TEXT:
                return None
            if is_objective(run.objective.name):
                return run.objective.hub_task
            return learner_of(task_of(run), type(run.model)).hub_task
        name = self.class_name or ""
        return next((x for end, x in _HUB_TASKS.items() if name.endswith(end)), None)


# --- the head -------------------------------------------------------------------------


def _head(model: _Model) -> str:
    """YAML, as the Hub reads it.

    The Hub takes the names of `datasets` for repositories of its own, which no run
    names: data stands in the results and in the text.
    """
    from huggingface_hub import ModelCardData

    license, results = model.license, _eval_results(model)
    card = ModelCardData(
        library_name="transformers" if model.for_transformers else "etc_jax",
        license=license and license.id,
        license_name=license and license.name,
        base_model=model.origin.repository,
        tags=["etc_jax", native.family_of(model.config)],
        pipeline_tag=model.hub_task,
        # The name of what the results are of.
        model_name=model.name if results else None,
        eval_results=results or None,
    )
    return card.to_yaml().rstrip()


def _eval_results(model: _Model) -> list[Any]:
    """Official scores, and the evaluation at the step of the model itself."""
    from huggingface_hub import EvalResult

    if (run := model.origin.run) is None:
        return []
    results, tables = model.origin.results, []
    for scores in results.scores.values():
        tables.append((scores["task"], _names(scores["files"]), scores["metrics"]))
    if results.last is not None and results.last["step"] == results.step:
        tables += _validation(run, results.last)
    return [
        EvalResult(
            task_type=model.hub_task or run.objective.name,
            dataset_type=kind,
            dataset_name=data,
            metric_type=metric,
            metric_value=value,
        )
        for kind, data, metrics in tables
        for metric, value in metrics.items()
    ]


def _validation(
    run: Config, evaluation: Mapping[str, float]
) -> Iterator[tuple[str, str, dict[str, float]]]:
    """(kind of data, its name, metrics) of the data that an evaluation was of."""
    paths = getattr(run.data, "validation_paths", ())
    is_training = paths and paths == getattr(run.data, "paths", ())
    name = _names(paths) or "a share of the data"
    files = _names(getattr(run.data, "validation_files", ()))
    others = {x: y for x, y in evaluation.items() if not x.startswith(_OFFICIAL)}
    others.pop("step")
    yield (
        run.data.source,
        f"{'training' if is_training else 'validation'}: {name}",
        others,
    )
    official = {x: y for x, y in evaluation.items() if x.startswith(_OFFICIAL)}
    yield run.objective.name, f"validation: {files}", official


# --- the text -------------------------------------------------------------------------


def _sizes(params: Mapping[str, Any], config: Any) -> Iterator[tuple[Any, ...]]:
    yield "family", _code(native.family_of(config))
    yield "parameters", f"{sum(x.size for x in flatten(params).values()):,}"
    for field, label in _SIZES.items():
        if (size := getattr(config, field, None)) is not None:
            yield label, f"{size:,}"
    patterns = dict.fromkeys(map(_pattern, patterns_of(config)))
    yield "attention", "; ".join(patterns)
    limit = getattr(config, "input_limit", None)
    longest = limit[1] if limit else getattr(config, "max_positions", None)
    yield "longest input", f"{longest:,} tokens" if longest else "of any length"


def _pattern(pattern: Any) -> str:
    """What a token sees in a layer, with the numbers that say how much."""
    values: dict[str, Any] = {}
    todo = [dataclasses.asdict(pattern)]
    for fields in todo:
        values |= fields
        todo += [x for x in fields.values() if isinstance(x, dict)]
    shown = [
        template.format(values[name])
        for name, template in _PATTERN_SIZES.items()
        if values.get(name) is not None and (name, values[name]) != ("dilation", 1)
    ]
    kind = _code(type(pattern).__name__)
    return f"{kind} ({', '.join(shown)})" if shown else kind


def _origin(origin: Origin) -> str:
    name = "A model in memory" if origin.name is None else _code(origin.name)
    command = printable(origin.by).replace("\n", "\n    ")
    version = extras.version("etc_jax") or "(not installed)"
    text = f"{name}, by etc_jax {version}:\n\n    {command}"
    if origin.name is not None and origin.in_memory:
        text += "\n\nWhat was changed in memory in between is not recorded."
    return text


def _training(run: Config, results: RunResults) -> Iterator[str]:
    yield "\n## Training\n"
    yield from _table(_settings(run, results))
    if results.last is not None:
        yield "\n### Evaluations of the run\n"
        yield from _evaluations(run, results)
    if results.scores:
        yield "\n### Official scores\n"
        rows = [
            (_code(scores["task"]), _code(_names(scores["files"])), metric, _number(x))
            for scores in results.scores.values()
            for metric, x in scores["metrics"].items()
        ]
        yield from _table(rows, ("data set", "files", "metric", "value"))
    yield ""


def _settings(run: Config, results: RunResults) -> Iterator[tuple[Any, ...]]:
    data, train, optimizer = run.data, run.train, run.optimizer
    yield "objective", _code(run.objective.name)
    yield "source of data", _code(data.source)
    for label, paths in (
        ("training data", getattr(data, "paths", ())),
        ("validation data", _validation_paths(run)),
    ):
        if paths:
            yield label, _code(_names(paths))
    if lengths := [f"{x} {getattr(data, x):,}" for x in lengths_of(run)]:
        yield "lengths (tokens)", ", ".join(lengths).replace("_", " ")
    if run.checkpoint.init_from is not None:
        yield "began with", _code(_names([run.checkpoint.init_from]))
    done = "" if results.step is None else f"{results.step:,} of "
    yield "steps", f"{done}{train.num_steps:,}"
    yield "examples a step", f"{train.batch_size:,}"
    rate = f"learning rate {optimizer.learning_rate:g}"
    schedule = f"{run.schedule.name} schedule"
    yield "optimizer", f"{_code(optimizer.name)}, {rate}, {schedule}"
    yield "computed / stored in", f"{run.model.dtype} / {train.param_dtype}"
    yield "seed", train.seed


def _evaluations(run: Config, results: RunResults) -> Iterator[str]:
    rule = f"{run.checkpoint.best_is} {run.checkpoint.best_metric}"
    columns = {f"best ({rule})": results.best, "last": results.last}
    columns = {label: x for label, x in columns.items() if x is not None}
    names = dict.fromkeys(name for x in columns.values() for name in x)
    rows = [
        (name, *(_number(x[name]) if name in x else "" for x in columns.values()))
        for name in ("step", *(x for x in names if x != "step"))
    ]
    return _table(rows, ("", *columns))


def _license(license: License | None) -> str:
    if license is None:
        return (
            "No licence was found with what the model was made of. Add that of the "
            "weights and the data, as `license:` in the head of this file, before you "
            "publish the model."
        )
    name = license.id if license.name is None else f"{license.id}, {license.name}"
    file = pathlib.PurePath(license.path.parent.name, license.path.name)
    return (
        f"{_code(name)}, as {_code(str(file))} states it of what the model was made of."
    )


def _loading(model: _Model) -> Iterator[str]:
    """A block of code for each library that reads the model."""
    path = repr(printable(model.name)).replace("`", r"\x60")
    yield _block(f"import etc_jax\n\nmodel = etc_jax.load({path})  # this folder")
    name = model.class_name if model.for_transformers else None
    if name is not None:
        load = f"transformers.{name}.from_pretrained({path})"
        yield _block(f"import transformers\n\nmodel = {load}")
        if name.endswith("Model") and model.config.has_globals:
            # Other classes of a Longformer make tokens global by themselves.
            yield (
                "to which `global_attention_mask` is given, 1 at the first token and 0 "
                "at the others: so it was learnt. sentence-transformers does not give "
                "it, and its vectors differ."
            )


def _block(code: str) -> str:
    return f"```python\n{code}\n```"


def _table(
    rows: Iterable[tuple[Any, ...]], header: tuple[str, ...] = ("", "")
) -> Iterator[str]:
    """Lines of a table of Markdown."""
    for row in (header, ("---",) * len(header), *rows):
        yield f"| {' | '.join(str(x).replace('|', chr(92) + '|') for x in row)} |"


def _code(text: str) -> str:
    """A text of any origin as Markdown shows it, in one line."""
    text = " ".join(printable(text).replace("`", "'").split())
    return f"`{text}`"


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}"


def _names(paths: Iterable[str | os.PathLike]) -> str:
    """The last two parts of paths: the folders above are those of one machine."""
    parts = ([x for x in pathlib.PurePath(path).parts if x != os.sep] for path in paths)
    return ", ".join("/".join(x[-2:]) for x in parts)


def _validation_paths(run: Config) -> tuple[str, ...]:
    data = run.data
    files = getattr(data, "validation_files", ())
    return (*getattr(data, "validation_paths", ()), *files)
