"""Beam search of BART, LED and LongT5 beside transformers': time and memory.

    python -m benchmarks generation --out=generation.json
    python -m benchmarks generation --models=led_base --lengths=16384
    python -m benchmarks generation --platform=cuda --dtype=bfloat16

Texts for a batch of inputs by beam search; no text ends before the last token. "In all"
reads the inputs and writes; "decoding" is given what the encoder makes of them. The
first token is global for LED. The scores of all texts are compared first: in float32
with those of the other library; in bfloat16, where rounding decides which of two texts
is written, with what this library's model in float32 says of the text. Where a call
takes minutes, --rounds=0 times one "in all" in the process that measures memory, and
compares nothing. A busy machine is refused (exit code 3); exit code 1 if a floor fails,
which a CPU alone has.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.kit import beside, report
from benchmarks.kit.beside import Peers
from benchmarks.kit.harness import Side, WrongSideError
from benchmarks.speed.seq2seq_step import losses, random_weights, with_layers
from etc_jax.base import registry
from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.beam_search import Beams
from etc_jax.generation.loop import Options
from etc_jax.models.encoder_decoder.body import EncoderDecoder
from etc_jax.models.encoder_decoder.config import EncoderDecoderConfig
from etc_jax.models.family import sizes as model_sizes

LENGTHS = {"bart_base": 1024, "led_base": 4096, "long_t5_tglobal_base": 4096}
# How many times the time of this library; no floor for other models and parts.
FASTER = {
    "bart_base": {"in all": 1.2, "decoding": 2.0},
    "led_base": {"in all": 2.0},
    "long_t5_tglobal_base": {"in all": 1.5},
}


@dataclasses.dataclass(frozen=True)
class GenerationSizes:
    """What is read and written.

    Attributes:
      model: a name of `models.family.sizes`.
      length: tokens of each input; 0: see `LENGTHS`.
      batch_size: inputs.
      num_beams: of the search.
      max_tokens: of each text.
      num_layers: of each side; 0: those of the model.
      seed: of weights and tokens.
      dtype: see `kit.beside`.
    """

    model: str
    length: int
    batch_size: int = 4
    num_beams: int = 4
    max_tokens: int = 64
    num_layers: int = 0
    seed: int = 0
    dtype: str = "float32"

    def __post_init__(self):
        if not self.length:
            object.__setattr__(self, "length", LENGTHS.get(self.model, 1024))

    @property
    def config(self) -> EncoderDecoderConfig:
        """The model."""
        config = with_layers(model_sizes()[self.model], self.num_layers)
        return dataclasses.replace(config, dtype=self.dtype)

    @property
    def tokens(self) -> np.ndarray:
        """int32 `[batch_size, length]`."""
        rng = np.random.default_rng(self.seed + 1)
        shape = (self.batch_size, self.length)
        return rng.integers(5, self.config.vocab_size - 200, shape).astype(np.int32)


class JaxWriter:
    """This library.

    Args:
      sizes: what is written.
    """

    def __init__(self, sizes: GenerationSizes):
        config = sizes.config
        family = registry.name_of("model_config", type(config))
        self._decoder = decoding.decoder_of(family, config)
        self._params = jax.tree.map(jnp.asarray, random_weights(config, sizes.seed))
        self._tokens = sizes.tokens
        self._index = None
        if config.has_globals:
            self._index = np.zeros((sizes.batch_size, 1), np.int32)
        self._options = Options(
            max_tokens=sizes.max_tokens,
            beams=Beams(sizes.num_beams),
            rules=generation.rules_of(config, min_tokens=sizes.max_tokens),
            pad_id=config.pad_id,
        )
        shape = (sizes.batch_size, 1)
        self._prompt = np.full(shape, config.decoder_start_id, np.int32)

    def encode(self) -> Any:
        """What the decoder reads."""
        memory = generation.encode(
            self._decoder, self._params, self._tokens, None, self._index
        )
        return jax.block_until_ready(memory)

    def decode(self, memory: Any) -> generation.Written:
        """The texts."""
        written = generation.write(
            self._decoder, self._params, self._prompt, self._options, memory=memory
        )
        return jax.block_until_ready(written)

    def run(self) -> generation.Written:
        """The texts, from the inputs."""
        return self.decode(self.encode())

    def scores(self, found: generation.Written) -> np.ndarray:
        """float32 `[batch_size]`, of the texts of `run`."""
        return np.asarray(found.scores[:, 0])

    def ids(self, found: generation.Written) -> np.ndarray:
        """int `[batch_size, max_tokens]`, of texts."""
        return np.asarray(found.tokens[:, 0])


class TransformersWriter:
    """transformers.

    Args:
      sizes: what is written.
    """

    def __init__(self, sizes: GenerationSizes):
        import torch

        config = sizes.config
        params = random_weights(config, sizes.seed)
        self._model = beside.load(params, config).eval()
        self._dtype = sizes.dtype
        self._tokens = torch.from_numpy(sizes.tokens).long().to(beside.device())
        self._mask = torch.ones_like(self._tokens)
        self._globals = beside.global_mask(config, self._tokens)
        self._options = {
            "num_beams": sizes.num_beams,
            "max_new_tokens": sizes.max_tokens,
            "min_new_tokens": sizes.max_tokens,
            "do_sample": False,
            "length_penalty": 1.0,
            "early_stopping": False,
        }

    def encode(self) -> Any:
        """What the decoder reads, a tensor."""
        import torch

        with torch.no_grad(), beside.autocast(self._dtype):
            encoder = self._model.get_encoder()
            found = encoder(self._tokens, attention_mask=self._mask, **self._globals)
        return found.last_hidden_state

    def _write(self, **inputs: Any) -> Any:
        with beside.autocast(self._dtype):
            return self._model.generate(
                attention_mask=self._mask, **inputs, **self._options
            )

    def decode(self, memory: Any) -> Any:
        """The texts."""
        from transformers.modeling_outputs import BaseModelOutput

        # `generate` puts one row for each beam into what it is given.
        outputs = BaseModelOutput(last_hidden_state=memory)
        return self._write(encoder_outputs=outputs).cpu()

    def run(self) -> Any:
        """The texts, from the inputs."""
        return self._write(inputs=self._tokens, **self._globals).cpu()

    def scores(self, found: Any) -> np.ndarray:
        """float32 `[batch_size]`, of the texts of `run`, which are written again."""
        more = {"return_dict_in_generate": True, "output_scores": True}
        again = self._write(inputs=self._tokens, **self._globals, **more)
        if not np.array_equal(again.sequences.cpu(), found):
            raise WrongSideError("transformers: another text the second time")
        return again.sequences_scores.cpu().numpy()

    def ids(self, found: Any) -> np.ndarray:
        """int `[batch_size, max_tokens]`, of texts."""
        return found[:, 1:].numpy()


def likelihood(sizes: GenerationSizes, ids: np.ndarray) -> np.ndarray:
    """What a model in float32 says of texts that a search wrote.

    Args:
      sizes: of what was written.
      ids: int `[batch_size, max_tokens]`.

    Returns:
      float32 `[batch_size]`: log probability of the tokens that nothing forced, as a
      share of all tokens, as searches score texts.
    """
    config = dataclasses.replace(sizes.config, dtype="float32")
    params = random_weights(config, sizes.seed)
    with jax.default_matmul_precision("highest"):
        nats = _losses(config)(params, sizes.tokens, ids)
    free = np.ones(sizes.max_tokens)
    free[0] = config.forced_bos_id is None
    free[-1] = config.forced_eos_id is None
    return -np.mean(np.asarray(nats) * free[None], axis=1)


@functools.cache
def _losses(config: EncoderDecoderConfig) -> Callable:
    # Once for the texts of all sides: on a GPU it compiles for long.
    return jax.jit(functools.partial(losses, EncoderDecoder(config)))


_KINDS = {"etc_jax": JaxWriter, "transformers": TransformersWriter}


def parts(sizes: GenerationSizes) -> beside.Parts:
    """Sides that read and write, and sides that only write.

    The scores of texts are compared, and what a side writes in both ways.
    """
    sides = {name: make(sizes) for name, make in _KINDS.items()}
    own = sides["etc_jax"]
    found = {name: side.run() for name, side in sides.items()}
    want = {"scores": own.scores(found["etc_jax"])}

    def oracle(name: str, side: Any) -> Callable | None:
        if sizes.dtype != "float32":
            return lambda: {"scores": likelihood(sizes, side.ids(found[name]))}
        return None if side is own else lambda: want

    in_all = [
        Side(
            name,
            side.run,
            lambda x, side=side: {"scores": side.scores(x)},
            oracle(name, side),
        )
        for name, side in sides.items()
    ]
    alone = [
        Side(
            name,
            functools.partial(side.decode, side.encode()),
            lambda x, side=side: {"ids": side.ids(x)},
            lambda name=name, side=side: {"ids": side.ids(found[name])},
        )
        for name, side in sides.items()
    ]
    return {"in all": in_all, "decoding": alone}, {}


PEERS = Peers(
    __name__,
    __doc__,
    GenerationSizes,
    _KINDS,
    parts,
    what=lambda s: (
        f"{s.model}, {s.batch_size} inputs of {s.length} tokens, {s.num_beams} beams, "
        f"{s.max_tokens} tokens"
    ),
    faster=lambda sizes, part, _: FASTER.get(sizes.model, {}).get(part),
    axes={
        "models": (report.names(model_sizes()), tuple(LENGTHS)),
        "lengths": (report.integers, (0,)),
    },
)
main = PEERS.main
