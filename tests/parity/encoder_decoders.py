"""Golden cases of transformers' BART, LED, T5 and LongT5, and of SLED over them."""

import dataclasses
import json

import double_precision
import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base import registry
from etc_jax.conversion import exchange
from etc_jax.data.pretraining.global_tokens import global_index
from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.beam_search import Beams
from etc_jax.generation.loop import Options
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.hf_config import config_from_hf, config_to_hf
from etc_jax.models.encoder_decoder.weights import export_hf, read_hf
from etc_jax.models.sled.config import SledConfig
from etc_jax.models.t5.config import T5Config
from etc_jax.ops.logit_rules import Rules
from parity.cases import Case
from parity.peers import (
    GRADIENT_NORMS,
    Comparison,
    Peer,
    check_export,
    outputs_and_gradients,
    token_loss,
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


# What a setting may have, as transformers has it where it is not given.
_SETTINGS = {
    "num_beams": 1,
    "do_sample": False,
    "max_new_tokens": None,
    "min_new_tokens": 0,
    "length_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "repetition_penalty": 1.0,
    "early_stopping": False,
    "num_return_sequences": 1,
}


def _some(token_id: int | None) -> tuple[int, ...]:
    return () if token_id is None else (token_id,)


def options_of(config, given: dict) -> Options:
    """What transformers calls a generation config."""
    of_config = {
        "eos_token_id": config.eos_id,
        "forced_bos_token_id": config.forced_bos_id,
        "forced_eos_token_id": config.forced_eos_id,
    }
    known = {**_SETTINGS, **of_config}
    assert given.keys() <= known.keys(), f"unknown settings in {given}"
    values = {**known, **given}
    assert not values["do_sample"]
    rules = Rules(
        repetition_penalty=values["repetition_penalty"],
        no_repeat_ngram=values["no_repeat_ngram_size"],
        min_tokens=values["min_new_tokens"],
        eos_ids=(values["eos_token_id"],),
        forced_bos_ids=_some(values["forced_bos_token_id"]),
        forced_eos_ids=_some(values["forced_eos_token_id"]),
    )
    beams = None
    if values["num_beams"] > 1:
        names = ("num_beams", "length_penalty", "early_stopping")
        beams = Beams(*(values[name] for name in names))
    return Options(
        values["max_new_tokens"],
        rules,
        beams,
        num_texts=values["num_return_sequences"],
        pad_id=config.pad_id,
    )


def _of_old_version(scores, found, options: Options) -> np.ndarray:
    """Scores as of transformers 4.26, which these cases were made by.

    It counted the decoder's start into the length of a text that did not end by itself.
    """
    n = np.asarray(found.lengths.ravel())
    last = np.take_along_axis(
        np.asarray(found.tokens.reshape(len(n), -1)), n[:, None] - 1, axis=1
    )[:, 0]
    longer = n + ~np.isin(last, options.rules.eos_ids)
    return scores * (n / longer) ** options.beams.length_penalty


def compare_texts(case: Case, peer: Peer, config, params, inputs) -> float:
    """Ids of all that was generated are equal; the largest difference of scores."""
    wanted = {n for n in peer.outputs if n.startswith("generate.")}
    if not wanted:
        return 0.0
    tokens, _, mask, _, index = inputs
    decoder = decoding.decoder_of(
        registry.name_of("model_config", type(config)), config
    )
    params = jax.tree.map(jnp.asarray, params)
    memory = generation.encode(decoder, params, tokens, mask, index)
    prompt = np.full((len(tokens), 1), config.decoder_start_id, np.int32)
    worst = 0.0
    for name, given in json.loads(case.path.read_text())["generate_args"].items():
        options = options_of(config, given)
        found = generation.write(decoder, params, prompt, options, memory=memory)
        want = peer.outputs[f"generate.{name}.ids"][:, 1:]
        wanted.remove(f"generate.{name}.ids")
        texts = found.tokens.reshape(-1, options.max_tokens)
        for got, n, text in zip(texts, found.lengths.ravel(), want, strict=True):
            # What follows the end is padding, of one kind or another.
            ends = np.nonzero(np.isin(text, options.rules.eos_ids))[0]
            assert n == (ends[0] + 1 if len(ends) else len(text)), (name, text)
            np.testing.assert_array_equal(got[:n], text[:n], err_msg=name)
        if (scores := f"generate.{name}.sequences_scores") in wanted:
            wanted.remove(scores)
            got, want = np.asarray(found.scores.ravel()), peer.outputs[scores]
            if config.sled.window:
                got = _of_old_version(got, found, options)
            # Log probabilities, of a power of the length.
            worst = max(worst, float(np.max(np.abs(got - want) / (1 + np.abs(want)))))
    assert not wanted, f"unknown outputs: {sorted(wanted)}"
    return worst


def _sled(case: Case, peer: Peer) -> SledConfig:
    """Of what the case says beside the config of its backbone; usually nothing."""
    given = json.loads(case.path.read_text()).get("sled")
    if given is None:
        return SledConfig()
    given = dict(given)
    # One call or several: the same.
    given.pop("sliding_method")
    prefix = peer.take("prefix_length", np.zeros((1, 1), np.int32))
    assert np.unique(prefix).size == 1
    length = int(prefix[0, 0]) if given.pop("prepend_prefix") else 0
    found = SledConfig(
        window=given.pop("context_size"),
        padding_share=1 - given.pop("window_fraction"),
        prefix_length=length,
        prefix_in_memory=given.pop("encode_prefix"),
        last_window="row",
    )
    assert not given, f"unknown settings {given}"
    return found


def _compare_windows(compare: Comparison, config, length: int) -> None:
    """(first token, end, first kept, end of kept from the first token) of each."""
    n, windows = length - config.sled.prefix_length, config.sled.windows
    keeper = np.asarray(windows.keeper(np.int32(n), np.arange(n)))
    rows = []
    for number in range(windows.count(n)):
        start = int(windows.start(np.int32(n), np.int32(number)))
        kept = np.nonzero(keeper == number)[0] - start
        rows.append((start, start + min(windows.size, n), kept[0], kept[-1] + 1))
    compare.value("windows", np.array(rows, np.float32))


def run(case: Case) -> float:
    """Hidden states, logits, loss, gradient norms and generated ids.

    The logits of a T5's attention are not scaled, so that float32 rounds its rows by up
    to 6e-5, on one kind of CPU otherwise than on another: here it is in float64, and
    the rounding of the peer is left.
    """
    peer = Peer(case)
    config = config_from_hf(peer.values)
    config = exchange.of(config).refined(config, peer.weights)
    _check_config(peer.values, config)
    config = dataclasses.replace(config, sled=_sled(case, peer))
    if not isinstance(config, T5Config):
        return _compare(case, peer, config)
    with double_precision.ours():
        return _compare(case, peer, dataclasses.replace(config, dtype="float64"))


def _compare(case: Case, peer: Peer, config) -> float:
    """The largest difference of all outputs."""
    model = EncoderDecoder(config)
    inputs, labels = _inputs(peer)
    params, _ = read_hf(peer.values, peer.weights, config)
    check_export(export_hf(params, config), peer.weights)
    params = jax.tree.map(lambda x: np.asarray(x, config.dtype), params)

    def outputs(params):
        apply = model.apply
        more = {"method": every_output, "mutable": ["intermediates"]}
        return apply({"params": params}, *inputs, **more)

    def loss(outputs):
        (_, _, logits), _ = outputs
        return token_loss(logits, jnp.asarray(labels))

    compare = Comparison(peer.outputs, inputs[2])
    trained = compare.has("loss", *GRADIENT_NORMS)
    found, value, gradients = outputs_and_gradients(
        outputs, loss if trained else None, params
    )
    (encoded, decoded, logits), found = found
    found = found["intermediates"]
    states = hidden_states(found["encoder"], encoded, len(config.patterns))
    for i, x in enumerate(states):
        compare.rows(f"encoder_hidden_states.{i}", x)
    if config.sled.window:
        _compare_windows(compare, config, inputs[0].shape[1])
        if not config.sled.prefix_in_memory:
            compare.mask = inputs[2][:, config.sled.prefix_length :]
    compare.rows("encoder_last_hidden_state", encoded)
    compare.mask = inputs[3]
    for i, x in enumerate(hidden_states(found["decoder"], decoded)):
        compare.rows(f"decoder_hidden_states.{i}", x)
    for name in ("logits", "logits_stacked"):
        compare.rows(name, logits)
    worst = compare_texts(case, peer, config, params, inputs)
    if not trained:
        return max(worst, compare.finish())
    compare.value("loss", value)
    gradients = jax.tree.map(np.asarray, export_hf(gradients[0], config))
    compare.gradient_norms(gradients)
    return max(worst, compare.finish())
