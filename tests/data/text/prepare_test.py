import gzip
import json
import os

import numpy as np
import pytest
from golden_data import require_shared

from etc_jax.data.pretraining.examples import PretrainingSizes
from etc_jax.data.pretraining.readers import PretrainingReader
from etc_jax.data.text import corpus, packing, prepare, sources
from etc_jax.data.tokenizers import tokenizer

pytest.importorskip("nupunkt")

TEXT = [
    "The cat sat on the mat. It purred, e.g. loudly.",
    "A dog came in. The cat left, and the mat was free. The dog sat on it.",
    "Nobody else came in that day. The dog slept until the cat came in again.",
]


@pytest.fixture
def reads(monkeypatch):
    """The calls that read the corpus, which is a small one here."""
    calls = []
    rng = np.random.default_rng(0)
    documents = tuple(
        corpus.Document(f"small/{i}", tuple(rng.permutation(TEXT)) * 2)
        for i in range(40)
    )

    def read(packages):
        calls.append(packages)
        return corpus.Corpus(documents)

    monkeypatch.setattr(corpus, "built_in_corpus", read)
    return calls


def _prepare(folder, packages=("numpy",), **kwargs):
    kwargs = {"vocab_size": 160, "validation": 0.2} | kwargs
    source = corpus.BuiltInSource(packages)
    return prepare.prepare(folder, source=source, **kwargs)


def test_text_becomes_batches_that_decode(reads, tmp_path):
    reports = []
    prepared = _prepare(tmp_path, report_fn=reports.append)
    assert "total: 40 documents" in reports[0] and len(reports) == 1
    sides = (prepared.train.num_documents, prepared.validation.num_documents)
    assert sum(sides) == 40 and 0 < sides[1] < sides[0]
    plan = packing.pack(
        prepared.validation, long_length=200, global_length=40, max_sentence_tokens=50
    )
    reader = PretrainingReader(
        prepared.validation,
        plan,
        prepared.tokenizer.token_ids,
        PretrainingSizes.default(200, 40),
        batch_size=2,
        seed=0,
    )
    batch = reader.batch_at(0)
    real = batch["cpc_long_tokens"][0] > 0
    own = batch["cpc_structure"].links[0, :, 0] == 0
    masked = prepared.tokenizer.decode(batch["cpc_long_tokens"][0][real & own])
    assert masked.replace(" ", "") in "".join(TEXT).lower().replace(" ", "")


def test_second_time_nothing_is_read(reads, tmp_path):
    first, second = _prepare(tmp_path), _prepare(tmp_path)
    assert len(reads) == 1
    assert first.tokenizer.fingerprint() == second.tokenizer.fingerprint()
    np.testing.assert_array_equal(first.train.tokens, second.train.tokens)


def test_other_choices_live_in_other_folders(reads, tmp_path):
    paths = {
        _prepare(tmp_path, **kwargs).train.path
        for kwargs in ({}, {"vocab_size": 161}, {"validation": 0.3}, {})
    }
    assert len(paths) == 3 == len(os.listdir(tmp_path))


def _word(number):
    """A number in words that the vocabulary surely has."""
    return " ".join(("cat", "dog")[number >> bit & 1] for bit in range(6))


@pytest.fixture
def files(tmp_path):
    """A folder of text in files, and the same packed."""
    rng = np.random.default_rng(0)
    rows = [
        json.dumps(
            {"text": "\n\n".join([*rng.permutation(TEXT), f"The mat {_word(i)}."])}
        )
        for i in range(40)
    ]
    for name, packed in (("plain", False), ("packed", True)):
        folder = tmp_path / name / "texts"
        folder.mkdir(parents=True)
        for part in (0, 1):
            content = "\n".join(rows[part::2]).encode()
            file = folder / (f"{part}.jsonl.gz" if packed else f"{part}.jsonl")
            file.write_bytes(gzip.compress(content) if packed else content)
    return tmp_path


def _prepare_files(folder, pattern, **kwargs):
    kwargs = {"vocab_size": 160, "validation": 0.2} | kwargs
    return prepare.prepare(folder, source=sources.read_documents(pattern), **kwargs)


def _arrays(side):
    names = ("tokens", "word_bits", "sentence_offsets", "document_offsets")
    return {name: getattr(side, name).tobytes() for name in names}


def test_files_become_caches_on_disjoint_sides(files, tmp_path):
    prepared = _prepare_files(tmp_path / "c", files / "plain/texts/*.jsonl")
    assert prepared.train.path.parent.name.startswith("texts-")
    texts = []
    for side in prepared[1:]:
        text = prepared.tokenizer.decode(side.tokens)
        texts.append(text.replace(" ", ""))
        assert side.num_documents > 0
    for i in range(40):
        sentence = f"The mat {_word(i)}.".replace(" ", "").lower()
        assert sum(text.count(sentence) for text in texts) == 1


def test_packed_files_and_workers_give_the_same_caches(files, tmp_path):
    plain = _prepare_files(tmp_path / "c", files / "plain/texts/*.jsonl")
    packed = _prepare_files(tmp_path / "c", files / "packed/texts/*.gz", workers=1)
    assert plain.train.path != packed.train.path
    for one, other in zip(plain[1:], packed[1:], strict=True):
        assert _arrays(one) == _arrays(other)


def test_files_are_read_only_where_a_cache_is_missing(files, tmp_path):
    reports = []
    for _ in range(2):
        prepared = _prepare_files(
            tmp_path / "c", files / "plain/texts/*.jsonl", report_fn=reports.append
        )
    assert len(reports) == 1
    sentences = prepared.train.num_sentences, prepared.validation.num_sentences
    assert "total: 40 documents (0 empty)" in reports[0]
    assert (
        f"training: {prepared.train.num_documents} documents, {sentences[0]}"
        in (reports[0])
    )
    assert reports[0].endswith(prepared.report())


def test_a_changed_file_is_another_corpus(files, tmp_path):
    pattern = files / "plain/texts/*.jsonl"
    first = _prepare_files(tmp_path / "c", pattern)
    file = files / "plain/texts/0.jsonl"
    file.write_text(file.read_text().replace("sat", "cat"))
    second = _prepare_files(tmp_path / "c", pattern)
    assert first.train.path.parent != second.train.path.parent


def test_a_given_tokenizer_is_used(files, tmp_path):
    pattern = files / "plain/texts/*.jsonl"
    trained = _prepare_files(tmp_path / "c", pattern).tokenizer
    trained.save(tmp_path / "mine.json")
    prepared = _prepare_files(
        tmp_path / "c", pattern, tokenizer=tmp_path / "mine.json", vocab_size=1
    )
    as_object = _prepare_files(tmp_path / "c", pattern, tokenizer=trained)
    assert as_object.train.path == prepared.train.path
    assert prepared.tokenizer.fingerprint() == trained.fingerprint()
    assert prepared.validation.load_tokenizer().vocab_size == 160


def test_validation_files_are_all_validation(files, tmp_path):
    folder = files / "plain/texts"
    held = sources.read_documents(folder / "1.jsonl")
    prepared = _prepare_files(tmp_path / "c", folder / "0.jsonl", validation=held)
    assert (prepared.train.num_documents, prepared.validation.num_documents) == (20, 20)
    with pytest.raises(
        ValueError, match="1 validation files are training files too, s"
    ):
        _prepare_files(tmp_path / "c", folder / "*.jsonl", validation=held)


def test_the_vocabulary_is_of_the_training_side_alone(files, tmp_path):
    folder = tmp_path / "d"
    folder.mkdir()
    (folder / "a.txt").write_text("\n\n".join(TEXT * 20), encoding="utf-8")
    (folder / "b.txt").write_text("ж" * 50 + ". " + "ж " * 50, encoding="utf-8")
    held = sources.read_documents(folder / "b.txt")
    prepared = _prepare_files(
        tmp_path / "c", folder / "a.txt", vocab_size=150, validation=held
    )
    assert "ж" not in prepared.tokenizer.decode(range(150))
    assert set(prepared.validation.tokens) == {
        tokenizer.SPECIAL_TOKENS.index("[UNK]"),
        *prepared.tokenizer.encode_batch(["."])[0][0],
    }


def test_an_empty_side_is_an_error_unless_asked_for(files, tmp_path):
    pattern = files / "plain/texts/*.jsonl"
    message = "of 40 documents, none is for validation by validation=1e-12; .*name"
    with pytest.raises(ValueError, match=message):
        _prepare_files(tmp_path / "c", pattern, validation=1e-12)
    assert not _prepare_files(tmp_path / "c", pattern, validation=0.0)[2].num_documents
    with pytest.raises(
        ValueError, match="validation must be a share from 0 to 1, got 3"
    ):
        _prepare_files(tmp_path / "c", pattern, validation=3.0)


def test_a_sample_is_fixed_by_names_alone():
    documents = [corpus.Document(f"d/{i}", ("x" * (i % 7 + 1),)) for i in range(500)]
    assert prepare.sample(documents, 10**6) == documents
    chosen = prepare.sample(documents, 300)
    assert 290 <= sum(len(d.paragraphs[0]) for d in chosen) <= 300
    backwards = prepare.sample(reversed(documents), 300)
    assert backwards[::-1] == chosen == sorted(chosen, key=documents.index)
    # Neither the first nor the last documents alone: 75 of 500, spread over all.
    places = [documents.index(d) for d in chosen]
    assert abs(np.mean(places) - 250) < 4 * 500 / (12 * len(places)) ** 0.5
    assert len(prepare.sample([corpus.Document("d/0", ("x" * 99,))], 10)) == 1


def test_real_text_is_prepared_whole(tmp_path):
    folder = require_shared("data/wikitext2")
    source = sources.read_documents(folder / "valid.txt.gz", document_border="line")
    prepared = prepare.prepare(
        tmp_path, source=source, vocab_size=2000, validation=0.05
    )
    sides = prepared.train.header["counts"], prepared.validation.header["counts"]
    with gzip.open(folder / "valid.txt.gz", "rt", encoding="utf-8") as handle:
        lines = [line.strip() for line in handle if line.strip()]
    assert sum(side["documents"] for side in sides) == len(lines)
    assert sum(side["chars"] for side in sides) == sum(map(len, lines))
