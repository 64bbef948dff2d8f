"""Tasks and Mixtures, on local data that has the names and features of the real."""

import gc
import gzip
import importlib.util
import json
import pathlib
import subprocess
import sys
import types
import warnings

import numpy as np
import pytest

from etc_jax.data import masking
from etc_jax.data.examples import PretrainingSizes
from etc_jax.data.mixture import Mixture
from etc_jax.data.sentences import split_sentences
from etc_jax.data.tokenizer import train

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORDS = (
    "alpha beta gamma delta river mountain forest ocean winter summer morning evening "
    "walked stood carried opened closed quickly slowly the a some every bright dark"
).split()
SIZES = PretrainingSizes.default(128, 24, max_sentence_tokens=32)


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


@pytest.fixture(scope="module")
def sio():
    """The modules under test, with seqio and TensorFlow."""
    if importlib.util.find_spec("seqio") is None:
        pytest.skip('needs the extra "seqio"')
    with warnings.catch_warnings():
        # Importing TensorFlow and its dependencies warns about their own futures.
        warnings.simplefilter("ignore")
        import tensorflow_datasets as tfds

        from tasks import (
            seqio_batches,
            seqio_documents,
            seqio_export,
            seqio_pretraining,
            seqio_streaming,
            seqio_tensorflow,
            seqio_vocabulary,
        )
    return types.SimpleNamespace(
        tfds=tfds,
        tf=seqio_tensorflow.tf,
        seqio=seqio_tensorflow.seqio,
        batches=seqio_batches,
        documents=seqio_documents,
        export=seqio_export,
        pretraining=seqio_pretraining,
        streaming=seqio_streaming,
        vocabulary=seqio_vocabulary,
    )


@pytest.fixture(scope="module")
def tokenizer():
    texts = [p for corpus in CORPORA.values() for d in corpus for p in d]
    return train(texts, vocab_size=200, min_char_count=1)


@pytest.fixture(scope="module")
def data_dir(sio, tmp_path_factory):
    """TFDS data sets with the names, configs, versions and features of the real."""
    folder = tmp_path_factory.mktemp("tfds")
    for name, (config, version, example_fn) in TFDS_EXAMPLES.items():
        examples = [example_fn(paragraphs) for paragraphs in CORPORA[name]]
        _write_tfds(sio, folder, name, config, version, examples)
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


@pytest.fixture(scope="module")
def notes(tmp_path_factory):
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


@pytest.fixture
def registered(sio, tokenizer, data_dir, notes):
    """The names of all Tasks, and of a Mixture of two."""
    p = sio.pretraining
    p.register_tfds(tokenizer, data_dir=data_dir)
    p.register_files(
        "notes", {"train": f"{notes}/*.jsonl*"}, tokenizer, text_field="body"
    )
    p.register_mixture({"pg19": 0.25, "notes": 0.75})
    yield [*TFDS_EXAMPLES, "notes", p.MIXTURE]
    sio.seqio.TaskRegistry.reset()
    sio.seqio.MixtureRegistry.reset()
    gc.collect()  # no iterator of TensorFlow is left when the process ends


def _expected(tokenizer, paragraphs):
    """(tokens, word starts, sentence lengths) of a document."""
    sentences = [s for p in paragraphs for s in split_sentences([p])]
    pairs = [tokenizer.encode_batch([s])[0] for s in sentences]
    return (
        np.concatenate([ids for ids, _ in pairs]),
        np.concatenate([starts for _, starts in pairs]),
        [len(ids) for ids, _ in pairs],
    )


def _read(sio, name, split="train", **kwargs):
    kwargs = {"seed": 0, "shuffle": False, "num_epochs": 1} | kwargs
    with sio.streaming.stream_documents(name, split, **kwargs) as stream:
        return list(stream)


def _flat(documents):
    return (
        np.concatenate([d.tokens for d in documents]),
        np.concatenate([d.word_starts for d in documents]),
        np.concatenate([d.sentence_lengths for d in documents]).tolist(),
        [len(d.sentence_lengths) for d in documents],
    )


def _assert_same_text(found, expected):
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("name", [*TFDS_EXAMPLES, "notes"])
def test_documents_keep_paragraphs_sentences_and_tokens(
    sio, tokenizer, registered, name
):
    documents = _read(sio, name)
    if name == "wikipedia":  # the first hundredth is held back
        held_back = _read(sio, name, "validation")
        assert len(held_back) == 2
        documents += held_back
    assert documents[0].tokens.dtype == documents[0].sentence_lengths.dtype == np.int32
    assert documents[0].word_starts.dtype == bool
    # TFDS stores examples in an order of its own.
    expected = [_expected(tokenizer, paragraphs) for paragraphs in CORPORA[name]]
    assert _sorted(documents) == _sorted(expected)


def _sorted(documents):
    return sorted(
        (tokens.tolist(), starts.tolist(), list(lengths))
        for tokens, starts, lengths in documents
    )


@pytest.mark.parametrize("name", [*TFDS_EXAMPLES, "notes"])
def test_stream_equals_export_token_for_token(sio, registered, name, tmp_path):
    caches = sio.export.export(name, "train", tmp_path)
    assert list(caches) == [name]
    cache = caches[name]
    offsets, borders = cache.sentence_offsets, cache.document_offsets
    _assert_same_text(
        _flat(_read(sio, name)),
        (
            cache.tokens,
            cache.word_starts(0, cache.num_tokens),
            np.diff(offsets),
            np.diff(borders),
        ),
    )
    again = sio.export.export(name, "train", tmp_path)[name]
    assert again.header == cache.header


def test_export_of_a_mixture_is_a_cache_a_task(sio, registered, tmp_path):
    caches = sio.export.export("etc_pretraining", "train", tmp_path)
    counts = {name: cache.num_documents for name, cache in caches.items()}
    assert counts == {"notes": 30, "pg19": 12}
    assert sio.pretraining.rates_of("etc_pretraining") == {"notes": 0.75, "pg19": 0.25}


def test_export_depends_on_the_text_and_says_so(
    sio, tokenizer, registered, notes, tmp_path
):
    sio.export.export("notes", "train", tmp_path)
    other = tmp_path / "other.jsonl"
    other.write_text(json.dumps({"text": "Some other text."}) + "\n")
    sio.pretraining.register_files("notes", {"train": other}, tokenizer)
    with pytest.raises(ValueError, match="made differently .*; choose another folder"):
        sio.export.export("notes", "train", tmp_path)


@pytest.mark.parametrize(
    "name", ["wikipedia", "pg19", "c4", "wiki40b", "notes", "etc_pretraining"]
)
def test_every_task_and_mixture_yields_batches(sio, tokenizer, registered, name):
    with _batches(sio, tokenizer, name) as stream:
        batches = [next(stream) for _ in range(3)]
    for batch in batches:
        assert batch["long_tokens"].shape == (4, 128)
        assert (batch["long_tokens"] < tokenizer.vocab_size).all()
        assert batch["mlm_weights"].any(axis=1).all()
        assert batch["cpc_weights"].any(axis=1).all()
        used = batch["structure"].long_example_ids > 0
        assert used.mean() > 0.7


def _batches(sio, tokenizer, name, **kwargs):
    kwargs = {"batch_size": 4, "seed": 0, "block_windows": 6} | kwargs
    return sio.batches.stream_batches(
        name,
        "train",
        ids=tokenizer.token_ids,
        sizes=SIZES,
        max_sentence_tokens=32,
        **kwargs,
    )


def _originals(batch):
    """Tokens of each used row before masking."""
    rows = []
    for row in range(len(batch["long_tokens"])):
        tokens = batch["long_tokens"][row].copy()
        real = batch["mlm_weights"][row] > 0
        tokens[batch["mlm_positions"][row][real]] = batch["mlm_targets"][row][real]
        links = batch["structure"].links[row, :, 0]
        own = batch["cpc_structure"].links[row, :, 0]
        for j in np.flatnonzero(batch["cpc_weights"][row]):
            sentence = batch["cpc_long_tokens"][row][own == j]
            tokens[links == batch["cpc_positions"][row, j]] = sentence
        rows.append(tokens[batch["structure"].long_example_ids[row] > 0])
    return rows


def test_batches_of_an_epoch_hold_each_long_enough_document_once(
    sio, tokenizer, registered
):
    with _batches(sio, tokenizer, "c4", num_epochs=1) as stream:
        batches = list(stream)
        position = stream.position
    kept = [d for d in _read(sio, "c4") if len(d.sentence_lengths) >= 7]
    found = np.concatenate([row for b in batches for row in _originals(b)])
    expected = np.concatenate([d.tokens for d in kept])
    np.testing.assert_array_equal(np.sort(found), np.sort(expected))
    assert position.documents == 40
    assert position.documents_dropped == 40 - len(kept) > 0
    assert position.tokens - position.tokens_dropped == len(expected)
    assert not batches[-1]["long_tokens"][-1].any()  # filled up with padding


def test_batches_are_a_function_of_the_seed_and_the_shard(sio, tokenizer, registered):
    def first(**kwargs):
        with _batches(sio, tokenizer, "wiki40b", shuffle=False, **kwargs) as stream:
            return next(stream)["long_tokens"]

    np.testing.assert_array_equal(first(seed=3), first(seed=3))
    assert (first(seed=3) != first(seed=4)).any()

    class Whole:  # the same text in each shard
        def __next__(self):
            return document

    document = max(_read(sio, "pg19"), key=lambda d: len(d.tokens))
    rows = [
        next(
            sio.batches.BatchStream(
                Whole(), tokenizer.token_ids, SIZES, batch_size=4, seed=3, shard=shard
            )
        )["long_tokens"]
        for shard in ((0, 2), (0, 2), (1, 2))
    ]
    np.testing.assert_array_equal(rows[0], rows[1])
    assert (rows[0] != rows[2]).any()


def _holding(documents, sentences):
    """The one document that has all of some sentences, or parts of long ones."""
    for number, document in enumerate(documents):
        text = document.tokens.tobytes()
        if all(sentence in text for sentence in sentences):
            return number
    raise AssertionError("sentences of several documents have one number")


def test_documents_of_one_batch_have_numbers_of_their_own(sio, tokenizer, registered):
    with _batches(sio, tokenizer, "c4", num_epochs=1, batch_size=1) as stream:
        rows = list(stream)
    number_of = {}
    for batch in rows:
        own = batch["cpc_structure"].links[0, :, 0]
        for j in np.flatnonzero(batch["cpc_weights"][0]):
            number = int(batch["cpc_documents"][0, j])
            sentence = batch["cpc_long_tokens"][0][own == j].tobytes()
            number_of.setdefault(number, []).append(sentence)
    document_of = {n: _holding(_read(sio, "c4"), s) for n, s in number_of.items()}
    assert len(set(document_of.values())) == len(document_of) > 20


@pytest.mark.parametrize("name", ["c4", "notes", "etc_pretraining"])
def test_batches_go_on_from_a_saved_position(
    sio, tokenizer, registered, name, tmp_path
):
    with _batches(sio, tokenizer, name) as stream:
        for _ in range(4):
            next(stream)
        stream.save(tmp_path / "saved")
        expected = [next(stream) for _ in range(4)]
    with _batches(sio, tokenizer, name) as stream:
        next(stream)
        stream.restore(tmp_path / "saved")
        for batch in expected:
            found = next(stream)
            for key in ("long_tokens", "mlm_targets", "cpc_documents"):
                np.testing.assert_array_equal(found[key], batch[key])
    with pytest.raises(FileExistsError):
        stream.save(tmp_path / "saved")
    with pytest.raises(FileNotFoundError):
        stream.restore(tmp_path / "elsewhere")


def test_shards_share_the_documents(sio, tokenizer, registered):
    whole = {d.tokens.tobytes() for d in _read(sio, "notes")}
    shards = [
        {d.tokens.tobytes() for d in _read(sio, "notes", shard=(i, 3), shuffle=True)}
        for i in range(3)
    ]
    assert not shards[0] & shards[1] and not shards[1] & shards[2]
    assert set.union(*shards) == whole and len(whole) > 25
    with pytest.raises(ValueError, match="'notes' has 3 files for 4 shards .* cut the"):
        _read(sio, "notes", shard=(0, 4))
    with pytest.raises(ValueError, match=r"shard is \(3, 3\), expected"):
        _read(sio, "notes", shard=(3, 3))


def test_shuffling_depends_on_the_seed_alone(sio, registered):
    def order(seed):
        documents = _read(sio, "c4", seed=seed, shuffle=True)
        return [d.tokens.tobytes() for d in documents]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == sorted(order(2))
    assert order(1) != [d.tokens.tobytes() for d in _read(sio, "c4")]


@pytest.fixture
def three_sources(sio, tokenizer, tmp_path):
    """Tasks whose documents are one word each, so that it names its Task."""
    words = {"first": "river", "second": "mountain", "third": "ocean"}
    for name, word in words.items():
        (tmp_path / f"{name}.txt").write_text(f"{word}\n" * 50)
        sio.pretraining.register_files(
            name,
            {"train": tmp_path / f"{name}.txt"},
            tokenizer,
            document_border="line",
        )
    yield {n: int(tokenizer.encode_batch([w])[0][0][0]) for n, w in words.items()}
    sio.seqio.TaskRegistry.reset()
    sio.seqio.MixtureRegistry.reset()
    gc.collect()


def test_mixing_rates_are_exact_and_those_of_the_mixture_of_caches(sio, three_sources):
    rates = {"first": 6.0, "second": 3.0, "third": 1.0}
    sio.pretraining.register_mixture(rates, name="mixed")
    with sio.streaming.stream_documents("mixed", "train", seed=11) as stream:
        found = [int(next(stream).tokens[0]) for _ in range(10_000)]
    for name, rate in rates.items():
        share = np.mean(np.array(found) == three_sources[name])
        assert share == pytest.approx(rate / 10, rel=0.01)
    mixture = Mixture(list(sio.pretraining.rates_of("mixed").values()), seed=11)
    ids = [three_sources[name] for name in sio.pretraining.rates_of("mixed")]
    assert found == [ids[mixture.locate(p).source] for p in range(10_000)]


def test_plain_seqio_reads_the_mixture(sio, three_sources):
    sio.pretraining.register_mixture({"first": 1, "second": 1}, name="mixed")
    dataset = sio.seqio.get_mixture_or_task("mixed").get_dataset(split="train")
    examples = list(dataset.take(1000).as_numpy_iterator())
    first = sum(e["tokens"][0] == three_sources["first"] for e in examples)
    assert first == 500  # of each block, whatever the seed


def test_vocabulary_is_that_of_the_tokenizer(sio, tokenizer):
    vocabulary = sio.vocabulary.TokenizerVocabulary(tokenizer)
    assert vocabulary.vocab_size == 200 and vocabulary.pad_id == 0
    text = "every river carried some forest"
    ids = tokenizer.encode_batch([text])[0][0].tolist()
    assert vocabulary.encode(text) == ids
    assert vocabulary.decode(ids) == text
    np.testing.assert_array_equal(vocabulary.encode_tf(text), ids)
    assert vocabulary.decode_tf(sio.tf.constant(ids)).numpy() == text.encode()
    both = vocabulary.decode_tf(sio.tf.constant([ids, ids[::-1]])).numpy()
    assert both.tolist() == [text.encode(), tokenizer.decode(ids[::-1]).encode()]


def test_vocabularies_are_equal_by_content(sio, tokenizer):
    of = sio.vocabulary.TokenizerVocabulary
    other = train(["some other text " * 9] * 9, vocab_size=126, min_char_count=1)
    assert of(tokenizer) == of(tokenizer) and hash(of(tokenizer)) == hash(of(tokenizer))
    assert of(tokenizer) != of(other) and of(tokenizer) != "text"


def test_the_data_sets_are_in_tfds(sio):
    for data in sio.pretraining.TFDS.values():
        name, version = data.name.split(":")
        name, _, config = name.partition("/")
        builder = sio.tfds.builder_cls(name)
        configs = {
            c.name: c.version or builder.VERSION for c in builder.BUILDER_CONFIGS
        }
        assert str(configs.get(config, builder.VERSION)) == version
        assert bool(config) == bool(configs) and (config in configs or not config)


def test_unknown_names_and_splits_are_clear(sio, registered):
    with pytest.raises(ValueError, match="no seqio Task or Mixture 'wikipdia' is reg"):
        _read(sio, "wikipdia")
    with pytest.raises(ValueError, match="did you mean 'wikipedia'"):
        _read(sio, "wikipdia")
    with pytest.raises(ValueError, match=r"'c4' has no split 'valid', only \['train'"):
        _read(sio, "c4", "valid")
    # Alone, seqio would leave out the Task that has no such split.
    with pytest.raises(ValueError, match="'notes' has no split 'validation'"):
        _read(sio, "etc_pretraining", "validation")
    with pytest.raises(ValueError, match="no seqio Mixture 'pg19', there are"):
        sio.pretraining.rates_of("pg19")
    with pytest.raises(ValueError, match="no TFDS data set 'books' here, there are"):
        sio.pretraining.register_tfds(None, names=["books"])


def test_data_that_is_not_prepared_is_named(sio, tokenizer, registered, tmp_path):
    sio.pretraining.register_tfds(tokenizer, data_dir=tmp_path / "empty")
    with pytest.raises(
        ValueError,
        match=r"TFDS data set c4/en:3.1.0 is not prepared in .*empty; .*tfds",
    ):
        _read(sio, "c4")


def test_errors_in_files_name_the_line(sio, tokenizer, registered, tmp_path):
    file = tmp_path / "bad.jsonl"
    file.write_text('{"text": "Fine."}\n{"texts": "Not fine."}\n')
    sio.pretraining.register_files("bad", {"train": file}, tokenizer)
    with pytest.raises(ValueError, match=r"^\S*bad.jsonl:2: no field 'text'"):
        _read(sio, "bad")
    with pytest.raises(ValueError, match=r"^\S*bad.jsonl:2: no field 'text'"):
        sio.export.export("bad", "train", tmp_path)
    with pytest.raises(FileNotFoundError, match="no file matches"):
        sio.pretraining.register_files(
            "none", {"train": tmp_path / "*.gone"}, tokenizer, format="text"
        )


def test_names_are_not_taken_from_others(sio, tokenizer, registered):
    source = sio.seqio.get_mixture_or_task("c4").source
    feature = sio.seqio.Feature(sio.seqio.PassThroughVocabulary(9))
    sio.seqio.TaskRegistry.add("foreign", source, {"text": feature})
    files = {"train": __file__}
    register = sio.pretraining.register_files
    with pytest.raises(ValueError, match="'foreign' is not a Task of documents"):
        register("foreign", files, tokenizer, format="text")
    with pytest.raises(ValueError, match="has a Mixture 'etc_pretraining' already"):
        register("etc_pretraining", files, tokenizer, format="text")
    with pytest.raises(ValueError, match="has a Task 'c4' already"):
        sio.pretraining.register_mixture({"pg19": 1.0}, name="c4")
    with pytest.raises(ValueError, match="names a Task 'gone' that is not registered"):
        sio.pretraining.register_mixture({"gone": 1.0})
    with pytest.raises(ValueError, match="weight 0 .* is not a positive number"):
        sio.pretraining.register_mixture({"pg19": 0.0})


def test_a_mixture_of_two_tokenizers_is_an_error(sio, registered, tmp_path):
    other = train(["some other text " * 9] * 9, vocab_size=126, min_char_count=1)
    (tmp_path / "x.txt").write_text("text\n")
    sio.pretraining.register_files("x", {"train": tmp_path / "x.txt"}, other)
    with pytest.raises(ValueError, match="different tokenizers"):
        sio.pretraining.register_mixture({"x": 1.0, "c4": 1.0})


def test_a_closed_stream_says_so(sio, registered):
    stream = sio.streaming.stream_documents("c4", "train", seed=0)
    next(stream)
    stream.close()
    with pytest.raises(ValueError, match="the stream is closed"):
        next(stream)


def test_masking_shares_reach_the_batches(sio, tokenizer, registered):
    shares = masking.MaskingShares(cpc=0.0)
    sizes = PretrainingSizes.default(128, 24, shares)
    with sio.batches.stream_batches(
        "c4",
        "train",
        ids=tokenizer.token_ids,
        sizes=sizes,
        batch_size=2,
        seed=0,
        shares=shares,
    ) as stream:
        assert not [key for key in next(stream) if key.startswith("cpc")]


OPEN_STREAM = """
import sys
from etc_jax.data.tokenizer import train
from tasks import seqio_pretraining, seqio_streaming

tokenizer = train(["the river runs."] * 30, vocab_size=130, min_char_count=1)
for name in "ab":
    seqio_pretraining.register_files(name, {"train": sys.argv[1:]}, tokenizer)
seqio_pretraining.register_mixture({"a": 1, "b": 2})
stream = seqio_streaming.stream_documents("etc_pretraining", "train", seed=0)
for _ in range(50):
    next(stream)
print("last line")
"""


def test_a_process_ends_though_a_stream_is_open(sio, tmp_path):
    files = [tmp_path / f"{i}.jsonl" for i in range(4)]
    for file in files:
        row = json.dumps({"text": "The river runs. " * 20})
        file.write_text(f"{row}\n" * 200)
    run = subprocess.run(
        [sys.executable, "-c", OPEN_STREAM, *map(str, files)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (run.returncode, run.stdout) == (0, "last line\n"), run.stderr
