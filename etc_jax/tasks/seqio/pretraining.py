"""seqio Tasks and Mixtures of pre-training text (MLM and CPC need whole documents).

    tokenizer = open_tokenizer("bert_base_uncased")
    register_tfds(tokenizer, data_dir="gs://tfds-data/datasets")
    register_files("notes", {"train": "notes/*.jsonl.gz"}, tokenizer)
    register_mixture({"wikipedia": 0.6, "pg19": 0.3, "notes": 0.1})

Nothing is registered by importing this file: a Task needs a tokenizer. What to do with
the names is in `streaming.py` (documents), `batches.py` (batches on the fly) and
`export.py` (token caches).
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from etc_jax.data.mixture import Mixture
from etc_jax.data.text.sources import read_documents
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.datasets import paragraphs
from etc_jax.tasks.seqio.documents import (
    DocumentFiles,
    add_document_task,
    check_free,
    tokenizer_of,
)
from etc_jax.tasks.seqio.tensorflow import seqio, tf

MIXTURE = "etc_pretraining"


@dataclasses.dataclass(frozen=True)
class TfdsText:
    """Documents in a data set of TFDS.

    Attributes:
      name: data set, config and version, as TFDS writes them.
      feature: the one that holds the text.
      paragraphs_fn: text -> paragraphs.
      splits: our names -> splits or slices of TFDS; None: as they are there.
    """

    name: str
    feature: str
    paragraphs_fn: Callable[[str], tuple[str, ...]]
    splits: Mapping[str, str] | None = None


TFDS: Mapping[str, TfdsText] = MappingProxyType(
    {
        # It has a training split alone; a hundredth of it is kept for validation.
        "wikipedia": TfdsText(
            "wikipedia/20230601.en:1.0.0",
            "text",
            paragraphs.by_lines,
            {"train": "train[1%:]", "validation": "train[:1%]"},
        ),
        "pg19": TfdsText("pg19:0.1.1", "book_text", paragraphs.by_blank_lines),
        "c4": TfdsText("c4/en:3.1.0", "text", paragraphs.by_lines),
        "wiki40b": TfdsText("wiki40b/en:1.3.0", "text", paragraphs.by_wiki40b_markers),
    }
)


def register_tfds(
    tokenizer: Tokenizer,
    *,
    data_dir: str | os.PathLike | None = None,
    names: Sequence[str] = tuple(TFDS),
    data_sets: Mapping[str, TfdsText] = TFDS,
) -> None:
    """Registers Tasks of TFDS data sets; their data is looked up on first use.

    Nothing is downloaded: prepare a data set with `tfds build`, or read it from a
    bucket that holds it prepared.

    Args:
      tokenizer: the vocabulary.
      data_dir: folder or bucket of prepared data sets; None: TFDS's own default.
      names: which of `data_sets`.
      data_sets: Task name -> data set; to have another language, config or version.

    Raises:
      ValueError: if a name is unknown, or taken in seqio's registry.
    """
    for name in names:
        if name not in data_sets:
            raise ValueError(
                f"no TFDS data set {name!r} here, there are {sorted(data_sets)}"
            )
        data = data_sets[name]
        source = seqio.TfdsDataSource(
            data.name,
            tfds_data_dir=None if data_dir is None else os.fspath(data_dir),
            splits=None if data.splits is None else dict(data.splits),
            read_only=True,
        )
        add_document_task(
            name,
            source,
            tokenizer,
            text_feature=data.feature,
            paragraphs_fn=data.paragraphs_fn,
        )


def register_files(
    name: str,
    files: Mapping[str, str | os.PathLike | Sequence[str | os.PathLike]],
    tokenizer: Tokenizer,
    *,
    format: str = "auto",
    text_field: str = "text",
    document_border: str = "file",
) -> None:
    """Registers a Task of text or JSONL files, plain or gzip.

    Paragraphs, encodings and errors are those of `sources.read_documents`.

    Args:
      name: of the Task.
      files: split -> paths or globs.
      tokenizer: the vocabulary.
      format: "text", "jsonl", or "auto": by the ending.
      text_field: of a JSONL row.
      document_border: of text files: a document is a "file" or a "line".

    Raises:
      FileNotFoundError: if a pattern matches no file.
      ValueError: if an option is wrong or the name is taken.
    """
    if not files:
        raise ValueError(f"Task {name!r} needs files of at least one split, got none")
    options = {
        "format": format,
        "text_field": text_field,
        "document_border": document_border,
    }
    sources = {k: read_documents(v, **options) for k, v in files.items()}
    add_document_task(
        name,
        DocumentFiles(sources, **options),
        tokenizer,
        text_feature="text",
        paragraphs_fn=paragraphs.by_lines,  # a line is a paragraph: so they are read
    )


def register_mixture(rates: Mapping[str, float], *, name: str = MIXTURE) -> None:
    """Registers a Mixture of Tasks, in place of an earlier one of that name.

    Tasks are those of documents, or those of `denoising.py`. Rates of the first are
    shares of documents, and documents differ: a book of PG-19 is as long as a hundred
    articles. The exported caches are mixed by windows of equal length instead
    (`etc_jax.data.mixture`), and so are the Tasks of `denoising.py`.

    Args:
      rates: registered Task -> weight; only ratios count.
      name: of the Mixture.

    Raises:
      ValueError: if a Task is not registered, a rate is not a positive number, the
        Tasks have different tokenizers, or the name is that of a Task.
    """
    Mixture(list(rates.values()), seed=0)  # checks the rates
    for task in rates:
        if task not in seqio.TaskRegistry.names():
            raise ValueError(
                f"Mixture {name!r} names a Task {task!r} that is not registered, there "
                f"are {sorted(seqio.TaskRegistry.names())}; register it first"
            )
    tokenizers = {
        task: tokenizer_of(seqio.TaskRegistry.get(task)).fingerprint() for task in rates
    }
    if len(set(tokenizers.values())) > 1:
        listed = ", ".join(
            f"{task} {print_[:12]}" for task, print_ in tokenizers.items()
        )
        raise ValueError(
            f"the Tasks of Mixture {name!r} have different tokenizers ({listed}); "
            "register them with the same one"
        )
    check_free(name, seqio.TaskRegistry)
    if name in seqio.MixtureRegistry.names():
        for task in seqio.MixtureRegistry.get(name).tasks:
            tokenizer_of(task)
        seqio.MixtureRegistry.remove(name)
    seqio.MixtureRegistry.add(
        name,
        [(task, float(rate)) for task, rate in rates.items()],
        sample_fn=apportion,
    )


def apportion(
    datasets: Sequence[tf.data.Dataset], rates: Sequence[float], seed: int | None
) -> tf.data.Dataset:
    """Mixes data sets in the order of `etc_jax.data.mixture`; a `sample_fn` of seqio.

    In place of independent draws: rates are exact to one document a block, and the
    mixture of streams has the order of a mixture of caches.

    Args:
      datasets: with equal elements; the first that ends ends the mixture.
      rates: of each.
      seed: of the order inside blocks; None: another one each time.
    """
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    mixture = Mixture(rates, seed=int(seed))

    def sources(block: np.ndarray) -> np.ndarray:
        return mixture.block(int(block)).sources

    def choices(block: tf.Tensor) -> tf.Tensor:
        # Stateless, so that iterators can be saved.
        drawn = tf.numpy_function(sources, [block], tf.int64, stateful=False)
        return tf.ensure_shape(drawn, [mixture.block_size])

    return tf.data.Dataset.choose_from_datasets(
        list(datasets),
        tf.data.Dataset.counter().map(choices).unbatch(),
        stop_on_empty_dataset=True,
    )


def rates_of(name: str) -> dict[str, float]:
    """Task -> share of a registered Mixture; the shares sum to 1.

    Raises:
      ValueError: if there is no such Mixture.
    """
    if name not in seqio.MixtureRegistry.names():
        raise ValueError(
            f"no seqio Mixture {name!r}, there are "
            f"{sorted(seqio.MixtureRegistry.names())}"
        )
    mixture = seqio.MixtureRegistry.get(name)
    total = mixture.total_rate
    return {task.name: mixture.get_rate(task) / total for task in mixture.tasks}
