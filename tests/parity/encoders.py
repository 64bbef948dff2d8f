"""Golden cases of transformers' BERT, RoBERTa, Longformer and BigBird."""

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.conversion.bert import BertWeights
from etc_jax.conversion.encoder import export_hf, model_of, read_hf
from etc_jax.conversion.encoder_config import config_from_hf, family_of
from etc_jax.data import questions
from etc_jax.data.global_tokens import global_index
from etc_jax.models.encoder import BigBirdConfig, LongformerConfig
from etc_jax.models.encoder_heads import EncoderForSpans
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


def _global_index(peer: Peer, config, tokens, mask):
    """Of the mask of the case, or those that transformers takes for the model."""
    name, sep = peer.model_class, peer.values.get("sep_token_id")
    is_global = peer.take("global_attention_mask")
    if is_global is None and "ForSequence" in name:
        is_global = np.arange(tokens.shape[-1]) == np.zeros_like(tokens)
    elif is_global is None and "ForQuestion" in name:
        is_global = questions.before_separator(tokens, sep, separators=3)
    elif is_global is None and "ForMultipleChoice" in name:
        before = questions.before_separator(tokens, sep, separators=3)
        # Two separators stand between the parts.
        end = before.sum(axis=-1, keepdims=True) + 1
        is_global = np.arange(tokens.shape[-1]) > end
    if is_global is None:
        return {}
    index = global_index((is_global * mask).reshape(-1, tokens.shape[-1]))
    return {"global_index": index.reshape(*tokens.shape[:-1], -1)}


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
    mask = mask.reshape(-1, mask.shape[-1])
    compared = np.ones_like(mask) if windows else mask
    compare = Comparison(peer.outputs, compared)
    for i, x in enumerate(_hidden(config, found["intermediates"])):
        compare.rows(f"hidden_states.{i}", x)
    for name, x in outputs_fn(out).items():
        (compare.rows if x.shape[:2] == mask.shape else compare.value)(name, x)
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
