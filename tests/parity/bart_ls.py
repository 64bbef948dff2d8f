"""Golden cases of BART-LS, whose weights have the names of fairseq."""

import re

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion.engine import import_params
from etc_jax.conversion.renaming import Renamed
from etc_jax.models.bart import fairseq as fairseq_bart
from etc_jax.models.bart_ls.config import BartLsConfig
from etc_jax.models.encoder_decoder import weights as encoder_decoder
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from parity.cases import Case
from parity.encoder_decoders import compare_texts, every_output
from parity.peers import Comparison, Peer, value_and_grad

# Keys of config.json -> fields.
_FIELDS = {
    "vocab_size": "vocab_size",
    "d_model": "embed_dim",
    "encoder_layers": "num_layers",
    "decoder_layers": "num_decoder_layers",
    "pooling_layers": "pooling_layers",
    "encoder_attention_heads": "num_heads",
    "decoder_attention_heads": "num_decoder_heads",
    "encoder_ffn_dim": "mlp_dim",
    "decoder_ffn_dim": "decoder_mlp_dim",
    "block_size": "block_size",
    "max_source_positions": "max_length",
    "max_target_positions": "max_target_length",
    "pad_token_id": "pad_id",
    "bos_token_id": "bos_id",
    "eos_token_id": "eos_id",
    "decoder_start_token_id": "decoder_start_id",
    "scale_embedding": "scale_embedding",
    "pool_kernel": "pool_kernel",
    "pool_stride": "pool_stride",
    "pool_padding": "pool_padding",
    "normalize_before": "pre_norm",
}
_ACTIVATIONS = {"gelu": "gelu_exact", "relu": "relu"}
# Of an encoder alone.
_TABLE = "encoder.embed_tokens.weight"


def _config(values: dict) -> BartLsConfig:
    values = dict(values)
    assert values.pop("model_type") == "bart_ls"
    activation = _ACTIVATIONS[values.pop("activation_function")]
    fields = {_FIELDS[key]: value for key, value in values.items()}
    # An encoder alone is read as if the smallest decoder stood behind it.
    usual = {"num_decoder_layers": 1, "max_target_length": 8, "forced_eos_id": None}
    return BartLsConfig(**{**usual, **fields}, activation=activation)


def _read(peer: Peer, config: BartLsConfig):
    """(parameters, rows of names); those of a decoder that is not there are zeros."""
    weights, _ = fairseq_bart.renamed(peer.weights)
    if any(name.startswith("decoder.") for name in weights):
        return fairseq_bart.import_weights(weights, config)[0]
    alone = Renamed(weights, encoder_decoder.runs_of(config).split)
    abstract = encoder_decoder.shapes(config)
    allowed = ("decoder/.*", "logits_bias")
    params, report = import_params(
        encoder_decoder.names(config), alone, abstract, allow_missing=allowed
    )
    assert all(re.match("decoder|logits_bias", name) for name in report.missing)
    return {
        **params,
        "decoder": jax.tree.map(
            lambda x: jnp.zeros(x.shape, x.dtype), abstract["decoder"]
        ),
        "logits_bias": jnp.zeros(config.vocab_size),
    }


def _fairseq_names(params, config: BartLsConfig) -> dict[str, np.ndarray]:
    """By the names of the file, of the encoder alone."""
    named = encoder_decoder.export_named(params, config)
    named[_TABLE] = named.pop("shared.weight")
    return {name: x for name, x in named.items() if name.startswith("encoder.")}


def _states(found, config: BartLsConfig) -> list:
    """What goes into the first layer, and what comes out of each."""
    states = [found["embedded"][0]]
    for name in ("stack", "top_stack"):
        if name in found:
            states += list(found[name]["layers"]["period"]["layer_0"]["output"][0])
    return states


def run(case: Case) -> float:
    """Hidden states, logits, probed gradients and generated ids."""
    peer = Peer(case)
    config = _config(peer.values)
    params = _read(peer, config)
    for name, array in _fairseq_names(params, config).items():
        np.testing.assert_array_equal(array, peer.weights[name])
    model = EncoderDecoder(config)
    tokens, mask = peer.take("input_ids"), peer.take("attention_mask")
    positions = peer.take("position_ids")
    if positions is not None:
        # Counted here by the mask alone: padding has row 1.
        want = np.where(mask > 0, np.cumsum(mask, axis=1) + 1, 1)
        np.testing.assert_array_equal(positions, want)
    targets = peer.take("decoder_input_ids")
    assert not peer.inputs, f"unknown inputs {sorted(peer.inputs)}"

    @jax.jit
    def outputs(params):
        more = {"mutable": ["intermediates"]}
        if targets is None:
            method = model.encode
            return model.apply({"params": params}, tokens, mask, method=method, **more)
        rest = (targets, mask, np.ones_like(targets), None)
        return model.apply(
            {"params": params}, tokens, *rest, method=every_output, **more
        )

    given, found = outputs(params)
    found = found["intermediates"]
    compare = Comparison(peer.outputs, mask)
    states = _states(found["encoder"], config)
    for i, x in enumerate(states):
        compare.rows(f"encoder_hidden_states.{i}", x)
    compare.rows("encoder_last_hidden_state", given[0])
    worst = 0.0
    if targets is not None:
        compare.mask = np.ones_like(targets)
        for i, x in enumerate(_states(found["decoder"], config)):
            compare.rows(f"decoder_hidden_states.{i}", x)
        compare.rows("logits", given[2])
        inputs = (tokens, None, mask, None, None)
        worst = compare_texts(case, peer, config, params, inputs)
    if compare.has("probe_loss"):
        weight = np.where(mask[..., None] > 0, peer.outputs["probe_weight"], 0)

        def probe(params):
            memory = model.apply({"params": params}, tokens, mask, method=model.encode)
            return jnp.sum(memory.rows * weight)

        got, gradients = value_and_grad(probe, params)
        # A sum of many terms: as a share of their sizes.
        terms = np.sum(np.abs(np.asarray(given[0]) * weight))
        want = peer.outputs["probe_loss"]
        assert abs(got - want) < 1e-5 * terms
        compare.strike_off("probe_loss", "probe_weight")
        gradients = jax.tree.map(np.asarray, gradients)
        # Of the encoder as a module of its own.
        named = _fairseq_names(gradients, config)
        compare.gradient_norms(
            {name.removeprefix("encoder."): x for name, x in named.items()}
        )
    return max(worst, compare.finish())
