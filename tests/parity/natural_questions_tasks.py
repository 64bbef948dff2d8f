"""Golden cases of the official windows of Natural Questions and their decoding."""

import json
import re

import numpy as np
from structured_batch import batch

from etc_jax.data.tokenizers.wordpiece import WordPieceTokenizer
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks.natural_questions.inputs import NaturalQuestionsOptions, features
from etc_jax.tasks.natural_questions.labels import PLACES
from etc_jax.tasks.natural_questions.records import parse
from etc_jax.tasks.natural_questions.spans import JOINT, SpanBoundary, official_spans
from parity.cases import Case, group, largest_difference

# What describes the case and decides no value.
_NO_MATTER = {"case", "kind", "keys", "notes", "provenance", "seed", "is_train"}
_KINDS = ("sa_start", "sa_end", "la_start", "la_end")


def run_windows(case: Case) -> float:
    """Every window: tokens, the way back, labels and structure."""
    sidecar = {k: v for k, v in case.description.items() if k not in _NO_MATTER}
    name = sidecar.pop("tokenizer")
    lower = re.fullmatch(r"BERT WordPiece, do_lower_case=(True|False)", name)
    assert lower, f"unknown tokenizer {name!r}"
    tokenizer = WordPieceTokenizer.from_vocab_file(
        case.path.parent / sidecar.pop("vocab"), lower_case=lower[1] == "True"
    )
    sizes = StructuredSizes(sidecar.pop("seq_len"), sidecar.pop("global_seq_len"))
    options = {
        "question_tokens": sidecar.pop("question_len"),
        "stride": sidecar.pop("stride"),
    }
    block = sidecar.pop("fixed_block_size", None)
    assert not sidecar, f"unknown {sidecar}"
    want = group(case.arrays(), "out")
    blocks = group(want, "fixed_blocks")
    values = json.loads(case.path.with_name(f"{case.path.stem}.input.json").read_text())

    def arrays(**changes):
        made = [
            window
            for value in values
            for window in features(
                parse(value, lambda kind, message: None),
                tokenizer,
                sizes,
                options=NaturalQuestionsOptions(**options, **changes),
                official_quirks=True,
            )
        ]
        assert made, "no window"
        return _arrays(made)

    got = arrays()
    used = got["token_ids_used"]
    _compare(
        got, {k: v for k, v in want.items() if not k.startswith("fixed_blocks/")}, used
    )
    assert (block is None) == (not blocks)
    if blocks:
        _compare(arrays(tokens_per_block=block), blocks, used)
    return 0.0


def _arrays(windows) -> dict[str, np.ndarray]:
    """What both builders have, under the official names."""
    tokens, _, structure, labels = batch(windows)
    return {
        "example_id": np.array([int(w.record.id) for w in windows]),
        "token_ids": tokens.long,
        "global_token_ids": tokens.global_,
        "candidate_ids": np.stack([w.candidate for w in windows]),
        "token_pos": np.stack([w.word for w in windows]),
        "sentence_ids": structure.links[..., 0],
        "long_breakpoints": _last(structure.long_example_ids),
        "global_breakpoints": _last(structure.global_example_ids),
        "answer_type": labels["answer_type"],
        **{k: labels[name] for k, name in zip(_KINDS, PLACES, strict=True)},
        "token_ids_used": structure.long_example_ids > 0,
    }


def _last(example_ids: np.ndarray) -> np.ndarray:
    """1 at the last token in use."""
    return example_ids - np.pad(example_ids[:, 1:], ((0, 0), (0, 1)))


def _compare(got, want, used) -> None:
    assert want, "the case has no outputs"
    assert set(want) <= set(got), f"unknown outputs {sorted(set(want) - set(got))}"
    for name, array in want.items():
        mine = got[name]
        if name == "sentence_ids":
            # What padding is tied to has no effect.
            mine, array = mine[used], array[used]
        np.testing.assert_array_equal(mine, array, err_msg=name)


def run_joint_decode(case: Case) -> float:
    """Spans are equal, and scores are near."""
    items = case.description["items"]
    assert items, "no item"
    differences = []
    for item in items:
        places = [
            sorted(
                (
                    SpanBoundary(score, word, -1, 0)
                    for score, word in item["pred"][kind]
                ),
                key=lambda place: -place.score,
            )
            for kind in _KINDS
        ]
        short, long = official_spans(*places, JOINT, item["max_short_answer_len"])
        want = item["expected"]
        assert list(short.span) == want["short"] and list(long.span) == want["long"]
        differences += [
            largest_difference(short.score, want["short_score"]),
            largest_difference(long.score, want["long_score"]),
        ]
    return max(differences)
