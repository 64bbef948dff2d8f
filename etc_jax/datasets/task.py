"""A data set: records, official files, score, and how models of each kind read it."""

from __future__ import annotations

import dataclasses
import functools
import json
import os
import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from etc_jax.base import registry
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.data.windows.window import InputSizes, Window
from etc_jax.datasets import json_lines
from etc_jax.datasets.explained import Explained
from etc_jax.datasets.options import InputOptions, parsed
from etc_jax.datasets.records import BadRecordError, Note, Problems
from etc_jax.datasets.upper_bound import Loss, UpperBound, nothing_lost
from etc_jax.scoring.classification import Confusion
from etc_jax.scoring.result import Scores

# The prediction for a record, a JSON value whose form depends on the task.
Prediction = Any
# What of it one window gives: a JSON value, small whatever the window.
Decoded = Any
# What decoding can be set to: a threshold, or None where there is nothing to choose.
Setting = float | None
FeaturesFn = Callable[..., list[Window]]
# Name of the official prediction file, where it is one JSON value.
PREDICTIONS = "predictions.json"


def only(of_windows: Sequence[Any]) -> Any:
    """What the one window of a record gives.

    Raises:
      ValueError: if there is not just one.
    """
    [decoded] = of_windows
    return decoded


def no_companions(path: str | os.PathLike) -> Sequence[str]:
    """`DataSet.companions` where each file is read by itself: no file."""
    del path
    return ()


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DataSet:
    """Records, official files and score; nothing of models.

    Registered by `register`; in a package of one's own, its name is the path of the
    module.

    Attributes:
      name: under which it is registered.
      read: (paths, problems) -> records of official files; see `records.read_records`.
      parse: (JSON value, note) -> one record.
      release: path -> (number from 1, what `parse` takes, or a BadRecordError) of each
        record of an official file, None if it is not one; None: official files are
        JSON arrays or lines of what `parse` takes.
      companions: path -> further files that are read where this one is given.
      metric: the official one that a setting is chosen by; higher is better.
      no_answer: the prediction for a record that fits into no window.
      official: {record id: prediction} -> what the official prediction file holds: a
        JSON value, or a list of such if it has one a line; of several files, {file
        name: JSON value}, that of `PREDICTIONS` first.
      lines: whether the official prediction file has a JSON value a line.
      in_input_layout: (path of a file, content of the official file) -> the lines of
        that file with the predictions in it; None: there is no such form.
      several: whether `official` gives several files.
      gold: record -> what `score` wants of it; None if it has no gold answer.
      score: (gold of records, content of the official file) -> official metrics.
      unread_gold: id -> what `score` wants of a record that could not be read, so that
        no answer to it is right, or, where metrics are of all records together and
        nothing is known of it, so that it adds nothing; None: metrics are means over
        records, to which such a record adds 0.
      right_share: (gold of a record, the official metrics of it alone) -> how right
        its answer is, from 0 to 1; None if one record alone has no share; by
        default `metric` is.
      together: whether what `official` gives for a record depends on the others, as
        ranks among all passages do; it is by record id then.
      confusion: (gold of records, content of the official file) -> how often each label
        was given for each gold one; None: records have no single label.
      thresholds: (gold of records, content of the official file) -> the scores from
        which on an answer counts, by name, where the official metrics choose them; None
        if they choose none.
      agreed: record -> the record with a gold answer that the score counts, where it
        asks for more annotators than some files have.
      converters: by format, how models of each kind read it. The first one is taken
        where no model decides.
      absent: why there is none, by format.
    """

    name: str
    read: Callable[[Sequence[str | os.PathLike], Problems | None], Iterator[Any]]
    parse: Callable[[Any, Note], Any]
    release: Callable[[str], Iterator[tuple[int, Any]] | None] | None = None
    companions: Callable[[str | os.PathLike], Sequence[str | os.PathLike]] = (
        no_companions
    )
    metric: str
    no_answer: Prediction
    official: Callable[[Mapping[str, Prediction]], Any]
    lines: bool = False
    in_input_layout: Callable[[str | os.PathLike, Any], Iterator[str]] | None = None
    several: bool = False
    gold: Callable[[Any], dict[str, Any] | None]
    score: Callable[[Sequence[Mapping[str, Any]], Any], Scores]
    unread_gold: Callable[[str], dict[str, Any]] | None = None
    right_share: Callable[[Any, Mapping[str, float]], float | None] | None = None
    together: bool = False
    confusion: Callable[[Sequence[Mapping[str, Any]], Any], Confusion] | None = None
    thresholds: Callable[[Sequence[Any], Any], dict[str, float]] | None = None
    agreed: Callable[[Any], Any] | None = None
    converters: Mapping[str, FeatureConverter]
    absent: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def in_format(self, format: str | None = None) -> Task:
        """The data set as models of one kind read it; None: in its first format.

        Raises:
          ValueError: naming the formats there are.
        """
        format = format or next(iter(self.converters))
        if format not in self.converters:
            why = f" ({self.absent[format]})" if format in self.absent else ""
            raise ValueError(
                f"{self.name} has no inputs in format {format!r}{why}; there are: "
                f"{', '.join(self.converters)}"
            )
        parts = ((DataSet, self), (FeatureConverter, self.converters[format]))
        fields = {
            field.name: getattr(part, field.name)
            for cls, part in parts
            for field in dataclasses.fields(cls)
        }
        # Options may replace fields, such as the names of classes.
        fields |= fields["options"].task_fields()
        return Task(**fields, format=format)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class FeatureConverter:
    """How models of one kind read a data set: records as inputs, outputs as answers.

    Outputs are those of the learner, as numpy arrays with a row for each window.
    Windows of a record may lie in several batches, so that the
    prediction for a record is put together from what each gives.

    Attributes:
      learner: what learns it: head and loss, registered as "learner" under this name
        and the format; see `etc_jax.objectives.learners.finetuning`.
      classes: names of the classes, where the learner chooses among some; () where
        options name them (`InputOptions.task_fields`).
      tokens: that inputs have and a vocabulary must have grown by; see
        `etc-jax convert grow`.
      sizes: lengths of the paper's inputs.
      features: (record, tokenizer, sizes, official_quirks=False) -> its windows, one or
        more.
      options: how inputs are made; `features` has been given them, or takes them by
        default.
      drawn_by: names of those that choose windows to train on and shape none.
      settings: of decoding, to be tried where there are gold answers.
      setting: the one to take where there are none.
      decode: (outputs, windows, settings) -> for each window what each setting makes
        of it.
      explain: (outputs, windows, setting) -> for each window what of it a reader wants
        to see.
      pool: the results of a setting for all windows of a record, in order -> its
        prediction.
      pool_explained: the same of what `explain` makes -> what a reader is shown.
      gold_outputs: windows -> outputs of a model that is sure of every label.
      why_lost: (windows of a record, the prediction that its gold outputs become) ->
        why that is not the gold answer; by default it always is.
      record_length: (record, tokenizer) -> tokens of a record if nothing of it is cut
        off, special tokens included.
    """

    learner: str
    classes: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    sizes: InputSizes
    features: FeaturesFn
    options: InputOptions = InputOptions()
    drawn_by: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = (None,)
    setting: Setting = None
    decode: Callable[[Any, Sequence[Window], Sequence[Setting]], list[list[Decoded]]]
    explain: Callable[[Any, Sequence[Window], Setting], list[Any]]
    pool: Callable[[Sequence[Decoded]], Prediction] = only
    pool_explained: Callable[[Sequence[Any]], Explained] = only
    gold_outputs: Callable[[Sequence[Window]], Any]
    why_lost: Callable[[Sequence[Window], Prediction], Iterator[str]] = nothing_lost
    record_length: Callable[[Any, Tokenizer], int]


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Task(DataSet, FeatureConverter):
    """A data set in one of its formats; see `DataSet.in_format`.

    Attributes:
      format: its name.
    """

    format: str

    @property
    def prediction_file(self) -> str:
        """Name of the official prediction file."""
        return "predictions.jsonl" if self.lines else PREDICTIONS

    def official_files(self, content: Any) -> dict[str, str]:
        """{name: text} of that file and of others, of what `official` gave."""
        if self.lines:
            return {self.prediction_file: json_lines.text_of(content)}
        files = content if self.several else {self.prediction_file: content}
        return {name: json.dumps(value) for name, value in files.items()}

    def write(
        self, predictions: Mapping[str, Prediction], path: str | os.PathLike
    ) -> None:
        """Writes the official prediction file, of predictions by record id."""
        text = self.official_files(self.official(predictions))[self.prediction_file]
        pathlib.Path(path).write_text(text, encoding="utf-8")

    def predictions(self, decoded: Sequence[Sequence[Decoded]]) -> list[Prediction]:
        """A record's prediction of each setting.

        Args:
          decoded: of each of its windows, one or more, in order; see `decode`.
        """
        return [self.pool(of_setting) for of_setting in zip(*decoded, strict=True)]

    def answers(
        self, outputs: Any, windows: Sequence[Window], setting: Setting = None
    ) -> dict[str, Prediction]:
        """The prediction of each record, by its id.

        Args:
          outputs: of the windows, in order; see `FeatureConverter`.
          windows: all of each record, in order.
          setting: of decoding; None: the one of the data set.

        Raises:
          ValueError: if the outputs are not of these windows.
        """
        setting = self.setting if setting is None else setting
        of_record: dict[str, list[Decoded]] = {}
        for window, [decoded] in zip(
            windows, self.decode(outputs, windows, (setting,)), strict=True
        ):
            # A record may have several windows, which are neighbours.
            of_record.setdefault(window.record.id, []).append(decoded)
        return {name: self.pool(decoded) for name, decoded in of_record.items()}

    def upper_bound(
        self,
        paths: Sequence[str | os.PathLike],
        tokenizer: Tokenizer,
        sizes: InputSizes | None = None,
    ) -> UpperBound:
        """What the best possible model would score on files of the data set.

        Each record goes through features and decoding with its gold labels as outputs.

        Args:
          paths: of files of the official release.
          tokenizer: as for the inputs.
          sizes: of an input; None: those of the paper.

        Raises:
          ValueError: if there is no record, or one has no gold answer.
          OSError: if a file cannot be read.
        """
        task = self.completed(paths)
        problems, losses, gold = Problems(), [], []
        predictions: dict[str, Prediction] = {}
        for record in task.read(paths, problems):
            record = record if task.agreed is None else task.agreed(record)
            if (of_record := task.gold(record)) is None:
                raise ValueError(
                    f"{record.id!r} has no gold answer; give files of training or "
                    "development data"
                )
            gold.append(of_record)
            try:
                windows = task.features(record, tokenizer, sizes or task.sizes)
            except BadRecordError as e:
                losses.append(Loss(record.id, str(e)))
                predictions[record.id] = task.no_answer
                continue
            [prediction] = task.answers(task.gold_outputs(windows), windows).values()
            predictions[record.id] = prediction
            reasons = task.why_lost(windows, prediction)
            losses += [Loss(record.id, why) for why in reasons]
        scores = task.score(gold, task.official(predictions))
        return UpperBound(scores, tuple(losses), problems)

    def record_lengths(
        self,
        paths: Sequence[str | os.PathLike],
        tokenizer: Tokenizer,
        problems: Problems,
    ) -> Iterator[int]:
        """Tokens of each record of some files if nothing of it is cut off.

        Args:
          paths: of files of the official release.
          tokenizer: as for the inputs.
          problems: where what cannot be read is counted.

        Raises:
          OSError: if a file cannot be read.
        """
        for record in self.read(paths, problems):
            try:
                yield self.record_length(record, tokenizer)
            except BadRecordError as e:
                problems.add(e.at(repr(record.id)))

    def checked_setting(self, setting: float) -> Setting:
        """A setting that a user has chosen, if decoding takes it.

        Raises:
          ValueError: if it is no probability, or there is nothing to choose.
        """
        if self.setting is None:
            raise ValueError(f"threshold {setting} is given, but {self.name} has none")
        if not 0 <= setting <= 1:
            raise ValueError(f"threshold is {setting}; expected 0 to 1")
        return setting

    def all_read(self, paths: Sequence[str | os.PathLike]) -> list[str | os.PathLike]:
        """Some files and those that are read beside them, each once."""
        every = (file for path in paths for file in (path, *self.companions(path)))
        return list({os.fspath(file): file for file in every}.values())

    @property
    def option_values(self) -> dict[str, Any]:
        """The options by name, as JSON takes them; {} if there are none."""
        return dataclasses.asdict(self.options)

    @property
    def changed_options(self) -> dict[str, Any]:
        """The options that are not those by default."""
        usual = dataclasses.asdict(type(self.options)())
        return {k: x for k, x in self.option_values.items() if x != usual[k]}

    def shaping(self, sizes: InputSizes) -> dict[str, Any]:
        """What makes windows those that they are; see `InputOptions.shaping`."""
        shaping = self.options.shaping(sizes)
        return {k: x for k, x in shaping.items() if k not in self.drawn_by}

    def with_options(self, values: Mapping[str, Any]) -> Task:
        """The same with some options changed.

        Raises:
          ValueError: if there is no such option, or it does not take the value.
        """
        if foreign := sorted(values.keys() - self.option_values.keys()):
            option_names = ", ".join(self.option_values) or "none at all"
            raise ValueError(
                f"{self.name} has no option {', '.join(foreign)}; there are: "
                f"{option_names}"
            )
        if not values:
            return self
        options = dataclasses.replace(self.options, **values)
        bound = {
            name: functools.partial(getattr(self, name), options=options)
            for name in options.given_to
        }
        fields = {**bound, **options.task_fields()}
        return dataclasses.replace(self, options=options, **fields)

    def completed(self, paths: Sequence[str | os.PathLike]) -> Task:
        """The same with options that files to learn from say, such as their classes.

        Raises:
          ValueError, OSError: as for `InputOptions.completed`.
        """
        return self.with_options(dataclasses.asdict(self.options.completed(paths)))

    def with_texts(self, texts: Sequence[str]) -> Task:
        """The same with options as a config has them, such as "stride=256".

        Raises:
          ValueError: if there is no such option, or it does not take the value.
        """
        return self.with_options(parsed(self.options, texts))


# --- templates ------------------------------------------------------------------------


def register(data_set: DataSet) -> DataSet:
    """Files a data set under its name, for commands and configs to find it."""
    return registry.register("data_set", data_set.name)(data_set)


def in_formats(
    formats: Mapping[str, ModuleType | Mapping[str, Any]], **common: Any
) -> dict[str, FeatureConverter]:
    """`DataSet.converters` that have most of their fields in common.

    Args:
      formats: by name, the fields of a converter that are its own, or the module that
        makes its inputs: it has `features`, `record_length`, `SIZES`, and may have
        `OPTIONS` and `TOKENS`.
      **common: the other fields.
    """
    return {
        name: FeatureConverter(**{**common, **_fields_of(differing)})
        for name, differing in formats.items()
    }


def _fields_of(module: ModuleType | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(module, ModuleType):
        return module
    names = ("features", "record_length", "SIZES", "OPTIONS", "TOKENS")
    return {x.lower(): vars(module)[x] for x in names if x in vars(module)}


def without_quirks(what: str) -> Callable[[FeaturesFn], FeaturesFn]:
    """Decorates `FeatureConverter.features` where there is no official code to follow.

    What it makes takes `official_quirks` too, and raises ValueError if they are asked
    for.

    Args:
      what: the inputs are of.
    """

    def decorate(features: FeaturesFn) -> FeaturesFn:
        @functools.wraps(features)
        def checked(*args: Any, official_quirks: bool = False, **kwargs: Any):
            if official_quirks:
                raise ValueError(
                    f"{what} has no official inputs to follow: leave official_quirks "
                    "out"
                )
            return features(*args, **kwargs)

        return checked

    return decorate


# --- names ----------------------------------------------------------------------------


def find(name: str) -> DataSet:
    """The data set that is registered under a name.

    Raises:
      ValueError: naming those there are, or if the data set has another name.
    """
    try:
        data_set = registry.lookup("data_set", name)
    except KeyError as error:
        raise ValueError(error.args[0]) from error
    if data_set.name != name:  # caches and configs would disagree
        raise ValueError(
            f"the data set that is registered as {name!r} has the name "
            f"{data_set.name!r}; make them equal"
        )
    return data_set


def find_task(name: str, format: str | None = None) -> Task:
    """The data set of a name in one format; None: in its first one.

    Raises:
      ValueError: as for `find` and `DataSet.in_format`.
    """
    return find(name).in_format(format)


def named_task(name: str, format: str | None = None) -> Task:
    """Like `find_task`, of a name that the user has typed: its module is imported.

    Raises:
      ValueError: as for `find_task`.
      registry.PluginError: if the module cannot be imported.
    """
    registry.import_named(name)
    return find_task(name, format)


def names() -> list[str]:
    """The data sets of this project, and others that are imported."""
    return list(registry.names("data_set"))
