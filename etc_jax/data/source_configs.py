"""The config sections of the sources of data."""

# One file: sources share the checks of paths, vocabularies and lengths.

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Literal

from etils import epath

from etc_jax.base import registry, stores
from etc_jax.base.rules import Problem, at_least, number
from etc_jax.config.sections import DataConfig
from etc_jax.data.text import invented
from etc_jax.data.text.cache import HEADER
from etc_jax.data.text.corpus import BuiltInSource
from etc_jax.data.text.prepare import Source
from etc_jax.data.text.reader import Packing
from etc_jax.data.text.sources import read_documents
from etc_jax.data.tokenizers.tokenizer import open_tokenizer


@dataclasses.dataclass(frozen=True)
class MaskedConfig(DataConfig):
    """What is masked, of those sources whose tokens may be.

    Attributes:
      mlm_share: of the tokens that CPC leaves, masked for MLM.
      mlm_capacity: positions for masked tokens; None: from the lengths.
    """

    mlm_share: float = 0.15
    mlm_capacity: int | None = None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from at_least(1).problems(self, "mlm_capacity")
        yield from number(0, 1, "()").problems(self, "mlm_share")


@dataclasses.dataclass(frozen=True)
class TextConfig(MaskedConfig):
    """What all sources of text have.

    Attributes:
      tokenizer: file or folder of a vocabulary; None: that of the caches, for other
        sources one that is trained on them.
      lower_case: for a WordPiece `vocab.txt`; None: as the vocabulary suggests.
      global_tokens: "sentences": one a sentence; "fixed_blocks": one every
        `tokens_per_block` tokens, without CPC.
      tokens_per_block: 97 in the paper's ablation on Natural Questions.
      packing: which documents share a row. "best_fit": those whose lengths fill it, the
        longest first, the same in each epoch; a document that fits into a row is whole.
        "concatenated": documents come in another order in each epoch and are cut where
        a row is full; not for ETC.
      part_per_row: each row of a batch has a part of the text of its own, so that a
        process plans the windows of its rows alone. For one text, too large for the
        memory of a host: half a KB a document.
      min_sentences: documents with fewer are left out (paper, appendix C).
      max_sentence_tokens: longer sentences are cut.
      cpc_share: of the sentences, masked for CPC.
      cpc_long_length, cpc_global_length: room for masked sentences; None: from the
        lengths.
    """

    gives: ClassVar[str] = "text"

    tokenizer: str | None = None
    lower_case: bool | None = None
    global_tokens: Literal["sentences", "fixed_blocks"] = "sentences"
    tokens_per_block: int = 97
    packing: Packing = "best_fit"
    part_per_row: bool = False
    min_sentences: int = 7
    max_sentence_tokens: int = 128
    cpc_share: float = 0.1
    cpc_long_length: int | None = None
    cpc_global_length: int | None = None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from at_least(1).problems(
            self,
            "tokens_per_block",
            "min_sentences",
            "max_sentence_tokens",
            "cpc_long_length",
            "cpc_global_length",
        )
        yield from number(0, 1, "()").problems(self, "cpc_share")

    def problems_of_rows(self, field: str) -> Iterator[Problem]:
        """What does not go with the length of a row, which is the field's."""
        if 1 <= (length := getattr(self, field)) < self.max_sentence_tokens:
            yield (
                "data.max_sentence_tokens",
                f"is {self.max_sentence_tokens}, more than {field} = {length}: such a "
                "sentence fits into no window; lower it",
            )

    def missing(self) -> Iterator[str]:
        yield from _missing_tokenizer(self)

    def invented(self, folder: pathlib.Path) -> "PlainTextConfig":
        common = {x.name for x in dataclasses.fields(TextConfig)} - {"source"}
        values = {name: getattr(self, name) for name in common}
        values["part_per_row"] = False
        # A vocabulary too, unless that of the run is on this machine: of a model that
        # writes its special tokens have to be those of the model.
        remote = self.tokenizer is not None and stores.is_address(self.tokenizer)
        if self.tokenizer is None or remote or any(_missing_tokenizer(self)):
            values |= {"tokenizer": None, "lower_case": None}
            values["vocab_size"] = min(self.vocab_size, invented.WORDS)
        values |= _invented_files(folder, "txt", str)
        return PlainTextConfig(**values, document_per="line")


def _invented_files(
    folder: pathlib.Path, suffix: str, line_fn: Callable[[str], str]
) -> dict[str, tuple[str]]:
    """{field: its one file} of invented texts, a line each, some for validation."""
    texts = invented.documents()
    values = {}
    for field, part in (("paths", texts[10:]), ("validation_paths", texts[:10])):
        file = folder / f"{field}.{suffix}"
        file.write_text("\n".join(map(line_fn, part)))
        values[field] = (str(file),)
    return values


def _missing_tokenizer(config: DataConfig) -> Iterator[str]:
    if config.tokenizer is not None:
        try:
            open_tokenizer(config.tokenizer, lower_case=config.lower_case)
        except (OSError, ValueError) as error:
            yield f"data.tokenizer: {error}"


def _missing_files(
    config: DataConfig, read_fn: Callable[[Sequence[str]], Any]
) -> Iterator[str]:
    for field in ("paths", "validation_paths"):
        for path in getattr(config, field):
            try:
                read_fn([path])
            except (OSError, ValueError) as error:
                yield f"data.{field}: {error}"


@dataclasses.dataclass(frozen=True)
class FreshTextConfig(TextConfig):
    """Text that is tokenised before the run, once.

    Attributes:
      cache_dir: folder of the token cache; None puts it into the workdir.
      export_workers: processes that tokenise; 0: this one.
      export_cluster: in their place the workers of a dask scheduler of this address;
        see `data.cluster`.
      validation_fraction: share of the documents that is for evaluation alone.
    """

    cache_dir: str | None = None
    export_workers: int = 0
    export_cluster: str | None = None
    validation_fraction: float = 0.05

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from at_least(0).problems(self, "export_workers")
        yield from number(0, 1, "()").problems(self, "validation_fraction")

    def documents(self) -> Source:
        """The text to train on, and to hold a share of back."""
        raise NotImplementedError

    def validation_documents(self) -> Source | None:
        """Text for evaluation alone; None: a share is kept for validation."""
        return None


@registry.register("source_config", "builtin")
@dataclasses.dataclass(frozen=True)
class BuiltInConfig(FreshTextConfig):
    """The documentation that comes with Python."""

    source: str = "builtin"

    def documents(self) -> Source:
        return BuiltInSource()


def _check_paths(config: DataConfig) -> Iterator[Problem]:
    if not config.paths:
        yield "paths", f"is empty; name the files or folders of {config.source!r}"


@dataclasses.dataclass(frozen=True)
class TextFilesConfig(FreshTextConfig):
    """Files of text.

    Attributes:
      paths: of files, or globs such as "books/*.jsonl.gz".
      validation_paths: files for evaluation alone; without them a share of the
        documents is kept for validation.
    """

    paths: tuple[str, ...] = ()
    validation_paths: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from _check_paths(self)

    def documents(self) -> Source:
        return self._read(self.paths)

    def validation_documents(self) -> Source | None:
        return self._read(self.validation_paths) if self.validation_paths else None

    def _read(self, paths: Sequence[str]) -> Source:
        raise NotImplementedError

    def missing(self) -> Iterator[str]:
        yield from super().missing()
        yield from _missing_files(self, self._read)


@registry.register("source_config", "text")
@dataclasses.dataclass(frozen=True)
class PlainTextConfig(TextFilesConfig):
    """Files of plain text.

    Attributes:
      document_per: "file" or "line"; what one document is.
    """

    source: str = "text"
    document_per: Literal["file", "line"] = "file"

    def _read(self, paths: Sequence[str]) -> Source:
        return read_documents(paths, format="text", document_border=self.document_per)


@registry.register("source_config", "jsonl")
@dataclasses.dataclass(frozen=True)
class JsonLinesConfig(TextFilesConfig):
    """Files with a JSON object a line, or rows of Parquet, a document each.

    Attributes:
      text_field: the field of an object that holds the text.
    """

    source: str = "jsonl"
    text_field: str = "text"

    def _read(self, paths: Sequence[str]) -> Source:
        return read_documents(paths, format="jsonl", text_field=self.text_field)


def _missing_caches(config: DataConfig, kind: str, remedy: str) -> Iterator[str]:
    for field in ("paths", "validation_paths"):
        for path in getattr(config, field):
            if not (epath.Path(path) / HEADER).exists():
                what = f"no {kind} in {path} ({HEADER} is missing)"
                yield f"data.{field}: {what}; {remedy}"


def _check_validation(config: DataConfig) -> Iterator[Problem]:
    if not config.validation_paths:
        yield "validation_paths", "is empty; name what to evaluate on"


@registry.register("source_config", "cache")
@dataclasses.dataclass(frozen=True)
class TokenCachesConfig(TextConfig):
    """Token caches that were exported before.

    Attributes:
      paths: folders of the caches.
      validation_paths: one cache for evaluation alone.
      weights: how often each cache of `paths` is drawn from; (): by their tokens.
    """

    source: str = "cache"
    paths: tuple[str, ...] = ()
    validation_paths: tuple[str, ...] = ()
    weights: tuple[float, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from _check_paths(self)
        yield from _check_validation(self)
        if self.part_per_row and len(self.paths) > 1:
            yield (
                "part_per_row",
                f"is set, but paths has {len(self.paths)} folders; it is of one text",
            )
        if not self.weights:
            return
        if len(self.weights) != len(self.paths):
            yield (
                "weights",
                f"has {len(self.weights)} values; expected one for each of the "
                f"{len(self.paths)} folders in paths",
            )
        if min(self.weights) <= 0:
            yield "weights", f"is {self.weights}; expected numbers above 0"

    def missing(self) -> Iterator[str]:
        yield from super().missing()
        yield from _missing_caches(self, "token cache", "correct the path")


@registry.register("source_config", "windows")
@dataclasses.dataclass(frozen=True)
class WindowsConfig(DataConfig):
    """Prepared inputs of a data set, by `etc-jax prepare`.

    Attributes:
      paths: folders of window caches.
      validation_paths: caches for evaluation alone.
      format: of the inputs: "structured", "sequence"; None: the first one that the
        model takes.
      validation_files: official files of development data. With them each evaluation
        also answers all of their records and gives the official metrics, as
        "official_joint_f1"; `checkpoint.best_metric` can be one of them.
      flat: without structure above sentences, the ablation of the paper's section 4.2.
      official_quirks: the data was prepared with the flag of that name, and evaluation
        must make its inputs so too.
      input_options: the options of `etc-jax prepare` that shape inputs, where they are
        not those by default, such as ("tokens_per_block=97", "flat=true").
    """

    gives: ClassVar[str] = "windows"
    hint: ClassVar[str] = "and data.paths to folders of `etc-jax prepare`"

    source: str = "windows"
    paths: tuple[str, ...] = ()
    validation_paths: tuple[str, ...] = ()
    format: str | None = None
    validation_files: tuple[str, ...] = ()
    flat: bool = False
    official_quirks: bool = False
    input_options: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from _check_paths(self)
        yield from _check_validation(self)
        names = []
        for text in self.input_options:
            name, sign, _ = text.partition("=")
            names.append(name)
            if not sign:
                yield "input_options", f"has {text!r}; expected NAME=VALUE"
        if len(set(names)) < len(names):
            yield "input_options", f"is {self.input_options}; name each option once"

    def missing(self) -> Iterator[str]:
        remedy = "make it with `etc-jax prepare`"
        yield from _missing_caches(self, "window cache", remedy)


@registry.register("source_config", "pairs")
@dataclasses.dataclass(frozen=True)
class PairsConfig(DataConfig):
    """Pairs of texts: files with a JSON object a line, with `input` and `target`.

    Attributes:
      paths: of files, or globs such as "pairs/*.jsonl.gz".
      validation_paths: files for evaluation alone.
      tokenizer: file or folder of the model's vocabulary.
      lower_case: for a WordPiece `vocab.txt`; None: as the vocabulary suggests.
      begin_token: texts begin with the first token of the vocabulary, such as <s>, as
        those of BART and LED do; T5 has none.
      prefix_length: positions of the pairs' `prefix`, before those of the input; see
        `datasets.pairs.PairOptions`.
      prefix_every: the prefix is repeated at the start of each so many positions; see
        there.
      max_cut_targets: share of the targets that may be longer than `target_length` and
        are cut; of inputs any.
      cache_dir: folder of the texts in tokens; None puts it into the workdir.
      export_workers: processes that tokenise; 0: this one.
      export_cluster: in their place the workers of a dask scheduler of this address;
        see `data.cluster`.
    """

    gives: ClassVar[str] = "pairs"
    hint: ClassVar[str] = "and data.paths to files of JSON lines"

    source: str = "pairs"
    paths: tuple[str, ...] = ()
    validation_paths: tuple[str, ...] = ()
    tokenizer: str | None = None
    lower_case: bool | None = None
    begin_token: bool = False
    prefix_length: int = 0
    prefix_every: int = 0
    max_cut_targets: float = 0.1
    cache_dir: str | None = None
    export_workers: int = 0
    export_cluster: str | None = None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from _check_paths(self)
        yield from _check_validation(self)
        counts = ("export_workers", "prefix_length", "prefix_every")
        yield from at_least(0).problems(self, *counts)
        yield from number(0, 1).problems(self, "max_cut_targets")
        if self.prefix_length >= self.input_length:
            yield (
                "prefix_length",
                f"is {self.prefix_length}, of the {self.input_length} positions of "
                "input_length, which the input needs too; make it less",
            )
        if self.tokenizer is None:
            yield "tokenizer", "is None; name the vocabulary of the model"

    def files(self, field: str) -> list[pathlib.Path]:
        """The files of `paths` or `validation_paths`, in order.

        Raises:
          FileNotFoundError, ValueError: if a pattern matches none.
        """
        return _json_files(getattr(self, field))

    def missing(self) -> Iterator[str]:
        yield from _missing_tokenizer(self)
        yield from _missing_files(self, _json_files)

    def invented(self, folder: pathlib.Path) -> "PairsConfig":
        def pair(text: str) -> str:
            return json.dumps({"input": text, "target": text.split()[0]})

        values = {"cache_dir": None, "export_workers": 0, "export_cluster": None}
        values |= _invented_files(folder, "jsonl", pair)
        return dataclasses.replace(self, **values)


def _json_files(patterns: Sequence[str]) -> list[pathlib.Path]:
    return [file.path for file in read_documents(patterns, format="jsonl").files]


@registry.register("source_config", "bytes")
@dataclasses.dataclass(frozen=True)
class BytesConfig(MaskedConfig):
    """The bytes of any files, split by position.

    Attributes:
      paths: of files, or globs.
      validation_fraction: share of the bytes for validation, and for test, which stands
        after it.
      scored_length: how many bytes of an evaluation's window count, the last ones, so
        that others stand before them; None: all.
    """

    gives: ClassVar[str] = "bytes"

    source: str = "bytes"
    paths: tuple[str, ...] = ()
    validation_fraction: float = 0.05
    scored_length: int | None = None

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from _check_paths(self)
        yield from number(0, 1, "()").problems(self, "validation_fraction")

    def invented(self, folder: pathlib.Path) -> "BytesConfig":
        file = folder / "bytes"
        file.write_bytes(bytes(60 * self.input_length))
        return dataclasses.replace(self, paths=(str(file),))


@registry.register("source_config", "byte_images")
@dataclasses.dataclass(frozen=True)
class ByteImagesConfig(DataConfig):
    """Images as bytes.

    Attributes:
      paths: one `.npy` file of uint8.
      validation_paths: another one for evaluation.
    """

    gives: ClassVar[str] = "images"

    source: str = "byte_images"
    paths: tuple[str, ...] = ()
    validation_paths: tuple[str, ...] = ()

    def problems(self) -> Iterator[Problem]:
        yield from super().problems()
        yield from _check_paths(self)
        for field in ("paths", "validation_paths"):
            if len(getattr(self, field)) != 1:
                yield field, f"is {getattr(self, field)}; expected one .npy file"


@registry.register("source_config", "duplication")
@dataclasses.dataclass(frozen=True)
class DuplicationConfig(DataConfig):
    """Invented sequences 0w0w."""

    gives: ClassVar[str] = "symbols"

    source: str = "duplication"
