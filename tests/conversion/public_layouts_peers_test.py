"""Folders as public models have them: in, out, and what transformers computes."""

from __future__ import annotations

import copy
import dataclasses

import double_precision
import jax
import jax.numpy as jnp
import numpy as np
import public_layouts
import pytest
from random_params import assert_equal

import etc_jax
from etc_jax.cli import convert
from etc_jax.conversion.formats import native
from etc_jax.models.encoder.config import EncoderConfig
from etc_jax.models.encoder_decoder.body import EncoderDecoder

pytestmark = pytest.mark.torch

TOLERANCE, IN_DOUBLE = 1e-5, 1e-9
LAYOUTS = (
    public_layouts.bart_large_cnn,
    public_layouts.bart_base_of_fairseq_0_9,
    public_layouts.bart_base_of_fairseq_0_12,
    public_layouts.long_t5_tglobal,
    public_layouts.mt5_small,
    public_layouts.xlm_roberta_base,
)
TEXTS = public_layouts.TEXTS[:2]
WRITTEN = 6


def _theirs(model, ids: np.ndarray):
    """(hidden states of the encoder, logits of an encoder-decoder or None)."""
    torch = pytest.importorskip("torch")
    tokens = torch.tensor(ids)[None]
    with torch.no_grad():
        if not model.config.is_encoder_decoder:
            out = model(tokens, output_hidden_states=True)
            return out.hidden_states[-1].numpy()[0], out.logits.numpy()[0]
        out = model(tokens, decoder_input_ids=tokens)
    return out.encoder_last_hidden_state.numpy()[0], out.logits.numpy()[0]


def _logits_in_double(model: etc_jax.LoadedModel, ids: np.ndarray) -> np.ndarray:
    tokens = jnp.asarray(ids)[None]
    config = dataclasses.replace(model.config, dtype="float64")
    params = jax.tree.map(lambda x: np.asarray(x, np.float64), model.params)
    apply = jax.jit(EncoderDecoder(config).apply)
    return np.asarray(apply({"params": params}, tokens, tokens))[0]


def _close(got: np.ndarray, want: np.ndarray, tolerance: float = TOLERANCE) -> None:
    scale = np.abs(want).max()
    assert scale > 0.1
    np.testing.assert_allclose(got, want, tolerance, tolerance * scale)


def _written_texts(model, tokenizer, ids: list[np.ndarray]) -> list[str]:
    """What transformers writes for each input, as its users decode it."""
    torch = pytest.importorskip("torch")
    found = []
    for row in ids:
        tokens = torch.tensor(row)[None]
        out = model.generate(tokens, max_new_tokens=WRITTEN, num_beams=1)
        found.append(tokenizer.decode(out[0], skip_special_tokens=True))
    return found


@pytest.mark.parametrize("build", LAYOUTS, ids=lambda build: build.__name__)
def test_a_public_layout_is_read_and_written_as_transformers_has_it(build, tmp_path):
    transformers = pytest.importorskip("transformers")
    layout = build(tmp_path / "public")
    of_fairseq = layout.source.is_file()
    flag = "fairseq" if of_fairseq else "hf"
    ours, back = tmp_path / "ours", tmp_path / "back"
    assert convert.main([f"--{flag}={layout.source}", f"--out={ours}"]) == 0
    assert convert.main([f"--to_hf={ours}", f"--out={back}"]) == 0
    model = etc_jax.load(ours)
    if not of_fairseq:
        at_once = etc_jax.load(layout.source)
        assert_equal(at_once.params, model.params)
        assert at_once.tokenizer.fingerprint() == model.tokenizer.fingerprint()
    model.save_pretrained(tmp_path / "saved")
    # The card tells by which command the folder was written.
    for name in sorted({path.name for path in back.iterdir()} - {native.CARD}):
        assert (back / name).read_bytes() == (tmp_path / "saved" / name).read_bytes()
    again = etc_jax.load(back)
    assert_equal(again.params, model.params)
    assert again.tokenizer.fingerprint() == model.tokenizer.fingerprint()

    # Texts are the same ids to all, in the folder that was written too.
    tokenizer = transformers.AutoTokenizer.from_pretrained(back)
    texts = list(public_layouts.TEXTS)
    wanted = public_layouts.ids_of(layout.tokenizer, texts)
    for known in (wanted, public_layouts.ids_of(tokenizer, texts)):
        for one, ids in zip(model.inputs_of(texts), known, strict=True):
            np.testing.assert_array_equal(one.ids, ids)

    # What they compute is the same, before and after.
    auto = transformers.AutoModelForSeq2SeqLM
    if isinstance(model.config, EncoderConfig):
        auto = transformers.AutoModelForMaskedLM
    public = layout.model if of_fairseq else auto.from_pretrained(layout.source).eval()
    written = auto.from_pretrained(back).eval()
    states = model(texts)
    for i, ids in enumerate(wanted):
        hidden, logits = _theirs(public, ids)
        _close(states.states[i, : states.lengths[i]], hidden)
        for got, want in zip(_theirs(written, ids), (hidden, logits), strict=True):
            _close(got, want)
    if isinstance(model.config, EncoderConfig):
        return
    # T5 does not scale its attention: of these logits the peer itself rounds away more
    # than the tolerance.
    with double_precision.ours(), double_precision.theirs():
        _, exact = _theirs(copy.deepcopy(public).double(), wanted[-1])
        _close(_logits_in_double(model, wanted[-1]), exact, IN_DOUBLE)
    generated = model.generate(texts[:2], num_tokens=WRITTEN)
    for peer in (public, written):
        assert generated == _written_texts(peer, layout.tokenizer, wanted[:2])
