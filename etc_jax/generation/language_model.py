"""A language model that continues texts, with its parameters and its codec."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from etc_jax.datasets.pairs import Pair
from etc_jax.generation import loop as generation
from etc_jax.generation.loop import Options, Rules
from etc_jax.generation.text_codecs import ByteCodec, Codec
from etc_jax.generation.writer import Input, Writer


@dataclasses.dataclass(frozen=True)
class LanguageModel(Writer):
    """What continues a text.

    Attributes:
      codec: of its ids.
    """

    codec: Codec

    @property
    def reads_bytes(self) -> bool:
        """See `Writer`."""
        return isinstance(self.codec, ByteCodec)

    def input_of(self, pair: Pair) -> Input:
        """See `Writer`: a prompt.

        Raises:
          UserError, ValueError: if the prompt has no token, or one without a row.
        """
        ids = np.array(self.codec.encode(pair.input), np.int32)
        return Input(pair.id, ids, np.ones_like(ids))

    def _written(self, inputs: Iterable[Input], how, batch_size: int, rng):
        del batch_size  # one after the other
        asked = [(one, self.options(how, len(one.ids))) for one in inputs]
        return self._each(asked, rng)

    def _each(self, asked: Sequence[tuple[Input, Options]], rng):
        for number, (one, options) in enumerate(asked):
            written = generation.write(
                self.decoder,
                self.params,
                one.ids[None],
                options,
                rng,
                numbers=np.array([number]),
            )
            [texts] = self._texts(written, options)
            yield one.id, texts

    def _rules(self, rules: Rules) -> Rules:
        """Without ids that stand for no text; the end of one is written, not shown."""
        others = {*range(self.decoder.config.vocab_size)}
        others -= {*range(*self.codec.allowed), *rules.eos_ids}
        banned = tuple(sorted({*rules.suppress_tokens, *others}))
        return dataclasses.replace(rules, suppress_tokens=banned)

    def _text(self, ids: np.ndarray, options: Options) -> str:
        ends = len(ids) > 0 and int(ids[-1]) in options.rules.eos_ids
        return self.codec.decode(ids[: len(ids) - ends])
