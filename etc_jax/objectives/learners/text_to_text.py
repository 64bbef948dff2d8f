"""Text to text, whatever the model: targets are learnt, and texts are generated."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax.base import registry
from etc_jax.data.schema import WEIGHTS, Schema
from etc_jax.data.tokenizers.base import Tokenizer
from etc_jax.formats import text_to_text
from etc_jax.generation import decoding, loop as generation
from etc_jax.generation.options import GenerationConfig
from etc_jax.layers.self_attention import SequenceInputs
from etc_jax.objectives.learners.finetuning import Learner, Sums
from etc_jax.objectives.sections import TextToTextConfig
from etc_jax.objectives.seq2seq import MODELS, Seq2Seq


@dataclasses.dataclass(frozen=True)
class TextToText(Learner):
    """What learns texts to be written; outputs are the likeliest tokens, `[b, m]`.

    Attributes:
      module_kind: under which the families that it takes register their module.
    """

    module_kind: ClassVar[str]
    schema: ClassVar[Schema] = text_to_text.SCHEMA
    # Targets are in the schema.
    learns_from: ClassVar[tuple[str, ...]] = (WEIGHTS,)

    @classmethod
    def takes(cls) -> tuple[type, ...]:
        names = registry.names(cls.module_kind)
        return tuple(registry.lookup("model_config", name) for name in names)

    @property
    def family(self) -> str:
        """Name of the model's family."""
        return registry.name_of("model_config", type(self.model))

    @property
    def decoder(self) -> decoding.Decoder:
        """What writes texts with the model.

        Raises:
          ValueError: if there is none.
        """
        return decoding.decoder_of(self.family, self.model)

    def outputs(self, params: Any, batch: Any) -> jax.Array:
        lengths = jnp.sum(batch["input_example_ids"] > 0, axis=1)
        options = generation.Options(batch["target_tokens"].shape[1])
        written = generation.write(
            self.decoder,
            params,
            batch["input_tokens"],
            options,
            prompt_lengths=lengths,
        )
        # [b, 1, m] -> [b, m]
        return written.tokens[:, 0]

    def readable(self, outputs: np.ndarray, tokenizer: Tokenizer) -> np.ndarray:
        """Texts, str `[b]`."""
        texts = [text_to_text.written_text(ids, tokenizer) for ids in outputs]
        return np.array(texts, dtype=object)


@registry.register("learner", f"text/text_to_text/{MODELS}")
@dataclasses.dataclass(frozen=True)
class EncoderDecoderTextToText(TextToText):
    """An encoder reads the input, a decoder writes the target.

    Parameters are those of objective seq2seq, which a run can start from.
    """

    module_kind: ClassVar[str] = MODELS
    section: ClassVar[type] = TextToTextConfig

    @property
    def _seq2seq(self) -> Seq2Seq:
        c = self.objective
        module = registry.lookup(self.module_kind, self.family)
        return Seq2Seq(self.model, module, c.label_smoothing, c.z_loss, c.r3f)

    def init(self, rng: jax.Array) -> Any:
        """Parameters of the encoder-decoder, from a scalar key."""
        return self._seq2seq.init(rng)

    def loss(self, params, batch, rng, deterministic: bool) -> Sums:
        """Of the tokens of targets; as of `Seq2Seq.loss`."""
        ids = (batch["target_weights"] > 0).astype(jnp.int32)
        batch = {**batch, "target_example_ids": ids}
        if self.objective.global_tokens:
            batch["global_index"] = self._global_index(batch)
        return self._seq2seq.loss(params, batch, rng, deterministic)

    def flops_inputs(self, batch: Any) -> tuple[SequenceInputs, SequenceInputs]:
        targets = np.int32(batch["target_weights"] > 0)
        index = np.asarray(self._global_index(batch))
        inputs = SequenceInputs(batch["input_example_ids"], index)
        return inputs, SequenceInputs(targets)

    def _global_index(self, batch: Any) -> jax.Array:
        """int `[b, g]`, the first tokens of the one text of each row; -1: none."""
        ids = batch["input_example_ids"]
        return generation.first_tokens(ids, self.objective.global_tokens)

    def outputs(self, params: Any, batch: Any) -> jax.Array:
        written = generation.answer(
            self.decoder,
            params,
            batch["input_tokens"],
            batch["input_example_ids"],
            self._options(batch),
            global_tokens=self.objective.global_tokens,
        )
        # [b, 1, m] -> [b, m]
        return written.tokens[:, 0]

    def problems(self, batch: Any) -> list[str]:
        problems = super().problems(batch)
        if not problems and self.why_no_outputs is None:
            try:
                generation.check(self.decoder, self._options(batch))
            except ValueError as error:
                return [f"objective.generation: {error}"]
        return problems

    def _options(self, batch: Any) -> generation.Options:
        longest, says = batch["target_tokens"].shape[1], self.objective.generation
        if (says.num_tokens or 0) > longest:
            says = GenerationConfig(num_tokens=longest).over(says)
        return says.options(self.model, longest)

    @property
    def why_no_outputs(self) -> str | None:
        if self.family in registry.names("decoder"):
            return None
        return (
            f"models of family {self.family!r} cannot generate yet: they learn to "
            "predict targets, and no decoder of theirs is registered; train without "
            "data.validation_files, and evaluate the loss alone"
        )

    @property
    def decoder(self) -> decoding.Decoder:
        if (why := self.why_no_outputs) is not None:
            raise ValueError(why)
        return super().decoder
