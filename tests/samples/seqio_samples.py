"""Local data with the names and features of the real, registered as seqio Tasks.

The names of the functions are not those of the fixtures, which would hide what a file
imports after the arguments of its tests.
"""

import functools
import gc
import gzip
import importlib.util
import json
import tempfile
import types
import warnings
from unittest import mock

import numpy as np
import pytest

from etc_jax.data.tokenizers.tokenizer import train

WORDS = (
    "alpha beta gamma delta river mountain forest ocean winter summer morning evening "
    "walked stood carried opened closed quickly slowly the a some every bright dark"
).split()


def _sentence(rng):
    return " ".join(rng.choice(WORDS, rng.integers(3, 9))).capitalize() + "."


def _paragraphs(rng, least, most):
    """A heading without a full stop, and paragraphs of one to three sentences."""
    return [
        " ".join(rng.choice(WORDS, 2)).title(),
        *(
            " ".join(_sentence(rng) for _ in range(rng.integers(1, 4)))
            for _ in range(rng.integers(least, most + 1))
        ),
    ]


def _corpus(seed, count):
    """Paragraphs of each document; every fifth has too few sentences to be packed."""
    rng = np.random.default_rng(seed)
    return [
        _paragraphs(rng, 7, 12) if i % 5 else _paragraphs(rng, 1, 2)
        for i in range(count)
    ]


CORPORA = {
    name: _corpus(seed, count)
    for seed, (name, count) in enumerate(
        {"wikipedia": 200, "pg19": 12, "c4": 40, "wiki40b": 30, "notes": 30}.items()
    )
}


NOTES_FILES = 3


def _wrapped(paragraph):
    """A paragraph in lines of at most four words, as in a printed book."""
    words = paragraph.split()
    return "\n".join(" ".join(words[i : i + 4]) for i in range(0, len(words), 4))


# What the real data sets hold: (config, version, split, example of a document).
TFDS_EXAMPLES = {
    "wikipedia": (
        "20230601.en",
        "1.0.0",
        lambda p: {"title": "A title", "text": "\n\n".join(p)},
    ),
    "pg19": (
        None,
        "0.1.1",
        lambda p: {
            "book_id": 7,
            "book_title": "A title",
            "publication_date": "1890",
            "book_link": "http://example.com",
            "book_text": "\n\n".join(map(_wrapped, p)) + "\n",
        },
    ),
    "c4": (
        "en",
        "3.1.0",
        lambda p: {
            "url": "http://example.com",
            "content-type": "text/plain",
            "content-length": "99",
            "timestamp": "2019",
            "text": "\n".join(p),
        },
    ),
    "wiki40b": (
        "en",
        "1.3.0",
        lambda p: {
            "wikidata_id": "Q1",
            "version_id": "1",
            "text": "\n_START_PARAGRAPH_\n" + "_NEWLINE_".join(p),
        },
    ),
}


@pytest.fixture(name="sio", scope="module")
def sio_fixture(tmp_path_factory):
    """The modules under test, with seqio and TensorFlow."""
    if importlib.util.find_spec("seqio") is None:
        pytest.skip('needs the extra "seqio"')
    # TFDS and TensorFlow leave folders and files in the temporary folder.
    temporary = str(tmp_path_factory.mktemp("temporary"))
    with mock.patch.object(tempfile, "tempdir", temporary):
        yield _modules()
    # No iterator of TensorFlow is left when the process ends. Once a file: it takes
    # seconds to go through all that jax has compiled.
    gc.collect()


@functools.cache
def _modules():
    with warnings.catch_warnings():
        # Importing TensorFlow and its dependencies warns about their own futures.
        warnings.simplefilter("ignore")
        import tensorflow_datasets as tfds

        from etc_jax.tasks.seqio import (
            batches as seqio_batches,
            denoising as seqio_denoising,
            documents as seqio_documents,
            export as seqio_export,
            finetuning as seqio_finetuning,
            pretraining as seqio_pretraining,
            streaming as seqio_streaming,
            tensorflow as seqio_tensorflow,
            vocabulary as seqio_vocabulary,
            windows as seqio_windows,
        )
    return types.SimpleNamespace(
        tfds=tfds,
        tensorflow=seqio_tensorflow,
        tf=seqio_tensorflow.tf,
        seqio=seqio_tensorflow.seqio,
        batches=seqio_batches,
        denoising=seqio_denoising,
        documents=seqio_documents,
        export=seqio_export,
        finetuning=seqio_finetuning,
        pretraining=seqio_pretraining,
        streaming=seqio_streaming,
        vocabulary=seqio_vocabulary,
        windows=seqio_windows,
    )


@pytest.fixture(name="tokenizer", scope="module")
def tokenizer_fixture():
    texts = [p for corpus in CORPORA.values() for d in corpus for p in d]
    return train(texts, vocab_size=200, min_char_count=1)


@pytest.fixture(name="data_dir", scope="module")
def data_dir_fixture(sio, tmp_path_factory):
    """TFDS data sets with the names, configs, versions and features of the real."""
    return _tfds_folder(tmp_path_factory.getbasetemp() / "tfds")


@functools.cache
def _tfds_folder(folder):
    # Once for all files of tests.
    folder.mkdir()
    for name, (config, version, example_fn) in TFDS_EXAMPLES.items():
        examples = [example_fn(paragraphs) for paragraphs in CORPORA[name]]
        _write_tfds(_modules(), folder, name, config, version, examples)
    return folder


def _write_tfds(sio, folder, name, config, version, examples):
    features = {
        k: sio.tfds.features.Scalar(np.int32)
        if isinstance(v, int)
        else sio.tfds.features.Text()
        for k, v in examples[0].items()
    }
    splits = {"train": examples}
    if name != "wikipedia":
        splits["validation"] = examples[:4]
    sio.tfds.dataset_builders.store_as_tfds_dataset(
        name=name,
        config=config,
        version=version,
        data_dir=folder,
        features=sio.tfds.features.FeaturesDict(features),
        split_datasets={k: _dataset(sio, v) for k, v in splits.items()},
    )


def _dataset(sio, examples):
    columns = {k: [example[k] for example in examples] for k in examples[0]}
    return sio.tf.data.Dataset.from_tensor_slices(columns)


@pytest.fixture(name="notes", scope="module")
def notes_fixture(tmp_path_factory):
    """JSONL files, one of them gzip."""
    folder = tmp_path_factory.mktemp("notes")
    for part in range(NOTES_FILES):
        documents = CORPORA["notes"][part::NOTES_FILES]
        rows = "".join(json.dumps({"body": "\n\n".join(d)}) + "\n" for d in documents)
        if part:
            (folder / f"{part}.jsonl").write_text(rows)
        else:
            (folder / "0.jsonl.gz").write_bytes(gzip.compress(rows.encode()))
    return folder


@pytest.fixture(name="registered")
def registered_fixture(sio, tokenizer, data_dir, notes):
    """The names of all Tasks, and of a Mixture of two."""
    p = sio.pretraining
    p.register_tfds(tokenizer, data_dir=data_dir)
    p.register_files(
        "notes", {"train": f"{notes}/*.jsonl*"}, tokenizer, text_field="body"
    )
    p.register_mixture({"pg19": 0.25, "notes": 0.75})
    yield [*TFDS_EXAMPLES, "notes", p.MIXTURE]
    forget_tasks(sio)


def forget_tasks(sio):
    """Empties seqio's registries."""
    sio.seqio.TaskRegistry.reset()
    sio.seqio.MixtureRegistry.reset()


def read(sio, name, split="train", **kwargs):
    kwargs = {"seed": 0, "shuffle": False, "num_epochs": 1} | kwargs
    with sio.streaming.stream_documents(name, split, **kwargs) as stream:
        return list(stream)
