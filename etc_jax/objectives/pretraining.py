"""The loss of pre-training ETC: masked words (MLM) and masked sentences (CPC)."""

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from etc_jax import structure
from etc_jax.base.types import Rows
from etc_jax.config.sections import ObjectiveConfig
from etc_jax.models import useful_flops
from etc_jax.models.etc.body import EtcForPretraining
from etc_jax.models.etc.config import EtcConfig
from etc_jax.objectives.losses.cpc import contrastive, similarities
from etc_jax.objectives.losses.tokens import token_sums
from etc_jax.training.job import Sums


@dataclasses.dataclass(frozen=True)
class Pretraining:
    """The loss of MLM + CPC for one model.

    Attributes:
      model: config of the encoder.
      objective: weights and similarity.
    """

    model: EtcConfig
    objective: ObjectiveConfig

    def _module(self, deterministic: bool) -> EtcForPretraining:
        return EtcForPretraining(self.model, deterministic)

    @property
    def loss_weights(self) -> dict[str, float]:
        """See `Job.loss_weights`. CPC's own loss still depends on the rows of a batch,
        or of a microbatch: its other sentences are the negatives."""
        weights = {"mlm_loss": self.objective.mlm_weight}
        if self.objective.cpc_weight:
            weights["cpc_loss"] = self.objective.cpc_weight
        return weights

    def useful_flops(self, batch) -> float | None:
        """Of a training step on rows in numpy; see `models.useful_flops`."""
        inputs = [
            batch[name] for name in ("structure", "cpc_structure") if name in batch
        ]
        num_masked = float(np.sum(batch["mlm_weights"]))
        return useful_flops.of_step(self.model, "etc", inputs, masked_logits=num_masked)

    def init(self, rng: jax.Array, mlm_bias: np.ndarray | None = None) -> Any:
        """Parameters; sizes do not depend on the input's lengths.

        Args:
          rng: key of the initialisers.
          mlm_bias: `[vocabulary]` log frequencies to start the MLM head from. With
            zeros it is the tied token table that learns the frequencies first: its rows
            move together, and the summary tokens lose what CPC distinguishes them by.
        """
        ids = jnp.ones((1, 1), jnp.int32)
        one = structure.Structure(ids, ids, jnp.zeros((1, 1, 1), jnp.int16))
        params = self._module(True).init(rng, ids, ids, one, ids * 0)["params"]
        if mlm_bias is not None:
            params = {**params, "mlm_bias": jnp.asarray(mlm_bias)}
        return params

    def _encode(self, module, params, batch, rng) -> tuple[Rows, ...]:
        """Outputs of the main input and, with CPC, of the masked sentences alone.

        Both go through the layers in one pass.
        """
        prefixes = ("", "cpc_") if "cpc_positions" in batch else ("",)
        names = ("long_tokens", "global_tokens", "structure")
        return module.apply(
            {"params": params},
            *(tuple(batch[prefix + name] for name in names) for prefix in prefixes),
            rngs=None if rng is None else {"dropout": rng},
            method="encode_together",
        )

    def _pairs(self, batch, main: Rows, lone: Rows):
        """(predictions, targets) of the masked sentences, `[b * s, e]` each."""
        positions = batch["cpc_positions"][..., None]
        predictions = jnp.take_along_axis(main.global_, positions, axis=1)
        width = predictions.shape[-1]
        return predictions.reshape(-1, width), lone.global_.reshape(-1, width)

    def summaries(self, params, batch):
        """(predictions, targets) without dropout, `[b * s, e]` each."""
        outputs = self._encode(self._module(True), params, batch, None)
        return self._pairs(batch, *outputs)

    def loss(self, params, batch, rng, deterministic: bool) -> Sums:
        """The terms of 0.8 MLM + 0.2 CPC (paper, section 3.5), and metrics.

        Args:
          params: of `init`.
          batch: see `pretraining.examples`; without CPC entries there is MLM alone.
          rng: key of dropout.
          deterministic: no dropout.

        Returns:
          {name: (sum, weight)}.
        """
        module = self._module(deterministic)
        rng = None if deterministic else rng
        main, *lone = self._encode(module, params, batch, rng)
        sums = self._mlm(module, params, batch, main)
        if lone:
            pairs = self._pairs(batch, main, *lone)
            sums |= self._cpc(module, params, batch, *pairs)
        return sums

    def _mlm(self, module, params, batch, main):
        losses, hits = module.apply(
            {"params": params},
            main.long,
            batch["mlm_positions"],
            batch["mlm_targets"],
            method="mlm_losses",
        )
        weights = batch["mlm_weights"].astype(jnp.float32)
        sums = token_sums(losses, hits, weights)
        _, num_masked = sums["loss"]
        return {
            "mlm_loss": sums["loss"],
            "mlm_accuracy": sums["accuracy"],
            "mlm_overflow": _share(batch["mlm_overflow"], num_masked),
        }

    def _cpc(self, module, params, batch, predictions, targets):
        """Every prediction against the targets of the whole batch, on all devices."""
        logits = similarities(
            predictions,
            targets,
            similarity=self.objective.similarity,
            temperature=module.apply({"params": params}, method="temperature"),
        )
        documents = None
        if self.objective.exclude_same_document:
            documents = batch["cpc_documents"].reshape(-1)
        losses, hits, sentences = contrastive(
            logits, batch["cpc_weights"].reshape(-1), documents
        )
        return {
            "cpc_loss": (losses, sentences),
            "cpc_accuracy": (hits, sentences),
            "cpc_overflow": _share(batch["cpc_overflow"], sentences),
        }


def _share(overflow: jax.Array, used: jax.Array):
    """(left out for want of room, chosen in all)."""
    left_out = jnp.sum(overflow).astype(jnp.float32)
    return left_out, left_out + used
