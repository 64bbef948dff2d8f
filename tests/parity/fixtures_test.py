"""One test for each golden case under the folder given by --fixtures."""

import os
import pathlib

import jax
import pytest
from conftest import golden_folder, shared_folder

from parity import (
    etc_layer,
    etc_model,
    etc_structure,
    multihop_heads,
    multihop_tasks,
    optimizers,
    tokenizers,
)
from parity.cases import Case, find_cases

TOLERANCE = 2e-5

RUNNERS = {
    "FusedGlobalLocalAttention": etc_layer.run,
    "EtcModel": etc_model.run,
    "NQ and HotpotQA heads": multihop_heads.run_answers,
    "RelativePositionGenerator": etc_structure.run_relative_positions,
    "feature_utils+input_utils": etc_structure.run_side_inputs,
    "hotpotqa example builder": multihop_tasks.run_hotpotqa,
    "multihop side inputs": etc_structure.run_multihop,
    "optimizer": optimizers.run,
    "wikihop example builder": multihop_tasks.run_wikihop,
    "wikihop head": multihop_heads.run_candidates,
    "wordpiece tokenizer": tokenizers.run_wordpiece,
}

# Kinds of golden cases whose subject does not exist here yet. A kind leaves this list
# when it gets a runner.
NOT_BUILT = frozenset(
    {
        # Official ETC: training and tasks.
        "NQ joint decode",
        "NQ window builder",
        "OpenKP example builder",
        "openkp head",
        # Peers, by model class.
        "BartForConditionalGeneration",
        "BertForMaskedLM",
        "BigBirdForMaskedLM",
        "Enc",
        "LEDForConditionalGeneration",
        "LongT5ForConditionalGeneration",
        "LongformerForMaskedLM",
        "LongformerForQuestionAnswering",
        "ReformerForMaskedLM",
        "ReformerModelWithLMHead",
        "RobertaForMaskedLM",
        "SledForConditionalGeneration",
        "T5ForConditionalGeneration",
    }
)


class NotBuiltError(NotImplementedError):
    """The subject of a golden case does not exist here yet."""


def _folder(config) -> tuple[pathlib.Path | None, str]:
    """(folder of the cases or None, why there is none)."""
    if given := golden_folder(config):
        folder = pathlib.Path(given)
        return (folder, "") if folder.is_dir() else (None, f"no folder {folder}")
    folder = shared_folder() / "fixtures"
    if folder.is_dir():
        return folder, ""
    return None, f"golden data not found: {folder} (give --fixtures or ETC_JAX_SHARED)"


def pytest_generate_tests(metafunc):
    if "case" not in metafunc.fixturenames:
        return
    folder, problem = _folder(metafunc.config)
    cases = find_cases(folder) if folder else []
    if folder and not cases:
        problem = f"no golden case under {folder}"
    if problem:
        metafunc.parametrize("case", [problem], ids=["no golden data"])
        return
    metafunc.parametrize("case", [_param(case) for case in cases])


def _param(case: Case):
    marks = []
    if case.kind in NOT_BUILT:
        reason = f"not built yet: {case.kind}"
        marks = [pytest.mark.xfail(strict=True, raises=NotBuiltError, reason=reason)]
    return pytest.param(case, id=case.name, marks=marks)


def _run(case: Case) -> float:
    if case.kind in NOT_BUILT:
        raise NotBuiltError(case.kind)
    if case.kind not in RUNNERS:
        pytest.fail(
            f"{case.path} has the unknown kind {case.kind!r}; known are "
            f"{sorted(RUNNERS)}, not built are {sorted(NOT_BUILT)}"
        )
    with jax.default_matmul_precision("highest"):
        return RUNNERS[case.kind](case)


def test_golden_case(case, request, record_property):
    """The largest difference from the official values is within the tolerance."""
    if isinstance(case, str):
        asked = golden_folder(request.config)
        if asked or os.environ.get("ETC_JAX_REQUIRE_SHARED") == "1":
            pytest.fail(case)
        pytest.skip(case)
    difference = _run(case)
    record_property("largest_difference", difference)
    assert difference <= TOLERANCE


def test_a_kind_is_either_built_or_listed_as_not_built():
    assert not NOT_BUILT & set(RUNNERS)
