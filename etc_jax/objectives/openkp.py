"""Fine-tuning on OpenKP: keyphrases among all runs of words (ETC paper, appendix C)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax import registry
from etc_jax.config_sections import FinetuningConfig
from etc_jax.models.encoder_keyphrases import EncoderForKeyphrases
from etc_jax.models.openkp import EtcForKeyphrases
from etc_jax.objectives import keyphrase
from etc_jax.objectives.batch_checks import missing_entries
from etc_jax.objectives.encoder_finetuning import EncoderFinetuning
from etc_jax.objectives.finetuning import Finetuning, Sums
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
      visual_features: the model is told what elements look like.
    """

    visual_features: bool = True


class Keyphrases(Finetuning):
    """Keyphrases: outputs are float32 `[b, 5, n]`, a logit a run of words.

    A batch has `long_words`, int `[b, n]`, the word that each token is a piece of, -1
    for none. Parameters are `encoder` and `head`.
    """

    section = KeyphraseConfig

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (*super().inputs(batch), batch["long_words"])

    def smallest_batch(self) -> dict[str, Any]:
        return {**super().smallest_batch(), "long_words": jnp.zeros((1, 1), jnp.int32)}

    def losses(self, outputs: jax.Array, batch: Any) -> tuple[jax.Array, Sums]:
        labels, weights = batch["labels"], batch["weights"]
        number = ngrams.num_words(batch["long_words"])
        places = ngrams.ngram_mask(number, outputs.shape[-1])
        if self.objective.keyphrase_loss == "best":
            sums = keyphrase.best_occurrence(
                outputs, labels["occurrences"], labels["length"], weights, places=places
            )
        else:
            sums = keyphrase.first_occurrence(
                outputs, labels["start"], labels["length"], weights, places=places
            )
        total, hits, examples = sums
        return total, {"accuracy": (hits, examples)}

    def wrong_inputs(self, batch: Any) -> Iterator[str]:
        yield from super().wrong_inputs(batch)
        if missing := missing_entries(batch, ["long_words"]):
            yield from missing
            return
        words, n = batch["long_words"], batch["long_tokens"].shape[1]
        if words.min() < -1 or words.max() >= n:
            yield (
                f"long_words holds words {words.min()} to {words.max()}, expected -1 "
                f"for none, or 0 to {n - 1}, as there are {n} places; prepare the "
                "files again"
            )


@registry.register("learner", "openkp/sequence")
class OpenkpSequence(Keyphrases, EncoderFinetuning):
    """Keyphrases by encoders of one sequence, which read the words alone."""

    def module(self, deterministic: bool) -> EncoderForKeyphrases:
        return EncoderForKeyphrases(self.model, deterministic)


@registry.register("learner", "openkp/structured")
class Openkp(Keyphrases):
    """Keyphrases by ETC, which may see what elements look like.

    A batch has, as `visual`, a dict of the fields of `ops.visual.Visual` too. If looks
    are seen, `visual` are parameters too.
    """

    section = OpenkpConfig

    def module(self, deterministic: bool) -> EtcForKeyphrases:
        looks = self.objective.visual_features
        return EtcForKeyphrases(self.model, deterministic, with_visual=looks)

    def inputs(self, batch: Any) -> tuple[Any, ...]:
        return (*super().inputs(batch), Visual(**batch["visual"]))

    def smallest_batch(self) -> dict[str, Any]:
        byte = jnp.zeros((1, 1), jnp.uint8)
        visual = Visual(byte, byte, byte, jnp.zeros((1, 1, NUM_BOXES)))
        return {**super().smallest_batch(), "visual": visual._asdict()}

    def wrong_inputs(self, batch: Any) -> Iterator[str]:
        yield from super().wrong_inputs(batch)
        if missing := missing_entries(batch, ["visual"]):
            yield from missing
            return
        visual = batch["visual"]
        if missing := missing_entries(visual, Visual._fields):
            yield f"visual: {missing[0]}"
            return
        for name in ("font", "parent_font"):
            if visual[name].max() >= NUM_FONTS:
                yield (
                    f"visual.{name} holds {visual[name].max()}, but there are "
                    f"{NUM_FONTS} fonts; prepare the files again"
                )
        if not np.all(np.abs(visual["boxes"]) <= 1):
            yield "visual.boxes holds numbers beyond -1..1; prepare the files again"
