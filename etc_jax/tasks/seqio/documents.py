"""seqio Tasks whose examples are tokenised documents.

An example of a document Task:

    tokens            int32 [tokens]
    word_starts       int32 [tokens]      1 where a word starts, else 0
    sentence_lengths  int32 [sentences]   in tokens; a sentence has at least one

Text passes three stations: source -> `SelectText` (one string, "text") ->
`TokenizeDocument`. Paragraphs become sentences and sentences tokens exactly as in
the token cache, so that a stream of a Task equals its exported cache.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from etc_jax.base.suggestions import suggestion
from etc_jax.data.text.corpus import Document
from etc_jax.data.text.export import encode
from etc_jax.data.text.sentences import split_sentences
from etc_jax.data.text.sources import TextSource, read_documents
from etc_jax.data.tokenizers.tokenizer import Tokenizer
from etc_jax.tasks.seqio.tensorflow import ExampleIterator, seqio, tf
from etc_jax.tasks.seqio.vocabulary import TokenizerVocabulary

FEATURES = ("tokens", "word_starts", "sentence_lengths")

ParagraphsFn = Callable[[str], tuple[str, ...]]


class SelectText:
    """Preprocessor: leaves one string feature, under the name "text"."""

    def __init__(self, feature: str):
        self.feature = feature

    def __call__(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        features = sorted(dataset.element_spec)
        if self.feature not in features:
            raise ValueError(f"the examples have no {self.feature!r}, only {features}")
        return dataset.map(lambda example: {"text": example[self.feature]})


class TokenizeDocument:
    """Preprocessor: "text" -> the features of a document Task."""

    def __init__(self, tokenizer: Tokenizer, paragraphs_fn: ParagraphsFn):
        self.tokenizer = tokenizer
        self.paragraphs_fn = paragraphs_fn

    def __call__(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        return dataset.map(self._features, num_parallel_calls=tf.data.AUTOTUNE)

    def encode(self, text: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(tokens, word starts, sentence lengths) of a document, int32."""
        document = Document("text", self.paragraphs_fn(text))
        encoded = encode([document], self.tokenizer, split_sentences)
        columns = (encoded.ids, encoded.word_starts, encoded.sentence_lengths)
        return tuple(column.astype(np.int32) for column in columns)

    def _features(self, example: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        # A function of its input alone: said to be stateless, it lets iterators be
        # saved, which tf.data refuses for other Python functions.
        columns = tf.numpy_function(
            lambda raw: self.encode(raw.decode()),
            [example["text"]],
            [tf.int32] * len(FEATURES),
            stateful=False,
        )
        for column in columns:
            column.set_shape([None])
        return dict(zip(FEATURES, columns, strict=True))


class DocumentFiles(seqio.FileDataSource):
    """Text and JSONL files, plain or gzip, read by `etc_jax.data.text.sources`.

    A file is a shard; it is read whole, so large corpora should be many files.
    """

    def __init__(self, sources: Mapping[str, TextSource], **options: Any):
        """See the class.

        Args:
          sources: of each split.
          **options: of `read_documents`, with which the sources were made.
        """
        self._sources = dict(sources)
        self._options = options
        super().__init__(
            read_file_fn=self._read_file,
            split_to_filepattern={k: self.list_shards(k) for k in self._sources},
            cycle_length=1,  # files in order; more would be held in memory at once
            block_length=1,
        )

    def list_shards(self, split: str) -> Sequence[str]:
        return [str(file.path) for file in self._sources[split].files]

    def describe(self, split: str) -> dict[str, Any]:
        """What the documents of a split depend on; reads its files whole."""
        return self._sources[split].describe()

    def _read_file(self, file: tf.Tensor) -> tf.data.Dataset:
        def read(path: bytes) -> np.ndarray:
            documents = read_documents(path.decode(), **self._options)
            texts = ["\n".join(d.paragraphs).encode() for d in documents]
            return np.array(texts, object)

        texts = tf.numpy_function(read, [file], tf.string, stateful=False)
        texts.set_shape([None])
        return tf.data.Dataset.from_tensor_slices({"text": texts})


def add_document_task(
    name: str,
    source: seqio.DataSource,
    tokenizer: Tokenizer,
    *,
    text_feature: str,
    paragraphs_fn: ParagraphsFn,
) -> seqio.Task:
    """Registers a Task, in place of an earlier document Task of the same name.

    Args:
      name: letters, digits, "_", "." and ":".
      source: of examples with a string feature that holds a document.
      tokenizer: the vocabulary.
      text_feature: name of that feature.
      paragraphs_fn: text -> paragraphs.

    Raises:
      ValueError: if the name is taken by a Task or Mixture of another kind.
    """
    make_room(name, tokenization)
    # The other two are counts and flags, no text: any size does.
    vocabularies = dict.fromkeys(FEATURES, seqio.PassThroughVocabulary(2**31 - 1))
    vocabularies["tokens"] = TokenizerVocabulary(tokenizer)
    return seqio.TaskRegistry.add(
        name,
        source=source,
        preprocessors=[
            SelectText(text_feature),
            TokenizeDocument(tokenizer, paragraphs_fn),
            # Where `seqio_cache_tasks` cuts: its files have tokens.
            seqio.CacheDatasetPlaceholder(),
        ],
        output_features={
            feature: seqio.Feature(vocabulary, add_eos=False, dtype=tf.int32)
            for feature, vocabulary in vocabularies.items()
        },
    )


def check_free(name: str, registry: type[seqio.DatasetProviderRegistry]) -> None:
    """Raises ValueError if a name is taken in one of seqio's registries."""
    if name in registry.names():
        raise ValueError(
            f"seqio has a {type(registry.get(name)).__name__} {name!r} already; choose "
            "another name"
        )


def make_room(name: str, check_fn: Callable[[seqio.Task], object]) -> None:
    """Lets a Task be registered, in place of an earlier one of the same kind.

    Args:
      name: of the Task.
      check_fn: raises ValueError if a Task is of another kind.

    Raises:
      ValueError: if the name is taken by a Mixture or a Task of another kind.
    """
    check_free(name, seqio.MixtureRegistry)
    if name in seqio.TaskRegistry.names():
        # Notebooks and tests run twice; seqio itself refuses that.
        check_fn(seqio.TaskRegistry.get(name))
        seqio.TaskRegistry.remove(name)


def tokenizer_of(task: seqio.Task) -> Tokenizer:
    """The tokenizer of a Task's features.

    Raises:
      ValueError: if it has none of this project.
    """
    for feature in task.output_features.values():
        if isinstance(feature.vocabulary, TokenizerVocabulary):
            return feature.vocabulary.tokenizer
    raise ValueError(
        f"seqio Task {task.name!r} has no tokenizer of etc_jax; use one that "
        "etc_jax.tasks.seqio.pretraining or etc_jax.tasks.seqio.denoising registered"
    )


def tokenization(task: seqio.Task) -> TokenizeDocument:
    """How a document Task makes its tokens.

    Raises:
      ValueError: if it is another kind of Task.
    """
    steps = [step for step in task.preprocessors if isinstance(step, TokenizeDocument)]
    if not steps:
        raise ValueError(
            f"seqio Task {task.name!r} is not a Task of documents; use one that "
            "etc_jax.tasks.seqio.pretraining registered"
        )
    return steps[0]


def documents(task: seqio.Task, split: str) -> Iterator[Document]:
    """Documents of a split before tokenisation, in the order of the source."""
    tokenize = tokenization(task)
    paragraphs_fn = tokenize.paragraphs_fn
    dataset = task.source.get_dataset(split=split, shuffle=False)
    for preprocessor in itertools.takewhile(
        lambda step: step is not tokenize, task.preprocessors
    ):
        dataset = preprocessor(dataset)
    with contextlib.closing(ExampleIterator(dataset)) as examples:
        for number, example in enumerate(examples):
            text = example["text"].numpy().decode()
            yield Document(f"{task.name}/{number}", paragraphs_fn(text))


def find(name: str, split: str) -> seqio.Task | seqio.Mixture:
    """A registered Task or Mixture of documents that has a split.

    Raises:
      ValueError: if there is none of that name, it (or a part of a Mixture) lacks the
        split or its data, or it is not one of documents.
    """
    names = sorted({*seqio.TaskRegistry.names(), *seqio.MixtureRegistry.names()})
    if name not in names:
        hint = suggestion(name, names)
        raise ValueError(f"no seqio Task or Mixture {name!r} is registered; {hint}")
    provider = seqio.get_mixture_or_task(name)
    for task in seqio.get_subtasks(provider):
        tokenization(task)
        _check_split(task, split)
    return provider


def _check_split(task: seqio.Task, split: str) -> None:
    if isinstance(task.source, seqio.TfdsDataSource):
        _check_prepared(task.source)
    # seqio itself would leave such a Task out of a Mixture with a line in the log.
    if split not in task.splits:
        raise ValueError(
            f"Task {task.name!r} has no split {split!r}, only {sorted(task.splits)}"
        )
    if task.num_input_examples(split) == 0:
        raise ValueError(f"split {split!r} of Task {task.name!r} is empty")


def _check_prepared(source: seqio.TfdsDataSource) -> None:
    data = source.tfds_dataset
    if not data.info.splits:
        folder = data.data_dir or "TFDS_DATA_DIR or ~/tensorflow_datasets"
        raise ValueError(
            f"TFDS data set {data.name} is not prepared in {folder}; give the data_dir "
            f"that holds it, or prepare it: tfds build {data.name} --data_dir=..."
        )
