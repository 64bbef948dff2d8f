"""Golden cases of the official heads of HotpotQA, Natural Questions and WikiHop."""

import jax
import numpy as np

from etc_jax.base.types import Rows
from etc_jax.conversion.engine import import_params
from etc_jax.data.windows.token_types import GLOBAL_CANDIDATE_TYPE
from etc_jax.models.etc import head_weights as etc_heads
from etc_jax.models.etc.config import EtcConfig
from etc_jax.models.heads import CandidateHead, HotpotqaHead, NaturalQuestionsHead
from etc_jax.objectives.losses import candidates, qa_span
from parity.cases import Case, group, largest_difference

_NO_MATTER = {"case", "kind", "keys", "key_doc", "notes", "provenance", "seed"}

# Of the official vocabulary and its mask of what is no document.
CLS, SEP, MASKED = 101, 102, -1e9

NQ_PLACES = ("sa_start", "sa_end", "la_start", "la_end")


def _config(x: Rows, **changes) -> EtcConfig:
    return EtcConfig(embed_dim=x.global_.shape[-1], num_heads=1, **changes)


def _apply(module, table, weights: dict[str, np.ndarray], x: Rows):
    """Outputs of a head with the official weights; none may be left over."""
    abstract = jax.eval_shape(module.init, jax.random.key(0), x)["params"]
    params, _ = import_params(table, weights, abstract)
    return jax.jit(module.apply)({"params": params}, x)


def _worst(pairs: dict, want: dict[str, np.ndarray]) -> float:
    assert set(pairs) == set(want), f"{sorted(pairs)} of {sorted(want)}"
    return max(largest_difference(pairs[name], want[name]) for name in want)


def run_answers(case: Case) -> float:
    """Logits and losses of Natural Questions and HotpotQA."""
    sidecar, arrays = case.description, case.arrays()
    assert set(sidecar) <= _NO_MATTER, f"unknown {set(sidecar) - _NO_MATTER}"
    inputs, weights = group(arrays, "in"), group(arrays, "w")
    x = Rows(inputs["long_output"], inputs["global_output"])
    own = {task: _own(weights, task) for task in ("nq:", "hotpot:")}
    assert sum(map(len, own.values())) == len(weights), sorted(weights)
    got = _natural_questions(x, inputs, own["nq:"])
    got |= _hotpotqa(x, inputs, own["hotpot:"])
    return _worst(got, group(arrays, "out"))


def _own(weights: dict, task: str) -> dict[str, np.ndarray]:
    return {k.removeprefix(task): v for k, v in weights.items() if k.startswith(task)}


def _natural_questions(x: Rows, inputs: dict, weights: dict) -> dict:
    head = NaturalQuestionsHead(_config(x))
    logits = _apply(head, etc_heads.NATURAL_QUESTIONS, weights, x)
    loss, _, weight = qa_span.natural_questions(
        logits.answer_type,
        logits.span,
        answer_type=inputs["answer_type"],
        positions=np.stack([inputs[name] for name in NQ_PLACES], axis=-1),
        weights=np.ones(len(x.long)),
    )
    outside = qa_span.outside_document(inputs["token_ids"], cls=CLS, sep=SEP)
    masked = np.where(outside[..., None], logits.span + MASKED, logits.span)
    return {
        "nq_long_logits": logits.span,
        "nq_long_logits_masked": masked,
        "nq_answer_type_logits": logits.answer_type,
        "nq_loss": loss / weight,
    }


def _hotpotqa(x: Rows, inputs: dict, weights: dict) -> dict:
    logits = _apply(HotpotqaHead(_config(x)), etc_heads.HOTPOTQA, weights, x)
    loss, parts, weight = qa_span.hotpotqa(
        logits.support,
        logits.answer_type,
        logits.span,
        support=inputs["supporting_facts"],
        answer_type=inputs["answer_types"],
        begin=inputs["answer_begins"],
        end=inputs["answer_ends"],
        weights=np.ones(len(x.long)),
    )
    return {
        "hotpot_supporting_facts_logits": logits.support,
        "hotpot_answer_type_logits": logits.answer_type,
        "hotpot_span_logits": logits.span,
        "hotpot_loss": loss / weight,
        "hotpot_losses": np.array(list(parts.values())) / weight,
    }


def run_candidates(case: Case) -> float:
    """Logits and losses of WikiHop."""
    sidecar = {k: v for k, v in case.description.items() if k not in _NO_MATTER}
    arrays = case.arrays()
    inputs, weights = group(arrays, "in"), group(arrays, "w")
    y = inputs["global_output"]
    x = Rows(y[:, :0], y)
    head = CandidateHead(
        _config(
            x,
            mlp_dim=sidecar.pop("intermediate_size"),
            activation=sidecar.pop("hidden_act", "gelu"),
        ),
        final_layer=sidecar.pop("add_final_layer"),
    )
    smoothing = sidecar.pop("label_smoothing")
    assert not sidecar, f"unknown {sidecar}"
    logits = _apply(head, etc_heads.CANDIDATES, weights, x)
    is_candidate = inputs["global_token_type_ids"] == GLOBAL_CANDIDATE_TYPE
    call = (logits, is_candidate, inputs["labels"])
    loss, _, weight = candidates.choice(
        *call, inputs["is_real_example"], label_smoothing=smoothing
    )
    return _worst(
        {
            "logits": candidates.candidate_logits(logits, is_candidate),
            # The official mean has a small number in its divisor.
            "loss": loss / (weight + 1e-5),
            "per_example_loss": candidates.choice_losses(
                *call, label_smoothing=smoothing
            ),
        },
        group(arrays, "out"),
    )
