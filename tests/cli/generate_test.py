"""A text continued on the command line."""

import dataclasses
import json
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny_model import REFORMER_OF_BYTES as CONFIG

from etc_jax import config as config_lib
from etc_jax.cli import generate
from etc_jax.conversion.formats import generation_file, native
from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from etc_jax.datasets.pairs import Pair
from etc_jax.generation import loop as generation
from etc_jax.generation.text_codecs import ByteCodec
from etc_jax.loading.writers import Reading, writer_of
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.decoding import ReformerDecoder
from etc_jax.training.checkpoints.checkpointer import Checkpointer
from etc_jax.training.errors import UserError
from etc_jax.training.state import TrainState

STEP = 7


@pytest.fixture(scope="module")
def params():
    model = ReformerLm(CONFIG)
    return jax.jit(model.init)(jax.random.key(0), jnp.ones((1, 4), int))["params"]


@pytest.fixture(scope="module")
def converted(params, tmp_path_factory):
    folder = tmp_path_factory.mktemp("converted") / "model"
    native.save(folder, params, CONFIG, {"made_from": {}})
    return folder


def save_run(folder, params, source):
    """A checkpoint as a run leaves it."""
    values = config_lib.default_config("reformer").to_dict()
    values["model"] |= dataclasses.asdict(CONFIG)
    values["objective"]["name"] = "causal_lm"
    paths = ("text",) if source == "bytes" else ()
    values["data"] |= dict(source=source, paths=paths, vocab_size=256, input_length=32)
    config = config_lib.from_config_dict(values)
    with Checkpointer(folder, keep=1) as checkpointer:
        state = TrainState(np.int32(STEP), params, {"count": np.int32(STEP)})
        data = {"step": STEP, "config": config_lib.to_dict(config)}
        checkpointer.save(jax.tree.map(jnp.asarray, state), data, step=STEP)
    return folder


@pytest.fixture(scope="module")
def run(params, tmp_path_factory):
    return save_run(tmp_path_factory.mktemp("run"), params, "bytes")


@pytest.fixture
def ask(capsysbinary):
    """Runs the command; gives (exit code, bytes on standard output, what is told)."""

    def ask(model, *argv):
        code = generate.main([f"--model={model}", *argv])
        out, err = capsysbinary.readouterr()
        return code, out, err.decode()

    return ask


@pytest.fixture
def nothing_compiled(monkeypatch):
    monkeypatch.setattr(generation, "prefill", None)


def test_bytes_follow_as_the_model_draws_them(params, converted, run, ask, tmp_path):
    tokens = np.array([[0, *b"caf\xe9"]], np.int32)
    decoder, rng = ReformerDecoder(CONFIG), jax.random.key(3)
    drawn = generation.Options(28, temperature=0.7, top_k=200)
    want = generation.write(decoder, params, tokens, drawn, rng).tokens
    want = bytes(np.asarray(want[0, 0]).tolist())
    assert max(want) > 127  # no text of any encoding
    (tmp_path / "prompt").write_bytes(b"caf\xe9")
    options = [f"--prompt_file={tmp_path / 'prompt'}", "--num_tokens=28", "--seed=3"]
    options += ["--temperature=0.7", "--top_k=200"]
    for model in (converted, run, run / "checkpoints" / str(STEP)):
        assert ask(model, *options) == (0, want, "")
    assert ask(run, *options[1:], f"--step={STEP}", "--prompt=caf\udce9")[1] == want
    assert ask(converted, *options, "--seed=4")[1] != want


@pytest.mark.service
@pytest.mark.usefixtures("bucket")
def test_a_run_in_a_store_writes_the_same(params, run, folder, ask):
    save_run(folder / "run", params, "bytes")
    (folder / "prompt").write_bytes(b"caf\xe9")
    options = f"--prompt_file={folder / 'prompt'}", "--num_tokens=9"
    assert ask(folder / "run", *options)[:2] == ask(run, *options)[:2]


def test_bytes_may_have_other_ids_before_them(params, ask, tmp_path, monkeypatch):
    config = dataclasses.replace(CONFIG, vocab_size=258)
    native.save(tmp_path / "model", params, config, {})
    given = {}

    def written(decoder, params, prompt, options, rng, numbers):
        given.update(prompt=prompt.tolist(), options=options)
        tokens = jnp.asarray([[[2, 257, 67 + 2][: options.max_tokens]]])
        return generation.Written(tokens, jnp.array([[3]]), jnp.zeros((1, 1)))

    monkeypatch.setattr(generation, "write", written)
    argv = ["--prompt=ab", "--num_tokens=3", "--first_id=2"]
    assert ask(tmp_path / "model", *argv) == (0, b"\x00\xffC", "")
    assert given["prompt"] == [[0, 99, 100]]
    # No other id is written, and one is drawn unless a temperature is given.
    assert given["options"].rules.suppress_tokens == (0, 1)
    assert given["options"].temperature == 1.0


def test_a_folder_says_how_a_language_model_goes_on(params, converted, ask, tmp_path):
    how = ["--prompt=ab", "--temperature=0"]
    code, plain, _ = ask(converted, *how, "--num_tokens=5")
    assert (code, len(plain)) == (0, 5)
    folder = tmp_path / "model"
    native.save(folder, params, CONFIG, {})
    # The length counts the prompt, and what stands before it.
    values = {"max_length": 3 + 5, "suppress_tokens": [plain[0]], "do_sample": False}
    (folder / generation_file.FILE).write_text(json.dumps(values))
    code, other, _ = ask(folder, *how)
    assert (code, len(other)) == (0, 5) and plain[0] not in other
    # What ends a text is not shown.
    values = {"max_new_tokens": 5, "eos_token_id": other[2], "num_beams": 2}
    (folder / generation_file.FILE).write_text(json.dumps(values))
    code, lines, _ = ask(folder, "--print_options")
    assert (code, b"num_beams = 2" in lines, b"temperature" in lines) == (
        0,
        True,
        False,
    )
    beamless = [*how, "--num_beams=1", f"--suppress_tokens={plain[0]}"]
    end = other.index(other[2])
    assert ask(folder, *beamless) == (0, other[:end], "")


@pytest.mark.parametrize(
    "config, argv, message",
    [
        (
            {"causal": False},
            [],
            "has causal=False: its tokens see those after them",
        ),
        (
            {"vocab_size": 258},
            [],
            "has 258 ids and no tokenizer.json, so that they are not just",
        ),
        ({}, ["--first_id=1"], "--first_id is 1, but .* has 256 ids"),
        ({}, ["--step=3"], "is a converted model and no run: leave step=3 out"),
        (
            {},
            ["--num_tokens=28"],
            "6 and 28 tokens that follow need 33 positions",
        ),
        ({}, ["--num_tokens=0"], "num_tokens is 0; expected 1 or more"),
        (
            {},
            ["--temperature=-1"],
            "temperature is -1.0; expected 0 .the likeliest token., or 1e-30 to",
        ),
        ({}, ["--top_p=2"], "top_p is 2.0; expected a number in"),
    ],
)
def test_what_cannot_be_continued_is_told_in_one_line(
    config, argv, message, params, ask, tmp_path, nothing_compiled
):
    changed = dataclasses.replace(CONFIG, **config)
    native.save(tmp_path / "model", params, changed, {})
    code, out, err = ask(tmp_path / "model", "--prompt=abcde", *argv)
    assert (code, out, err.count("\n")) == (2, b"", 1)
    assert re.search(message, err), err


def test_folders_without_a_model_of_bytes_are_told(
    params, run, ask, tmp_path, nothing_compiled
):
    native.save(tmp_path / "etc", {"x": np.zeros(1)}, EtcConfig(), {})
    copies = save_run(tmp_path / "copies", params, "duplication")
    (tmp_path / "empty").mkdir()
    for model, argv, message in (
        (tmp_path / "empty", [], "nor a finished checkpoint, manifest.json"),
        (
            tmp_path / "etc",
            [],
            "models of family 'etc' cannot continue a text: no decoder",
        ),
        (copies, [], "data.source='duplication', which gives symbols; expected a run"),
        (run, ["--first_id=0"], "whose ids are known: leave --first_id out"),
        (run, ["--step=3"], "no finished checkpoint of step 3"),
    ):
        code, out, err = ask(model, "--prompt=a", *argv)
        assert (code, out) == (2, b"") and message in err
    code, _, err = ask(run, f"--prompt_file={tmp_path / 'none'}")
    assert code == 2 and "No such file" in err


def test_bytes_that_the_model_does_not_know_are_told(params, run, ask, monkeypatch):
    codec = ByteCodec(0, vocab_size=128)
    model = generate.LanguageModel(params, ReformerDecoder(CONFIG), codec)
    monkeypatch.setattr(generate, "_writer", lambda args: model)
    code, _, err = ask(run, "--prompt=\udce9")
    assert code == 2 and "has byte 233, but the model knows 128 ids only" in err


@pytest.mark.parametrize("argv", [[], ["--prompt=a", "--prompt_file=b"]])
def test_a_prompt_must_be_given_once(argv, ask, run):
    with pytest.raises(SystemExit) as stopped:
        ask(run, *argv)
    assert stopped.value.code == 2


def test_special_tokens_in_a_prompt(params):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "[", "]"]
    tokenizer = WordPieceTokenizer(pieces)

    def ids(tokenizer, **reading):
        writer = writer_of(params, CONFIG, tokenizer, reading=Reading(**reading))
        return writer.input_of(Pair("", "red [SEP]", None)).ids.tolist()

    assert ids(tokenizer) == [5, 6, 1, 7]
    assert ids(tokenizer, special_tokens_in_text=True) == [5, 3]
    with pytest.raises(UserError, match="a model of bytes has no special tokens"):
        ids(None, special_tokens_in_text=True)
