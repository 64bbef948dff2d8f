"""Fine-tuning on OpenKP: keyphrases among all runs of words (ETC paper, appendix C)."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, Literal

import jax
import numpy as np

from etc_jax.base import registry
from etc_jax.config.sections import FinetuningConfig
from etc_jax.data.schema import Field, Schema
from etc_jax.formats import sequence, structured
from etc_jax.models.encoder.keyphrases import EncoderForKeyphrases
from etc_jax.models.openkp import EtcForKeyphrases
from etc_jax.objectives.learners.encoder_finetuning import EncoderFinetuning
from etc_jax.objectives.learners.etc_finetuning import EtcFinetuning
from etc_jax.objectives.learners.finetuning import Finetuning, Sums
from etc_jax.objectives.losses import keyphrase
from etc_jax.objectives.r3f import Choice
from etc_jax.ops import ngrams
from etc_jax.ops.visual import NUM_BOXES, NUM_FONTS, Visual


@dataclasses.dataclass(frozen=True)
class KeyphraseConfig(FinetuningConfig):
    """Options of OpenKP in one sequence.

    Attributes:
      keyphrase_loss: which occurrence of a keyphrase is learnt, the "first" or the
        "best" rated one, the paper's max loss.
    """

    keyphrase_loss: Literal["first", "best"] = "first"


@dataclasses.dataclass(frozen=True)
class OpenkpConfig(KeyphraseConfig):
    """Options of OpenKP as structured inputs.

    Attributes:
      visual_features: the model reads what elements look like.
    """

    visual_features: bool = True


def _with_words(schema: Schema, name: str) -> Schema:
    # Pages have at most as many words as tokens.
    [axis] = schema.text
    return schema.extended({name: Field(axis, padding=-1)}, positions={name: axis})


class Keyphrases(Finetuning):
    """Keyphrases: outputs are float32 `[b, 5, n]`, a logit a run of words.

    Parameters are `encoder` and `head`.

    Attributes:
      words: of a batch, int `[b, n]`, the word that each token is a piece of, -1 for
        none.
    """

    words: ClassVar[str]
    section = KeyphraseConfig

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (*super().inputs(batch), batch[self.words])

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        """See `Finetuning.losses`; of outputs `[b, 5, n]`."""
        labels, weights = batch["labels"], batch["weights"]
        number = ngrams.num_words(batch[self.words])
        allowed = ngrams.ngram_mask(number, outputs.shape[-1])
        if self.objective.keyphrase_loss == "best":
            sums = keyphrase.best_occurrence(
                outputs,
                labels["occurrences"],
                labels["length"],
                weights,
                allowed=allowed,
            )
        else:
            sums = keyphrase.first_occurrence(
                outputs, labels["start"], labels["length"], weights, allowed=allowed
            )
        total, hits, examples = sums
        return total, {"accuracy": (hits, examples)}

    def distributions(self, outputs: jax.Array, batch: Any) -> list[Choice]:
        # [b, longest, n] -> [b, longest * n]: one choice among all runs.
        """See `Finetuning.distributions`; of outputs `[b, 5, n]`."""
        return [Choice(outputs.reshape(len(outputs), -1))]


@registry.register("learner", "openkp/sequence")
class SequenceOpenkp(Keyphrases, EncoderFinetuning):
    """Keyphrases by encoders of one sequence, which read the words alone."""

    words = "words"
    schema = _with_words(sequence.SCHEMA, words)

    def module(self, deterministic: bool) -> EncoderForKeyphrases:
        return EncoderForKeyphrases(self.model, deterministic)


@registry.register("learner", "openkp/structured")
class StructuredOpenkp(Keyphrases, EtcFinetuning):
    """Keyphrases by ETC, which may see what elements look like.

    A batch has, as `visual`, a dict of the fields of `ops.visual.Visual` too. If looks
    are seen, `visual` are parameters too.
    """

    section = OpenkpConfig
    words = "long_words"
    schema = _with_words(structured.SCHEMA, words).extended(
        {f"visual.{name}": Field("global", "uint8") for name in Visual._fields}
        | {"visual.boxes": Field("global", "float32", (NUM_BOXES,))}
    )

    def module(self, deterministic: bool) -> EtcForKeyphrases:
        looks = self.objective.visual_features
        return EtcForKeyphrases(self.model, deterministic, with_visual=looks)

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (*super().inputs(batch), Visual(**batch["visual"]))

    def problems(self, batch: Any) -> list[str]:
        if problems := super().problems(batch):
            return problems
        visual = batch["visual"]
        for name in ("font", "parent_font"):
            if visual[name].max() >= NUM_FONTS:
                problems.append(
                    f"visual.{name} holds {visual[name].max()}, but there are "
                    f"{NUM_FONTS} fonts; prepare the files again"
                )
        if not np.all(np.abs(visual["boxes"]) <= 1):
            problems.append(
                "visual.boxes holds numbers beyond -1..1; prepare the files again"
            )
        return problems
