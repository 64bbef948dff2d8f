"""Texts of an encoder-decoder on the command line."""

import dataclasses
import functools
import gzip
import io
import json

import jax.numpy as jnp
import numpy as np
import pytest
from causal_pairs import PIECES
from random_params import random_params
from tiny_model import REFORMER_OF_BYTES

import etc_jax
from etc_jax.cli import convert, generate
from etc_jax.conversion.formats import generation_file, native
from etc_jax.data.text.cache import TOKENIZER
from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from etc_jax.datasets.pairs import Pair, PairOptions, encoded
from etc_jax.generation import decoding, loop as generation, text_writer
from etc_jax.generation.beam_search import Beams
from etc_jax.generation.loop import Options
from etc_jax.models.bart.config import BartConfig
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.led.config import LedConfig
from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.seq2seq import ReformerSeq2Seq, ReformerSeq2SeqConfig
from etc_jax.models.sled.config import SledConfig
from etc_jax.models.t5.config import T5Config

CLS, SEP = PIECES.index("[CLS]"), PIECES.index("[SEP]")
SIZES = {
    "vocab_size": len(PIECES),
    "embed_dim": 8,
    "num_heads": 2,
    "num_layers": 1,
    "num_decoder_layers": 1,
    "mlp_dim": 8,
    "max_length": 128,
    "max_target_length": 16,
    "pad_id": PIECES.index("[PAD]"),
    "decoder_start_id": CLS,
    "eos_id": SEP,
}
CONFIG = LedConfig(**SIZES, attention_window=(4,))
REFORMER = ReformerSeq2SeqConfig(
    **SIZES,
    pattern=("local",),
    decoder_pattern=("lsh",),
    axial_shape=None,
    local_chunk_length=128,
    lsh_chunk_length=4,
    num_buckets=(2,),
)
# One that reads so little that its inputs are too long for it.
OF_SHORT = {k: x for k, x in SIZES.items() if not k.startswith("max_")}
SHORT = BartConfig(**OF_SHORT, max_length=16, forced_eos_id=None)
# (module, global tokens of an input).
FAMILIES = {
    "led": (EncoderDecoder(CONFIG), np.zeros((1, 1), int)),
    "reformer_seq2seq": (ReformerSeq2Seq(REFORMER), None),
    "bart": (EncoderDecoder(SHORT), None),
    # Its positions are relative.
    "t5": (EncoderDecoder(T5Config(**OF_SHORT, max_length=16, head_dim=4)), None),
}
WORDS = [x for x in PIECES if x.isalpha()]
# Of different lengths, the longest in a bucket of its own.
TEXTS = [" ".join(WORDS[:n] * m) for n, m in ((3, 1), (5, 17), (2, 1))]


@functools.cache
def params_of(family):
    tokens = np.ones((1, 4), np.int32)
    return random_params(FAMILIES[family][0].init, tokens, tokens, spread=0.8)


def saved(folder, family="led"):
    """The folder of a converted model."""
    config = FAMILIES[family][0].config
    files = {TOKENIZER: WordPieceTokenizer(PIECES).saved()}
    native.save(folder, params_of(family), config, {"made_from": {}}, files=files)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved(tmp_path_factory.mktemp("converted") / "led")


@pytest.fixture
def ask(capsysbinary):
    """Runs the command; gives (exit code, lines on standard output, errors)."""

    def ask(model, *argv):
        code = generate.main([f"--model={model}", *argv])
        out, err = capsysbinary.readouterr()
        return code, out.decode().splitlines(), err.decode()

    return ask


def standard_input(texts):
    return io.TextIOWrapper(io.BytesIO("".join(f"{x}\n" for x in texts).encode()))


def ids_of(text):
    tokenizer = WordPieceTokenizer(PIECES)
    [(ids, _)] = tokenizer.encode_batch([text])
    return [CLS, *ids, SEP]


@pytest.mark.parametrize("family", ["led", "reformer_seq2seq"])
@pytest.mark.full(but=["led"])
def test_lines_are_the_texts_of_a_search_in_their_order(ask, family, tmp_path):
    model = saved(tmp_path / family, family)
    module, index = FAMILIES[family]
    config, begins = module.config, module.config.begin_token
    file = tmp_path / "some.jsonl"
    records = [{"id": f"r{i}", "input": text} for i, text in enumerate(TEXTS)]
    file.write_text("".join(f"{json.dumps(x)}\n" for x in records))
    how = ("--num_beams=3", "--num_texts=2", "--num_tokens=6", "--batch_size=2")
    code, lines, err = ask(model, f"--inputs={file}", *how)
    assert (code, err) == (0, "")
    found = [json.loads(line) for line in lines]
    assert [x["id"] for x in found] == ["r0", "r1", "r2"]
    decoder, params = decoding.decoder_of(family, config), params_of(family)
    rules = generation.rules_of(config)
    options = Options(6, rules, Beams(3), num_texts=2, pad_id=config.pad_id)
    for text, got in zip(TEXTS, found, strict=True):
        # Alone, without padding; the first token of a LED is global.
        ids = jnp.asarray([ids_of(text)[0 if begins else 1 :]])
        memory = generation.encode(decoder, params, ids, None, index)
        want = generation.write(
            decoder, params, np.array([[CLS]]), options, memory=memory
        )
        np.testing.assert_allclose(got["scores"], want.scores[0], rtol=1e-4)
        texts = [
            text_writer.written_text(t[:n], WordPieceTokenizer(PIECES))
            for t, n in zip(np.asarray(want.tokens[0]), want.lengths[0], strict=True)
        ]
        assert got["outputs"] == texts
    assert len({x["scores"][0] for x in found}) == 3
    # One input, in plain.
    code, lines, _ = ask(model, f"--prompt={TEXTS[0]}", *how[:-1])
    assert (code, lines) == (0, found[0]["outputs"])


WINDOWS = ("--sled.window=8", "--sled.prefix_length=4", "--sled.input_length=100")


def test_a_model_of_short_texts_reads_long_ones_by_windows(ask, tmp_path):
    model = saved(tmp_path / "bart", "bart")
    config = dataclasses.replace(
        SHORT, sled=SledConfig(window=8, prefix_length=4, input_length=100)
    )
    tokenizer = WordPieceTokenizer(PIECES)
    options = PairOptions(SHORT.begin_token, 4)
    found = encoded(Pair("", TEXTS[1], None, "red"), tokenizer, options)
    assert len(found.ids) > 80
    decoder = decoding.decoder_of("bart", config)
    rules = generation.rules_of(config, min_tokens=5)
    memory = generation.encode(
        decoder, params_of("bart"), *(np.array([x]) for x in found[:2])
    )
    want = generation.write(
        decoder,
        params_of("bart"),
        np.array([[CLS]]),
        Options(5, rules, Beams(2), pad_id=config.pad_id),
        memory=memory,
    )
    how = ("--num_beams=2", "--num_tokens=5", "--min_tokens=5")
    given = (f"--prompt={TEXTS[1]}", "--prefix=red")
    code, [line], err = ask(model, *given, *how, *WINDOWS)
    assert (code, err) == (0, "")
    assert line == text_writer.written_text(np.asarray(want.tokens[0, 0]), tokenizer)


@pytest.mark.parametrize(
    "argv, message",
    [
        (["--sled.window=8", "--sled.padding_share=1"], "--sled.padding_share is 1.0;"),
        (["--sled.window=14", *WINDOWS[1:]], "--sled.window is 14, with prefix_length"),
        (["--sled.prefix_length=4"], "--sled.window is 0, so that the input is read"),
    ],
)
def test_windows_that_cannot_be_are_refused(ask, tmp_path, argv, message):
    model = saved(tmp_path / "bart", "bart")
    code, lines, err = ask(model, f"--prompt={TEXTS[0]}", *argv)
    assert (code, lines) == (2, []) and message in err and err.count("\n") == 1


@pytest.mark.parametrize("family", ["bart", "t5"])
@pytest.mark.full(but=["t5"])
def test_what_is_cut_is_counted(ask, tmp_path, family, monkeypatch):
    lengths, encode = [], generation.encode

    def noted(decoder, params, tokens, ids, *args):
        lengths.extend(np.sum(ids, axis=1).tolist())
        return encode(decoder, params, tokens, ids, *args)

    monkeypatch.setattr(generation, "encode", noted)
    monkeypatch.setattr("sys.stdin", standard_input(TEXTS))
    given = "--inputs=-", "--batch_size=4", "--num_tokens=1"
    code, lines, err = ask(saved(tmp_path / family, family), *given)
    whole = [len(ids_of(text)) - (family == "t5") for text in TEXTS]
    cut = [min(n, 16) for n in whole] if family == "bart" else whole
    assert (code, len(lines), sorted(lengths[:3])) == (0, 3, sorted(cut))
    told = f"more than the 16 tokens that the model reads, up to {max(whole)}"
    told = f"etc-jax generate: 1 of 3 inputs have {told}; they were cut\n"
    assert err == ("" if family == "t5" else told)


def test_a_long_input_lengthens_its_own_batch_alone(ask, model, monkeypatch):
    shapes, encode = [], generation.encode

    def noted(decoder, params, tokens, *args):
        shapes.append(tokens.shape)
        return encode(decoder, params, tokens, *args)

    monkeypatch.setattr(generation, "encode", noted)
    texts = [TEXTS[2], TEXTS[1], *[TEXTS[0]] * 4]
    monkeypatch.setattr("sys.stdin", standard_input(texts))
    code, lines, _ = ask(model, "--inputs=-", "--batch_size=2", "--num_tokens=1")
    assert (code, len(lines)) == (0, 6)
    assert shapes == [(2, 64), (2, 64), (2, 128)]


def test_a_prompt_and_standard_input_give_the_same_text(ask, model, monkeypatch):
    how = ("--num_tokens=5", "--no_repeat_ngram=1", "--min_tokens=3")
    code, [plain], _ = ask(model, f"--prompt={TEXTS[0]}", *how)
    monkeypatch.setattr("sys.stdin", standard_input(TEXTS[:1]))
    code, [line], _ = ask(model, "--inputs=-", *how)
    assert code == 0 and json.loads(line)["output"] == plain
    assert json.loads(line)["id"] == "-:1" and plain


def test_what_is_no_input_is_named_and_the_others_are_written(ask, model, tmp_path):
    lines = [TEXTS[0].encode(), b"", b"caf\xe9", b" \t", TEXTS[2].encode()]
    plain, packed = tmp_path / "a.txt", tmp_path / "b.jsonl.gz"
    plain.write_bytes(b"\xef\xbb\xbf" + b"\n".join(lines))
    rows = [{"input": TEXTS[2]}, {"inputs": TEXTS[0]}, {"input": TEXTS[2], "id": 7}]
    content = gzip.compress("".join(f"{json.dumps(x)}\n" for x in rows).encode())
    packed.write_bytes(content)
    how = "--num_tokens=3", "--min_tokens=3"
    code, written, err = ask(model, "--inputs", str(plain), str(packed), *how)
    found = [json.loads(line) for line in written]
    assert code == 0
    assert [x["id"] for x in found] == ["a.txt:1", "a.txt:5", "b.jsonl.gz:1", "7"]
    # The same text is written alone, and whatever stands beside it.
    assert len({x["output"] for x in found[1:]}) == 1
    said = [line.partition("generate: ")[2] for line in err.splitlines()]
    assert f"no text: {plain}, line 2: the input is blank" in said[0]
    assert f"not UTF-8: {plain}: line 3: " in said[1]
    assert f"no text: {plain}, line 4: the input is blank" in said[2]
    assert f"missing field: {packed}, line 2: no 'input'; fields are: inputs" in said[3]
    # What is before the damage is written first.
    packed.write_bytes(content[:-6])
    code, written, err = ask(model, f"--inputs={packed}", *how)
    assert code == 2 and "file cut short: " in err and f"{packed}, after line" in err
    assert [json.loads(line) for line in written] == found[2:]
    plain.write_text("\n")
    code, written, err = ask(model, f"--inputs={plain}", *how)
    assert (code, written) == (2, []) and "there is no input to answer" in err


def test_a_file_holds_one_prompt(ask, model, tmp_path):
    how = "--num_tokens=3", "--min_tokens=3"
    want = ask(model, f"--prompt={TEXTS[0]}", *how)
    for name, content in (
        ("a.txt", b"\xef\xbb\xbf" + TEXTS[0].encode()),
        ("a.txt.gz", gzip.compress(TEXTS[0].encode(), mtime=0)),
    ):
        (tmp_path / name).write_bytes(content)
        assert ask(model, f"--prompt_file={tmp_path / name}", *how) == want
    (tmp_path / "a.txt").write_text("red", encoding="utf-16")
    code, _, err = ask(model, f"--prompt_file={tmp_path / 'a.txt'}", *how)
    assert code == 2 and f"not in UTF-8: {tmp_path / 'a.txt'}: it begins with" in err


HOW = {"decoder_start_token_id": CLS, "eos_token_id": SEP, "max_length": 7}


def test_a_folder_says_how_its_texts_are_written(ask, tmp_path, caplog):
    folder = saved(tmp_path / "led")
    banned = [PIECES.index(word) for word in WORDS[:3]]
    values = HOW | {"num_beams": 3, "suppress_tokens": banned, "min_p": 0.1}
    values |= {"do_sample": True, "min_length": 3}
    (folder / generation_file.FILE).write_text(json.dumps(values))
    ids = ",".join(map(str, banned))
    how = ("--num_beams=3", "--num_tokens=6", "--min_tokens=2", "--forced_eos_ids=")
    given = f"--prompt={TEXTS[0]}"
    want = ask(saved(tmp_path / "plain"), given, *how, f"--suppress_tokens={ids}")
    code, lines, _ = ask(folder, given)
    assert (code, lines) == (0, want[1]) and want[0] == 0
    # What is not supported is told in one line.
    [told] = caplog.messages
    assert "min_p=0.1, do_sample=True" in told
    # What is given decides.
    how = [*how, "--suppress_tokens=", "--num_beams=1"]
    assert ask(folder, given, *how)[1] == ask(tmp_path / "plain", given, *how)[1]
    # In Python too.
    model = etc_jax.load(folder)
    assert model.generate([TEXTS[0]]) == lines


def test_no_more_texts_are_given_than_there_are(ask, tmp_path, monkeypatch):
    model = saved(tmp_path / "bart", "bart")
    word = PIECES.index(WORDS[0])
    how = ["--num_beams=2", "--num_texts=2", "--num_tokens=1", "--forced_eos_ids="]
    monkeypatch.setattr("sys.stdin", standard_input(["red"]))
    code, [line], _ = ask(model, "--inputs=-", *how, f"--forced_bos_ids={word}")
    assert code == 0
    assert json.loads(line) == {"id": "-:1", "outputs": [WORDS[0]], "scores": [0.0]}


def test_options_in_force_are_printed_with_their_sources(ask, tmp_path):
    folder = saved(tmp_path / "led")
    (folder / generation_file.FILE).write_text(json.dumps(HOW | {"num_beams": 3}))
    code, lines, err = ask(folder, "--print_options", "--min_tokens=2", "--top_k=5")
    assert (code, err) == (0, "")
    path = folder / generation_file.FILE
    for line in (
        f"num_beams = 3 ({path})",
        f"num_tokens = 6 ({path})",
        f"eos_ids = ({SEP},) ({path})",
        "min_tokens = 2 (given)",
        "length_penalty = 1.0 (default)",
    ):
        assert line in lines
    code, lines, _ = ask(saved(tmp_path / "plain"), "--print_options")
    assert f"start_id = {CLS} (the model)" in lines


def test_a_folder_that_goes_to_transformers_and_back_keeps_its_options(tmp_path):
    folder, values = saved(tmp_path / "led"), HOW | {"num_beams": 3, "min_p": 0.1}
    (folder / generation_file.FILE).write_text(json.dumps(values))
    there, back = tmp_path / "there", tmp_path / "back"
    without = "--without_tokenizer"
    assert convert.main([f"--to_hf={folder}", f"--out={there}", without]) == 0
    assert convert.main([f"--hf={there}", f"--out={back}", without]) == 0
    etc_jax.load(back).save_pretrained(tmp_path / "again")
    for place in (there, back, tmp_path / "again"):
        assert json.loads((place / generation_file.FILE).read_text()) == values
    # A model without a file says what it is.
    etc_jax.load(saved(tmp_path / "plain")).save_pretrained(tmp_path / "new")
    assert json.loads((tmp_path / "new" / generation_file.FILE).read_text()) == {
        "eos_token_id": SEP,
        "decoder_start_token_id": CLS,
        "pad_token_id": SIZES["pad_id"],
    }


@pytest.fixture
def never_compiled(monkeypatch):
    def fail(*args, **more):
        raise AssertionError("it came to compiling")

    monkeypatch.setattr(generation, "encode", fail)


@pytest.mark.usefixtures("never_compiled")
@pytest.mark.parametrize(
    "argv, message",
    [
        (["--num_beams=0"], "num_beams is 0; expected 1 or more"),
        (["--num_texts=2"], "num_texts is 2; expected 1 to 1, the number of beams"),
        (["--num_tokens=17"], "length is 17, expected 1..16: the model's max_target_l"),
        (["--num_tokens=0"], "num_tokens is 0; expected 1 or more"),
        (["--min_tokens=5", "--num_tokens=4"], "min_tokens is 5; expected 0 to max_to"),
        (["--num_beams=2", "--temperature=1"], "temperature is 1.0, but a beam search"),
        (["--top_p=0"], "top_p is 0.0; expected a number in"),
        (["--repetition_penalty=0"], "repetition_penalty is 0.0; expected 1e-30 to"),
        (["--no_repeat_ngram=-1"], "no_repeat_ngram is -1; expected 0"),
        (
            ["--num_beams=2", "--length_penalty=nan"],
            "length_penalty is nan; expected",
        ),
        (
            ["--num_beams=2", "--length_penalty=-1e308"],
            "length_penalty is -1e+308; expected -28.9 to 28.9, whose powers of 16",
        ),
        (["--temperature=1e-40"], "temperature is 1e-40; expected 0 (the likeliest"),
        (["--temperature=nan"], "temperature is nan; expected 0 (the likeliest"),
        (["--repetition_penalty=inf"], "repetition_penalty is inf; expected 1e-30 to"),
        (["--temperature=1", f"--seed={2**64}"], f"seed is {2**64}; expected a whole"),
        (
            [f"--suppress_tokens={','.join(map(str, range(len(PIECES))))}"],
            f"leave none of the {len(PIECES)} tokens to write",
        ),
        (["--no_repeat_ngram=1", "--eos_ids="], "tokens are to be written without an"),
        ([f"--eos_ids={len(PIECES)}"], f"eos_ids has id {len(PIECES)}; expected rows"),
        (["--start_id=999"], "start_id is 999; expected 0 to"),
        (["--batch_size=0"], "--batch_size is 0; expected 1 or more"),
        (["--prompt="], "no text"),
    ],
)
def test_what_cannot_be_is_one_error_before_compiling(ask, model, argv, message):
    given = argv if argv[0].startswith("--prompt") else ["--prompt=red", *argv]
    code, lines, err = ask(model, *given)
    assert (code, lines) == (2, []) and message in err and err.count("\n") == 1


def test_a_model_without_its_tokenizer_is_refused(ask, tmp_path):
    native.save(tmp_path / "led", params_of("led"), CONFIG, {"made_from": {}})
    code, _, err = ask(tmp_path / "led", "--prompt=red")
    assert code == 2 and "has no tokenizer.json, by which texts become tokens" in err


def test_a_language_model_takes_no_prefix(ask, tmp_path):
    params = random_params(ReformerLm(REFORMER_OF_BYTES).init, np.ones((1, 4), int))
    native.save(tmp_path / "lm", params, REFORMER_OF_BYTES, {"made_from": {}})
    for flag in ("--prefix=a", "--global_tokens=1"):
        code, _, err = ask(tmp_path / "lm", "--prompt=red", flag)
        told = f"is a language model, which does not take {flag.partition('=')[0]}"
        assert code == 2 and told in err
