"""Registering Tasks and Mixtures, and in what shares a Mixture mixes."""

import numpy as np
import pytest
from seqio_samples import (
    forget_tasks,
    read,
)

from etc_jax.data.mixture import Mixture
from etc_jax.data.tokenizers.tokenizer import train


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
    forget_tasks(sio)


@pytest.mark.full
def test_mixing_rates_are_exact_and_those_of_the_mixture_of_caches(sio, three_sources):
    rates = {"first": 6.0, "second": 3.0, "third": 1.0}
    sio.pretraining.register_mixture(rates, name="mixed")
    with sio.streaming.stream_documents("mixed", "train", seed=11) as stream:
        found = [int(next(stream).tokens[0]) for _ in range(2000)]
    for name, rate in rates.items():
        share = np.mean(np.array(found) == three_sources[name])
        assert share == pytest.approx(rate / 10, rel=0.01)
    mixture = Mixture(list(sio.pretraining.rates_of("mixed").values()), seed=11)
    ids = [three_sources[name] for name in sio.pretraining.rates_of("mixed")]
    assert found == [ids[mixture.locate(p).source] for p in range(2000)]


@pytest.mark.full
def test_plain_seqio_reads_the_mixture(sio, three_sources):
    sio.pretraining.register_mixture({"first": 1, "second": 1}, name="mixed")
    dataset = sio.seqio.get_mixture_or_task("mixed").get_dataset(split="train")
    examples = list(dataset.take(1000).as_numpy_iterator())
    first = sum(e["tokens"][0] == three_sources["first"] for e in examples)
    assert first == 500  # of each block, whatever the seed


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
        read(sio, "wikipdia")
    with pytest.raises(ValueError, match="did you mean 'wikipedia'"):
        read(sio, "wikipdia")
    with pytest.raises(ValueError, match=r"'c4' has no split 'valid', only \['train'"):
        read(sio, "c4", "valid")
    # Alone, seqio would leave out the Task that has no such split.
    with pytest.raises(ValueError, match="'notes' has no split 'validation'"):
        read(sio, "etc_pretraining", "validation")
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
        read(sio, "c4")


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


@pytest.mark.full
def test_a_mixture_of_two_tokenizers_is_an_error(sio, registered, tmp_path):
    other = train(["some other text " * 9] * 9, vocab_size=126, min_char_count=1)
    (tmp_path / "x.txt").write_text("text\n")
    sio.pretraining.register_files("x", {"train": tmp_path / "x.txt"}, other)
    with pytest.raises(ValueError, match="different tokenizers"):
        sio.pretraining.register_mixture({"x": 1.0, "c4": 1.0})
