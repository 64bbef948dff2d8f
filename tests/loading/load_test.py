"""Models from folders of all kinds, from a cache of Hugging Face, and written back."""

import dataclasses
import json
import pathlib
import shutil
import subprocess
import sys

import huggingface_hub
import jax
import numpy as np
import pytest
from causal_pairs import PIECES
from generate_test import save_run
from huggingface_hub import constants, errors
from tiny_model import REFORMER_OF_BYTES as REFORMER
from tiny_texts import CONFIGS, params_of, texts, tiny

import etc_jax
from etc_jax import config as config_lib
from etc_jax.conversion.formats import sentence_folder
from etc_jax.conversion.formats.sentence_folder import SentenceFolder
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.grown import GrownTokenizer
from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.generation.text_codecs import TextCodec
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.state import TrainState

NAME = "somebody/tiny-bert"
TEXTS = texts(5, 20)


def same(got, want):
    """Whether two models are equal, bit by bit."""
    assert got.config == want.config and got.sentences == want.sentences
    assert got.max_length == want.max_length
    assert got.tokenizer.fingerprint() == want.tokenizer.fingerprint()
    assert jax.tree.structure(got.params) == jax.tree.structure(want.params)
    jax.tree.map(np.testing.assert_array_equal, got.params, want.params)


@pytest.mark.parametrize("name", ["bert", "longformer", "big_bird", "led"])
def test_models_come_back_as_they_were(name, tmp_path):
    model = tiny(name)
    model.save(tmp_path / "native")
    same(etc_jax.load(tmp_path / "native"), model)
    model.save_pretrained(tmp_path / "hf")
    same(etc_jax.load(str(tmp_path / "hf")), model)
    with pytest.raises(ValueError, match="holds a saved model already; overwrite it"):
        model.save(tmp_path / "native")
    model.save(tmp_path / "native", overwrite=True)
    with pytest.raises(ValueError, match="is there and not empty"):
        model.save_pretrained(tmp_path / "hf")


def test_what_sentence_transformers_says_is_the_default_and_comes_back(tmp_path):
    says = SentenceFolder("cls", True, 12)
    model = tiny("bert", sentences=says, max_length=12)
    model.save_pretrained(tmp_path / "hf")
    modules = json.loads((tmp_path / "hf/modules.json").read_text())
    kinds = [m["type"].rpartition(".")[2] for m in modules]
    assert kinds == ["Transformer", "Pooling", "Normalize"]
    back = etc_jax.load(tmp_path / "hf")
    same(back, model)
    back.save(tmp_path / "native")
    same(etc_jax.load(tmp_path / "native"), model)
    given = ["red is the green", "blue"]
    np.testing.assert_array_equal(
        back.encode(given),
        tiny("bert").encode(given, pooling="cls", normalize=True),
    )
    np.testing.assert_array_equal(
        back.encode(given, pooling="mean", normalize=False), tiny("bert").encode(given)
    )
    longer = etc_jax.load(tmp_path / "hf", max_length=20)
    assert longer.max_length == longer.sentences.max_length == 20
    tiny("bert", sentences=SentenceFolder("mean", True, 514)).save(tmp_path / "more")
    assert etc_jax.load(tmp_path / "more").max_length == 96


def test_a_transformer_in_a_folder_of_its_own_is_found(tmp_path):
    tiny("bert", sentences=SentenceFolder("mean", False)).save_pretrained(
        tmp_path / "st"
    )
    inner = tmp_path / "st/0_Transformer"
    inner.mkdir()
    for path in list((tmp_path / "st").iterdir()):
        if path.is_file() and path.name != "modules.json":
            shutil.move(path, inner / path.name)
    modules = json.loads((tmp_path / "st/modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (tmp_path / "st/modules.json").write_text(json.dumps(modules))
    found = etc_jax.load(tmp_path / "st")
    np.testing.assert_array_equal(found.encode(TEXTS), tiny("bert").encode(TEXTS))


@pytest.mark.parametrize(
    "name, change, message",
    [
        ("modules.json", lambda x: x[:1], "has the modules Transformer; what is known"),
        (
            "modules.json",
            lambda x: [*x, {**x[0], "type": "sentence_transformers.models.Dense"}],
            "has the modules Transformer, Pooling, Normalize, Dense",
        ),
        (
            "modules.json",
            lambda x: [{**x[0], "path": "../other"}, *x[1:]],
            "names '../other', no folder in",
        ),
        (
            "modules.json",
            lambda x: [x[0], {**x[1], "path": "/"}, x[2]],
            "names '/', no folder in",
        ),
        ("modules.json", lambda x: {"a": 1}, "is damaged"),
        (
            "1_Pooling/config.json",
            lambda x: {**x, "pooling_mode_max_tokens": True},
            "has the pooling mean_tokens, max_tokens; what is known",
        ),
        ("1_Pooling/config.json", lambda x: {}, "has the pooling of none"),
        (
            "sentence_bert_config.json",
            lambda x: {**x, "max_seq_length": "9"},
            "max_seq_length is '9'; expected 1 or more",
        ),
        (
            "sentence_bert_config.json",
            lambda x: {**x, "do_lower_case": True},
            "do_lower_case is true",
        ),
    ],
)
def test_other_ways_to_a_vector_are_refused(name, change, message, tmp_path):
    for path, content in sentence_folder.files_of(
        SentenceFolder("mean", True, 9), 8
    ).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    values = json.loads((tmp_path / name).read_text())
    assert sentence_folder.read(tmp_path) == SentenceFolder("mean", True, 9)
    (tmp_path / name).write_text(json.dumps(change(values)))
    with pytest.raises(ValueError, match=message):
        sentence_folder.read(tmp_path)


def test_pooling_is_read_as_newer_files_name_it(tmp_path):
    files = sentence_folder.files_of(SentenceFolder("mean", False), 8)
    (tmp_path / "1_Pooling").mkdir()
    (tmp_path / "modules.json").write_bytes(files["modules.json"])
    values = {"embedding_dimension": 8, "pooling_mode": "cls"}
    (tmp_path / "1_Pooling/config.json").write_text(json.dumps(values))
    assert sentence_folder.read(tmp_path) == SentenceFolder("cls", False)


def encoder_run(folder):
    """A checkpoint of a BERT as a run leaves it."""
    values = config_lib.default_config("bert").to_dict()
    values["model"] |= dataclasses.asdict(CONFIGS["bert"])
    values["objective"]["name"] = "masked_lm"
    values["data"] |= {"vocab_size": len(PIECES), "input_length": 32}
    values["data"] |= {"max_sentence_tokens": 32}
    config = config_lib.from_config_dict(values)
    params = jax.tree.map(jax.numpy.asarray, params_of("bert"))
    with Checkpointer(folder, keep=1) as checkpointer:
        state = TrainState(np.int32(3), params, {"count": np.int32(3)})
        data = {"step": 3, "config": config_lib.to_dict(config)}
        checkpointer.save(jax.tree.map(jax.numpy.asarray, state), data, step=3)
    WordPieceTokenizer(PIECES).save(folder / TOKENIZER)
    return folder


def test_a_run_is_loaded_and_saved(tmp_path):
    run = etc_jax.load(encoder_run(tmp_path / "run"), step=3)
    want = tiny("bert")
    same(run, want)
    assert run.run.step == 3
    np.testing.assert_array_equal(run.encode(TEXTS), want.encode(TEXTS))
    run.save(tmp_path / "saved")
    same(etc_jax.load(tmp_path / "saved"), want)
    with pytest.raises(ValueError, match="is a converted model and no run: leave s"):
        etc_jax.load(tmp_path / "saved", step=3)


def test_a_language_model_continues_and_has_no_states(tmp_path):
    module = ReformerLm(REFORMER)
    tokens = np.ones((1, 4), int)
    params = jax.jit(module.init)(jax.random.key(0), tokens)["params"]
    model = etc_jax.load(save_run(tmp_path, params, "bytes"))
    [text] = model.generate(["ab"], num_tokens=4, temperature=0)
    assert 1 <= len(text) <= 4
    with pytest.raises(ValueError, match="no option num_beam of writing; there are"):
        model.generate(["ab"], num_beam=2)
    with pytest.raises(ValueError, match="of family 'reformer', which does not"):
        model.encode(["ab"])


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """A cache of Hugging Face with one repository, and nothing fetched."""
    hub = tmp_path / "hub"
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = hub / "models--somebody--tiny-bert"
    (repository / "refs").mkdir(parents=True)
    (repository / "refs/main").write_text(commit)
    tiny("bert").save_pretrained(repository / "snapshots" / commit)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(hub))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)
    return hub


def test_a_name_is_found_in_the_cache_and_a_folder_comes_first(cache):
    same(etc_jax.load(NAME), tiny("bert"))
    tiny("longformer").save(pathlib.Path(NAME))
    same(etc_jax.load(NAME), tiny("longformer"))


@pytest.mark.parametrize(
    "place, message",
    [
        (
            "somebody/other",
            r"'somebody/other' is neither a folder here.*run `hf d",
        ),
        ("other", "'other' is neither a folder here"),
        ("./somebody/tiny-bert", "there is no folder ./somebody/tiny-bert; expected"),
        ("a/b/c", "there is no folder a/b/c"),
        ("s3://bucket/model", "the model is 's3://bucket/model'; expected a path"),
        (
            "hub/models--somebody--tiny-bert/refs/main",
            "a file; expected the folder",
        ),
        ("hub", "is hub, which has no model: neither config.json of Hugging Face"),
    ],
)
def test_a_place_without_a_model_is_told(cache, place, message):
    with pytest.raises(ValueError, match=message):
        etc_jax.load(place)


def test_nothing_is_fetched_unless_asked_for(cache, monkeypatch):
    asked = []

    def fetched(name, **options):
        asked.append((name, options["local_files_only"]))
        raise errors.LocalEntryNotFoundError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    with pytest.raises(ValueError, match="nothing is fetched"):
        etc_jax.load("somebody/other")
    with pytest.raises(ValueError, match="fetching it failed: no network"):
        etc_jax.load("somebody/other", download=True)
    assert asked == [("somebody/other", True), ("somebody/other", False)]


def test_a_tokenizer_of_another_model_is_refused(tmp_path):
    larger = WordPieceTokenizer([*PIECES, "more"])
    tiny("bert", tokenizer=larger).save(tmp_path / "model")
    told = "pieces of text up to id 16, but the table of the model has 16 rows"
    with pytest.raises(ValueError, match=told):
        etc_jax.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["bert", "led"])
def test_an_id_without_a_row_is_refused_where_a_text_has_it(name, tmp_path):
    # A token that was added to the tokenizer alone, and is found in texts.
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    words = [{"content": "[q]", **flags}]
    tokenizer = GrownTokenizer(WordPieceTokenizer(PIECES), ["[q]"], words)
    tiny(name, tokenizer=tokenizer).save(tmp_path / "model")
    model = etc_jax.load(tmp_path / "model")
    assert model.tokenizer.vocab_size == model.config.vocab_size + 1
    assert len(model.inputs_of(["red", "blue"])) == 2
    told = r"has '\[q\]', id 16 of the tokenizer, but .* rows for ids 0 to 15"
    with pytest.raises(ValueError, match=rf"texts\[1\] {told}"):
        model.encode(["red", "[q] blue"])
    if name == "led":
        with pytest.raises(ValueError, match=f"input 1 {told}"):
            model.generate(["red", "[q] blue"])
    with pytest.raises(ValueError, match=f"the prompt {told}"):
        TextCodec(tokenizer, 16).encode("[q]")


def test_a_max_length_without_positions_is_refused(tmp_path):
    tiny("bert").save(tmp_path / "model")
    with pytest.raises(ValueError, match="is 97; expected 3 to 96: .* no positions"):
        etc_jax.load(tmp_path / "model", max_length=97)


def test_relative_positions_have_no_limit_but_one_that_is_asked_for(tmp_path):
    says = SentenceFolder("mean", False, 20)
    tiny("t5").save_pretrained(tmp_path / "plain")
    tiny("t5", sentences=says).save_pretrained(tmp_path / "sentences")
    for name, asked, longest in (
        ("plain", None, None),
        ("plain", 3000, 3000),
        ("sentences", None, 20),
        ("sentences", 3000, 3000),
    ):
        assert etc_jax.load(tmp_path / name, max_length=asked).max_length == longest
    with pytest.raises(ValueError, match="max_length is 2; expected 3 or more"):
        etc_jax.load(tmp_path / "plain", max_length=2)


def test_importing_the_package_imports_no_jax():
    told = "import sys, etc_jax; print('jax' in sys.modules, callable(etc_jax.load))"
    got = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True)
    assert got.stdout.split() == ["False", "True"], got.stderr


@pytest.mark.parametrize("place", [None, 3, ["a"], b"a"])
def test_what_is_no_path_is_told(place):
    with pytest.raises(ValueError, match="the model is .*; expected a path, or the na"):
        etc_jax.load(place)
