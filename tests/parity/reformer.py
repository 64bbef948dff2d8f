"""Golden cases of transformers' Reformer."""

import dataclasses

import jax
import numpy as np

from etc_jax.models.reformer.body import ReformerLm
from etc_jax.models.reformer.weights import config_from_hf, export_hf, import_hf
from parity.cases import Case
from parity.peers import (
    GRADIENT_NORMS,
    Comparison,
    Peer,
    check_export,
    outputs_and_gradients,
    token_loss,
)

# float32 as it is there, and the same in float64, by rounding.
_OUTPUTS = {"transformers": "", "exact": "exact."}
# transformers 5 keeps the bias of the logits and does not add it.
_UNUSED = "lm_head.bias"


def run(case: Case) -> float:
    """Compares both roundings, as far as the case has them."""
    names = Peer(case).outputs
    found = [
        _run(case, rounding)
        for rounding, start in _OUTPUTS.items()
        if not start or any(name.startswith(start) for name in names)
    ]
    return max(found)


def _run(case: Case, rounding: str) -> float:
    """Compares buckets, hidden states, logits, losses and gradient norms."""
    peer = Peer(case)
    config = dataclasses.replace(config_from_hf(peer.values), rounding=rounding)
    model, tokens = ReformerLm(config), peer.take("input_ids")
    mask = peer.take("attention_mask", np.ones_like(tokens))
    rotations, labels = peer.take("rotations"), peer.take("labels")
    assert not peer.inputs, f"unknown inputs {sorted(peer.inputs)}"
    abstract = jax.eval_shape(lambda: model.init(jax.random.key(0), tokens))["params"]
    params, _ = import_hf(peer.weights, config, abstract)
    check_export(export_hf(params, config), peer.weights)

    def hidden(module, *args):
        x, streams, buckets = module.encoder.with_hidden(*args)
        return module.logits(x), streams, buckets

    def run(params):
        return model.apply({"params": params}, tokens, mask, rotations, method=hidden)

    def loss(outputs):
        logits, *_ = outputs
        if config.causal:
            return token_loss(logits[:, :-1], labels[:, 1:])
        return token_loss(logits, labels)

    compare = Comparison(peer.outputs, mask, _OUTPUTS[rounding])
    # A loss without labels is found unknown.
    trained = labels is not None and compare.has("loss", "train_loss", *GRADIENT_NORMS)
    (logits, streams, buckets), value, gradients = outputs_and_gradients(
        run, loss if trained else None, params
    )
    for i, stream in enumerate(streams):
        compare.rows(f"hidden_states.{i}", stream)
    compare.rows("logits", logits)
    _compare_buckets(compare, peer.outputs, config, buckets)
    if trained:
        compare.value("loss", value)
        compare.value("train_loss", value)
        compare.gradient_norms(export_hf(gradients[0], config), unused=(_UNUSED,))
    return compare.finish()


def _compare_buckets(compare: Comparison, outputs, config, got) -> None:
    """Equal numbers: theirs count rounds too, and padding as a bucket if any.

    Both roundings have the same ones.
    """
    for i, mine in enumerate(got):
        mine = np.asarray(mine)
        b, h, rounds, n = mine.shape
        number = int(np.prod(config.num_buckets))
        real = np.zeros((b, n), bool)
        real[:, : compare.mask.shape[1]] = compare.mask > 0
        if not real.all():
            mine = np.where(real[:, None, None], mine, number)
            number += 1
        mine = mine + number * np.arange(rounds)[:, None]
        name = f"lsh_buckets.{i}"
        if name in outputs:
            np.testing.assert_array_equal(mine.reshape(b, h, -1), outputs[name])
            compare.strike_off(name)
