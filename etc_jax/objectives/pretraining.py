"""Pre-training of ETC: MLM + CPC on a corpus, as a job for the training loop."""

import dataclasses
import logging
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from etils import epath

from etc_jax import registry, structure
from etc_jax.config import Config
from etc_jax.config_sections import ObjectiveConfig
from etc_jax.data.examples import PretrainingSizes
from etc_jax.data.packing import pack
from etc_jax.data.prepare import Prepared, prepare_built_in
from etc_jax.data.pretraining import PretrainingReader, cpc_pool
from etc_jax.data.statistics import log_frequencies, unigram_entropy
from etc_jax.models.etc import EtcConfig, EtcForPretraining
from etc_jax.objectives.cpc import contrastive, similarities
from etc_jax.objectives.mlm import masked_lm
from etc_jax.training.job import Job

_LOG = logging.getLogger(__name__)

POOL_SENTENCES = 256


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

    def init(self, rng: jax.Array, mlm_bias: np.ndarray | None = None) -> Any:
        """Parameters; sizes do not depend on the input's lengths.

        Args:
          rng: key of the initialisers.
          mlm_bias: `[vocabulary]` log frequencies to start the MLM head from. With
            zeros it is the tied token table that learns the frequencies first: its rows
            move together, and the summary tokens lose what CPC tells them apart by.
        """
        ids = jnp.ones((1, 1), jnp.int32)
        one = structure.Structure(ids, ids, jnp.zeros((1, 1, 1), jnp.int16))
        params = self._module(True).init(rng, ids, ids, one, ids * 0)["params"]
        if mlm_bias is not None:
            params = {**params, "mlm_bias": jnp.asarray(mlm_bias)}
        return params

    def _summaries(self, module, params, batch, rngs):
        """(predictions, targets) of the masked sentences, `[b * s, e]` each."""
        main_rng, lone_rng = rngs
        main = module.apply(
            {"params": params},
            batch["long_tokens"],
            batch["global_tokens"],
            batch["structure"],
            rngs=main_rng,
            method="encode",
        )
        lone = module.apply(
            {"params": params},
            batch["cpc_long_tokens"],
            batch["cpc_global_tokens"],
            batch["cpc_structure"],
            rngs=lone_rng,
            method="encode",
        )
        places = batch["cpc_positions"][..., None]
        predictions = jnp.take_along_axis(main.global_, places, axis=1)
        width = predictions.shape[-1]
        return main, predictions.reshape(-1, width), lone.global_.reshape(-1, width)

    def summaries(self, params, batch):
        """(predictions, targets) without dropout, `[b * s, e]` each."""
        module = self._module(True)
        return self._summaries(module, params, batch, (None, None))[1:]

    def loss(self, params, batch, rng, deterministic: bool):
        """0.8 MLM + 0.2 CPC (paper, section 3.5), and its parts as (sum, weight).

        Args:
          params: of `init`.
          batch: see `data.examples`.
          rng: key of dropout.
          deterministic: no dropout.

        Returns:
          (float32 scalar, {name: (sum, weight)}).
        """
        module = self._module(deterministic)
        rngs = (None, None)
        if not deterministic:
            main, lone = jax.random.split(rng)
            rngs = ({"dropout": main}, {"dropout": lone})
        main, predictions, targets = self._summaries(module, params, batch, rngs)
        logits = module.apply(
            {"params": params}, main.long, batch["mlm_positions"], method="mlm_logits"
        )
        mlm, mlm_hits, places = masked_lm(
            logits, batch["mlm_targets"], batch["mlm_weights"]
        )
        temperature = module.apply({"params": params}, method="temperature")
        cpc, cpc_hits, sentences = contrastive(
            similarities(
                predictions,
                targets,
                similarity=self.objective.similarity,
                temperature=temperature,
            ),
            batch["cpc_weights"].reshape(-1),
        )
        places_or_1 = jnp.maximum(places, 1)
        sentences_or_1 = jnp.maximum(sentences, 1)
        loss = (
            self.objective.mlm_weight * mlm / places_or_1
            + self.objective.cpc_weight * cpc / sentences_or_1
        )
        return loss, {
            "mlm_loss": (mlm, places),
            "mlm_accuracy": (mlm_hits, places),
            "cpc_loss": (cpc, sentences),
            "cpc_accuracy": (cpc_hits, sentences),
        }


def _sizes(config: Config) -> PretrainingSizes:
    data = config.data
    given = {
        "mlm_capacity": data.mlm_capacity,
        "cpc_long_length": data.cpc_long_length,
        "cpc_global_length": data.cpc_global_length,
    }
    chosen = {name: value for name, value in given.items() if value is not None}
    return PretrainingSizes.default(data.long_length, data.global_length, **chosen)


def _prepare(config: Config, folder: epath.Path) -> Prepared:
    data = config.data
    if data.source != "builtin":
        raise ValueError(f"data.source is {data.source!r}; there is: builtin")
    return prepare_built_in(
        data.cache_dir or folder / "data",
        vocab_size=data.vocab_size,
        held_back=data.held_back_fraction,
        report_fn=_LOG.info,
    )


def retrieval(predictions: np.ndarray, targets: np.ndarray) -> float:
    """Share of predictions whose own target is the nearest by cosine, `[c, e]` each."""
    logits = similarities(predictions, targets, similarity="cosine")
    return float(np.mean(np.argmax(logits, axis=-1) == np.arange(len(targets))))


@registry.register("pretraining", "mlm_cpc")
def make_job(config: Config, folder: epath.Path) -> Job:
    """The job of `configs/quickstart.py` and its like.

    Args:
      config: of the run; the model must be ETC.
      folder: the workdir, where the token cache is made unless `data.cache_dir` is set.

    Raises:
      ValueError: if the data is not there, or the vocabulary is not the model's.
    """
    if not isinstance(config.model, EtcConfig):
        raise ValueError(
            f"objective mlm_cpc trains ETC, not {type(config.model).__name__}; "
            "set model.family='etc'"
        )
    prepared = _prepare(config, folder)
    sizes = _sizes(config)
    task = Pretraining(config.model, config.objective)
    ids = prepared.tokenizer.token_ids

    def reader(cache, evaluation: bool):
        plan = pack(
            cache,
            long_length=sizes.long_length,
            global_length=sizes.global_length,
        )
        made = PretrainingReader(
            cache,
            plan,
            ids,
            sizes,
            batch_size=config.train.batch_size,
            seed=config.train.seed,
            evaluation=evaluation,
        )
        return plan, made

    frequencies = log_frequencies(prepared.train.tokens, config.model.vocab_size)
    _, train = reader(prepared.train, evaluation=False)
    held_plan, held = reader(prepared.held_back, evaluation=True)
    _LOG.info(
        "%d training windows, %d held back", train.num_examples, held.num_examples
    )
    pool = cpc_pool(
        prepared.held_back,
        held_plan,
        ids,
        sizes,
        batch_size=config.train.batch_size,
        count=POOL_SENTENCES,
    )

    def eval_batches():
        return (held.batch_at(i) for i in range(held.steps_per_epoch))

    def report(params) -> dict[str, Any]:
        encode = jax.jit(task.summaries)
        pairs = []
        for batch in pool:
            chosen = batch["cpc_weights"].reshape(-1) > 0
            pairs.append([np.asarray(x)[chosen] for x in encode(params, batch)])
        predictions, targets = (np.concatenate(x) for x in zip(*pairs, strict=True))
        return {
            "unigram_entropy": unigram_entropy(prepared.held_back.tokens),
            "cpc_pool_sentences": len(targets),
            "cpc_pool_top1": retrieval(predictions, targets),
            "cpc_pool_chance": 1 / len(targets),
        }

    return Job(
        init_params=lambda rng: task.init(rng, frequencies),
        loss_fn=task.loss,
        train_batch=train.batch_at,
        eval_batches=eval_batches,
        tokens_per_step=config.train.batch_size * sizes.long_length,
        check_batch=lambda batch: check_batch(batch, config.model),
        final_report=report,
    )


def check_batch(batch: dict[str, Any], model: EtcConfig) -> list[str]:
    """What would be silently wrong on a device: ids beyond tables, bad structures."""
    problems = []
    for name in ("long_tokens", "global_tokens", "cpc_long_tokens", "mlm_targets"):
        low, high = int(batch[name].min()), int(batch[name].max())
        if low < 0 or high >= model.vocab_size:
            problems.append(
                f"{name} holds ids from {low} to {high}, but model.vocab_size is "
                f"{model.vocab_size}; tokenizer and config differ"
            )
    length = batch["long_tokens"].shape[1]
    if batch["mlm_positions"].max() >= length:
        problems.append(
            f"mlm_positions reach {batch['mlm_positions'].max()}, but the long input "
            f"has {length} places"
        )
    for name in ("structure", "cpc_structure"):
        try:
            structure.validate(batch[name], model.rules, model.num_labels)
        except ValueError as error:
            problems.append(f"{name}: {error}")
    return problems
