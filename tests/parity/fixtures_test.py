"""One test for each golden case under the folder given by --fixtures."""

import golden_cases
import jax
import pytest
from golden_data import golden_folder

from parity import (
    bart_ls,
    encoder_decoders,
    encoders,
    etc_layer,
    etc_model,
    etc_structure,
    multihop_heads,
    multihop_tasks,
    natural_questions_tasks,
    openkp,
    optimizers,
    reformer,
    tokenizers,
)
from parity.cases import Case, find_cases

TOLERANCE = 2e-5
# However badly conditioned a case is.
LARGEST_TOLERANCE = 1e-4

RUNNERS = {
    **{
        f"{family}For{head}": run
        for family in ("Bert", "Roberta", "Longformer", "BigBird")
        for head, run in {
            "MaskedLM": encoders.run_labels,
            "MultipleChoice": encoders.run_labels,
            "QuestionAnswering": encoders.run_spans,
            "SequenceClassification": encoders.run_labels,
            "TokenClassification": encoders.run_labels,
        }.items()
    },
    **{
        f"{family}ForConditionalGeneration": encoder_decoders.run
        for family in ("Bart", "LED", "LongT5", "T5")
    },
    "BartForConditionalGeneration of bart_ls": bart_ls.run,
    "Enc of bart_ls": bart_ls.run,
    "SledForConditionalGeneration": encoder_decoders.run,
    "FusedGlobalLocalAttention": etc_layer.run,
    "EtcModel": etc_model.run,
    "NQ and HotpotQA heads": multihop_heads.run_answers,
    "NQ joint decode": natural_questions_tasks.run_joint_decode,
    "NQ window builder": natural_questions_tasks.run_windows,
    "OpenKP example builder": openkp.run_builder,
    "ReformerForMaskedLM": reformer.run,
    "ReformerModelWithLMHead": reformer.run,
    "RelativePositionGenerator": etc_structure.run_relative_positions,
    "feature_utils+input_utils": etc_structure.run_side_inputs,
    "hotpotqa example builder": multihop_tasks.run_hotpotqa,
    "multihop side inputs": etc_structure.run_multihop,
    "openkp head": openkp.run_head,
    "optimizer": optimizers.run,
    "wikihop example builder": multihop_tasks.run_wikihop,
    "wikihop head": multihop_heads.run_candidates,
    "wordpiece tokenizer": tokenizers.run_wordpiece,
}

# Other cases of a family and its head, which has a smaller one that `make test` runs.
FULL = {
    "peers/longt5_local",
    "peers/t5_v11",
    "peers/sled_t5_noprefix",
    "peers/sled_t5_prefix",
    "peers/bartls_encoder",
    "peers/bartls_encoder_nopool",
    "peers/longformer_local_only",
    "peers/bigbird_blocksparse_random",
    "peers/bigbird_full",
    "etc_official/v1_fused_att_noshare",
    "etc_official/v3_relpos",
    "etc_official/v6_model_shareqkv",
    "etc_official/v7_model_noshare_hardg2l_embproj",
    "etc_official/v8_model_norel_sharekv_abspos_preact",
}


def pytest_generate_tests(metafunc):
    golden_cases.parametrize(
        metafunc,
        "case",
        option="--fixtures",
        given=golden_folder(metafunc.config),
        part="fixtures",
        find_fn=find_cases,
        full=FULL,
    )


def _run(case: Case) -> float:
    if case.kind not in RUNNERS:
        pytest.fail(
            f"{case.path} has the unknown kind {case.kind!r}; known are "
            f"{sorted(RUNNERS)}"
        )
    with jax.default_matmul_precision("highest"):
        return RUNNERS[case.kind](case)


def _tolerance(case: Case) -> float:
    """More where a peer's own float32 is off: two roundings may lie on both sides."""
    rounding = case.description.get("float32_vs_float64_max_abs_diff") or {}
    if not rounding and case.kind == "SledForConditionalGeneration":
        # Of a T5 or of another backbone: the case does not say how far it is off.
        return LARGEST_TOLERANCE
    twice = 2 * max(rounding.values(), default=0.0)
    return min(max(TOLERANCE, twice), LARGEST_TOLERANCE)


def test_golden_case(case, request, record_property):
    """The largest difference from the official values is within the tolerance."""
    golden_cases.require(case, golden_folder(request.config))
    difference = _run(case)
    record_property("largest_difference", difference)
    assert difference <= _tolerance(case)
