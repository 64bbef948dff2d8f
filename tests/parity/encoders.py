"""Golden cases of transformers' BERT, RoBERTa, Longformer and BigBird."""

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion.encoder import config_from_hf, export_hf, import_hf
from etc_jax.data.global_tokens import global_index
from etc_jax.models.encoder import (
    EncoderForMaskedLm,
    EncoderForSpans,
    LongformerConfig,
)
from parity.cases import Case
from parity.peers import Comparison, Peer, check_export, token_loss, value_and_grad


def _hidden(config, found) -> list[np.ndarray]:
    """Embeddings, and what comes out of each layer."""
    encoder = found["encoder"]
    (embeddings,) = encoder["embedded"]
    period = encoder["stack"]["layers"]["period"]
    kinds = [period[f"layer_{i}"]["output"][0] for i in range(len(config.patterns))]
    layers = [kind[run] for run in range(kinds[0].shape[0]) for kind in kinds]
    return [embeddings, *layers]


def _run(case: Case, model_class: type, logits_fn, loss_fn) -> float:
    peer = Peer(case)
    config = config_from_hf(peer.values)
    model = model_class(config)
    tokens = peer.take("input_ids")
    mask = peer.take("attention_mask", np.ones_like(tokens))
    types = peer.take("token_type_ids")
    inputs = {} if types is None else {"types": types}
    is_global = peer.take("global_attention_mask")
    if is_global is not None:
        inputs["global_index"] = global_index(is_global * mask)
    drawn = peer.take("rand_attn")
    if drawn is not None:
        inputs["random_blocks"] = drawn
    targets = {name: peer.take(name) for name in list(peer.inputs)}
    abstract = jax.eval_shape(lambda: model.init(jax.random.key(0), tokens))["params"]
    params, _ = import_hf(peer.weights, config, abstract)
    check_export(export_hf(params, config), peer.weights)

    @jax.jit
    def run(params):
        return model.apply(
            {"params": params}, tokens, mask, **inputs, mutable=["intermediates"]
        )

    def loss(params):
        return loss_fn(model.apply({"params": params}, tokens, mask, **inputs), targets)

    out, found = run(params)
    # What becomes of padding is defined where it sees nothing: in windows.
    windows = isinstance(config, LongformerConfig)
    compared = np.ones_like(mask) if windows else mask
    compare = Comparison(peer.outputs, compared)
    for i, x in enumerate(_hidden(config, found["intermediates"])):
        compare.rows(f"hidden_states.{i}", x)
    for name, x in logits_fn(out).items():
        compare.rows(name, x)
    got, gradients = value_and_grad(loss, params)
    compare.value("loss", got)
    gradients = jax.tree.map(np.array, export_hf(gradients, config))
    # torch gives the rows of padding no gradient, though a loss over all places, as of
    # spans, depends on them.
    for name, array in gradients.items():
        of_tokens = name.endswith("word_embeddings.weight")
        if of_tokens or (
            config.position_offset and name.endswith("position_embeddings.weight")
        ):
            array[peer.values["pad_token_id"]] = 0
    compare.gradient_norms(gradients)
    return compare.finish()


def run_masked_lm(case: Case) -> float:
    """Hidden states, logits, loss and gradient norms."""

    def loss(logits, targets):
        (labels,) = targets.values()
        return token_loss(logits, labels)

    return _run(case, EncoderForMaskedLm, lambda out: {"logits": out}, loss)


def run_spans(case: Case) -> float:
    """The same of the two logits of question answering."""

    def loss(logits, targets):
        ends = (targets["start_positions"], targets["end_positions"])
        parts = [token_loss(x, end) for x, end in zip(logits, ends, strict=True)]
        return jnp.mean(jnp.stack(parts))

    def logits(out):
        return {"start_logits": out.start, "end_logits": out.end}

    return _run(case, EncoderForSpans, logits, loss)
