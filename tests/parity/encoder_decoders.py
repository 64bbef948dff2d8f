"""Golden cases of transformers' BART, LED, T5 and LongT5."""

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion.families.encoder_decoder import export_hf, read_hf, refined
from etc_jax.conversion.families.encoder_decoder_config import (
    config_from_hf,
    config_to_hf,
)
from etc_jax.data.pretraining.global_tokens import global_index
from etc_jax.models.encoder_decoder import EncoderDecoder
from parity.cases import Case
from parity.peers import (
    GRADIENT_NORMS,
    Comparison,
    Peer,
    check_export,
    token_loss,
    value_and_grad,
)

# Who wrote the file is not what it says.
_OF_THE_WRITER = {"transformers_version"}


def layer_outputs(found, count: int) -> list[np.ndarray]:
    """What comes out of each layer of a stack, from its `intermediates`."""
    period = found["stack"]["layers"]["period"]
    kinds = [period[f"layer_{i}"]["output"][0] for i in range(count)]
    return [kind[run] for run in range(kinds[0].shape[0]) for kind in kinds]


def hidden_states(found, last, count: int = 1) -> list[np.ndarray]:
    """As transformers lists them: embeddings, layers, and the last one normed."""
    (embedded,) = found["embedded"]
    return [embedded, *layer_outputs(found, count)[:-1], last]


def every_output(module, tokens, decoder_tokens, *more):
    """(rows of the encoder, of the decoder, logits) of an `EncoderDecoder`."""
    input_ids, target_ids, index = more
    memory = module.encode(tokens, input_ids, index)
    last = module.decode(memory, decoder_tokens, target_ids)
    return memory.rows, last, module.vocabulary_logits(last)


def _check_config(values: dict, config) -> None:
    """Every key of the file comes back with its value."""
    written = config_to_hf(config)
    for key in values.keys() - _OF_THE_WRITER:
        assert written[key] == values[key], key


def _inputs(peer: Peer):
    """(tokens, decoder tokens, their example ids, global tokens) and the targets."""
    tokens = peer.take("input_ids")
    mask = peer.take("attention_mask", np.ones_like(tokens))
    labels = peer.take("labels")
    decoder_tokens = peer.take("decoder_input_ids")
    if decoder_tokens is None:
        # The targets moved one place on; what is not counted is padding.
        moved = np.where(labels < 0, peer.values["pad_token_id"], labels)[:, :-1]
        start = np.full_like(labels[:, :1], peer.values["decoder_start_token_id"])
        decoder_tokens = np.concatenate([start, moved], axis=1)
    target_mask = peer.take("decoder_attention_mask", np.ones_like(decoder_tokens))
    is_global = peer.take("global_attention_mask")
    index = None if is_global is None else global_index(is_global * mask)
    assert not peer.inputs, f"unknown inputs {sorted(peer.inputs)}"
    return (tokens, decoder_tokens, mask, target_mask, index), labels


def run(case: Case) -> float:
    """Hidden states, logits, loss and gradient norms."""
    peer = Peer(case)
    config = refined(config_from_hf(peer.values), peer.weights)
    _check_config(peer.values, config)
    model = EncoderDecoder(config)
    inputs, labels = _inputs(peer)
    params, _ = read_hf(peer.values, peer.weights, config)
    check_export(export_hf(params, config), peer.weights)

    @jax.jit
    def outputs(params):
        apply = model.apply
        more = {"method": every_output, "mutable": ["intermediates"]}
        return apply({"params": params}, *inputs, **more)

    def loss(params):
        logits = model.apply({"params": params}, *inputs)
        return token_loss(logits, jnp.asarray(labels))

    (encoded, decoded, logits), found = outputs(params)
    found = found["intermediates"]
    compare = Comparison(peer.outputs, inputs[2])
    states = hidden_states(found["encoder"], encoded, len(config.patterns))
    for i, x in enumerate(states):
        compare.rows(f"encoder_hidden_states.{i}", x)
    compare.rows("encoder_last_hidden_state", encoded)
    compare.mask = inputs[3]
    for i, x in enumerate(hidden_states(found["decoder"], decoded)):
        compare.rows(f"decoder_hidden_states.{i}", x)
    compare.rows("logits", logits)
    if not compare.has("loss", *GRADIENT_NORMS):
        return compare.finish()
    got, gradients = value_and_grad(loss, params)
    compare.value("loss", got)
    gradients = jax.tree.map(np.asarray, export_hf(gradients, config))
    compare.gradient_norms(gradients)
    return compare.finish()
