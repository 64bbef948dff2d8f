"""Golden cases of transformers' BERT, RoBERTa, Longformer and BigBird."""

import jax
import jax.numpy as jnp
import numpy as np
from flax import linen as nn

from etc_jax.conversion.formats.native import family_of
from etc_jax.data.pretraining.global_tokens import global_index
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.encoder.heads import EncoderForSpans
from etc_jax.models.encoder.hf_config import config_from_hf
from etc_jax.models.encoder.weight_names import BertWeights
from etc_jax.models.encoder.weights import export_hf, model_of, read_hf
from etc_jax.models.longformer.config import LongformerConfig
from parity.cases import Case
from parity.peers import (
    GRADIENT_NORMS,
    Comparison,
    Peer,
    check_export,
    outputs_and_gradients,
    token_loss,
)


def _hidden(config, found) -> list[np.ndarray]:
    """Embeddings, and what comes out of each layer."""
    encoder = found["encoder"]
    (embeddings,) = encoder["embedded"]
    period = encoder["stack"]["layers"]["period"]
    kinds = [period[f"layer_{i}"]["output"][0] for i in range(len(config.patterns))]
    layers = [kind[run] for run in range(kinds[0].shape[0]) for kind in kinds]
    return [embeddings, *layers]


def _global_index(peer: Peer, config, tokens, mask):
    """Of the mask of the case, or those that transformers takes for the model."""
    name, sep = peer.model_class, peer.values.get("sep_token_id")
    is_global = peer.take("global_attention_mask")
    if is_global is None and "ForSequence" in name:
        is_global = np.arange(tokens.shape[-1]) == np.zeros_like(tokens)
    elif is_global is None and "ForQuestion" in name:
        is_global = _before_separator(tokens, sep)
    elif is_global is None and "ForMultipleChoice" in name:
        before = _before_separator(tokens, sep)
        # Two separators stand between the parts.
        end = before.sum(axis=-1, keepdims=True) + 1
        is_global = np.arange(tokens.shape[-1]) > end
    if is_global is None:
        return {}
    index = global_index((is_global * mask).reshape(-1, tokens.shape[-1]))
    return {"global_index": index.reshape(*tokens.shape[:-1], -1)}


def _before_separator(tokens, separator: int) -> np.ndarray:
    """bool `[..., n]`: `<s> question` of `<s> question </s></s> text </s>`."""
    is_separator = tokens == separator
    assert (is_separator.sum(axis=-1) == 3).all()
    return np.cumsum(is_separator, axis=-1) == 0


def _padding_learns_nothing(config, values):
    """For `nn.intercept_methods`: rows looked up for padding get no gradient, as torch.

    The same row may get one as an output.
    """
    tables = ["token_embedder"] + ["position_embedder"] * bool(config.position_offset)

    def interceptor(call, args, kwargs, context):
        out = call(*args, **kwargs)
        if context.method_name != "__call__" or context.module.name not in tables:
            return out
        padding = (args[0] == values["pad_token_id"])[..., None]
        return jnp.where(padding, jax.lax.stop_gradient(out), out)

    return interceptor


def _run(case: Case, targets_fn, loss_fn, outputs_fn) -> float:
    peer = Peer(case)
    config = config_from_hf(peer.values)
    weights = BertWeights(peer.weights, family_of(config))
    values = {**peer.values, "architectures": [peer.model_class]}
    model = model_of(values, weights, config)
    tokens = peer.take("input_ids")
    mask = peer.take("attention_mask", np.ones_like(tokens))
    types = peer.take("token_type_ids")
    drawn = peer.take("rand_attn")
    inputs = {}
    if drawn is not None:
        inputs["random_blocks"] = drawn
    if isinstance(config, LongformerConfig):
        inputs |= _global_index(peer, config, tokens, mask)
    if isinstance(model, EncoderForSpans) and isinstance(config, BigBirdConfig):
        end = (tokens == peer.values["sep_token_id"]).argmax(axis=1)
        behind = np.arange(tokens.shape[1]) > end[:, None]
        types = behind.astype(np.int32) if types is None else types
        inputs["answerable"] = behind | (np.arange(tokens.shape[1]) == 0)
    if types is not None:
        inputs["types"] = types
    targets = targets_fn(peer)
    params, _ = read_hf(values, peer.weights, config)
    check_export(export_hf(params, config), peer.weights)

    def run(params):
        with nn.intercept_methods(_padding_learns_nothing(config, peer.values)):
            return model.apply(
                {"params": params}, tokens, mask, **inputs, mutable=["intermediates"]
            )

    def loss(outputs):
        return loss_fn(outputs[0], targets)

    trained = not peer.outputs.keys().isdisjoint(("loss", *GRADIENT_NORMS))
    (out, found), value, gradients = outputs_and_gradients(
        run, loss if trained else None, params
    )
    # BigBird's blocks make something else of padding than transformers'.
    real = mask.reshape(-1, mask.shape[-1])
    if not isinstance(config, BigBirdConfig):
        real = np.ones_like(real)
    compare = Comparison(peer.outputs, real)
    for i, x in enumerate(_hidden(config, found["intermediates"])):
        compare.rows(f"hidden_states.{i}", x)
    for name, x in outputs_fn(out).items():
        (compare.rows if x.shape[:2] == real.shape else compare.value)(name, x)
    if trained:
        compare.value("loss", value)
        gradients = jax.tree.map(np.asarray, export_hf(gradients[0], config))
        compare.gradient_norms(gradients)
    return compare.finish()


def run_labels(case: Case) -> float:
    """Hidden states, logits, loss and gradient norms: of tokens, sequences, choices."""
    return _run(
        case,
        lambda peer: peer.take("labels"),
        token_loss,
        lambda out: {"logits": out},
    )


def run_spans(case: Case) -> float:
    """The same of the two logits of question answering."""

    def loss(logits, ends):
        parts = [token_loss(x, end) for x, end in zip(logits, ends, strict=True)]
        return jnp.mean(jnp.stack(parts))

    return _run(
        case,
        lambda peer: (peer.take("start_positions"), peer.take("end_positions")),
        loss,
        lambda out: {"start_logits": out.start, "end_logits": out.end},
    )
