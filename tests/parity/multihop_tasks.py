"""Golden cases of the official example builders of HotpotQA and WikiHop."""

import re

import numpy as np
from structured_batch import batch

from etc_jax import structure as st
from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from etc_jax.data.windows.token_types import GLOBAL_CANDIDATE_TYPE, GLOBAL_QUESTION_TYPE
from etc_jax.data.windows.window import Window
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import hotpotqa, wikihop
from etc_jax.tasks.hotpotqa.official import words_of
from parity import etc_structure
from parity.cases import Case, group

# What describes the case and decides no value.
_NO_MATTER = {"case", "kind", "keys", "key_doc", "notes", "provenance", "seed"}

RADIUS, MAX_DISTANCE = 5, 4


def _equal(got, want, what: str) -> None:
    np.testing.assert_array_equal(np.asarray(got), want, err_msg=what)


def _tokenizer(case: Case, sidecar: dict) -> WordPieceTokenizer:
    name = sidecar.pop("tokenizer")
    lower = re.fullmatch(r"BERT WordPiece, do_lower_case=(True|False)", name)
    assert lower, f"unknown tokenizer {name!r}"
    return WordPieceTokenizer.from_vocab_file(
        case.path.parent / sidecar.pop("vocab"), lower_case=lower[1] == "True"
    )


def _records(case: Case, read):
    records = list(read(case.path.with_name(f"{case.path.stem}.input.json")))
    assert records, "no record"
    return records


def _breakpoints(groups: np.ndarray) -> np.ndarray:
    """1 at the last token of each group; padding is of group 0."""
    after = np.pad(groups[:, 1:], ((0, 0), (0, 1)))
    return ((groups != after) & (groups > 0)).astype(np.int32)


def _arrays(windows: list[Window]) -> dict[str, np.ndarray]:
    """What both builders have, under the official names."""
    tokens, types, structure, _ = batch(windows)
    return {
        "long_token_ids": tokens.long,
        "global_token_ids": tokens.global_,
        "long_token_type_ids": types.long,
        "global_token_type_ids": types.global_,
        "long_sentence_ids": structure.links[..., 0],
        "long_paragraph_ids": structure.links[..., 1],
        "long_paragraph_breakpoints": _breakpoints(structure.long_segment_ids),
        "global_paragraph_breakpoints": _breakpoints(structure.order_ids),
    }


def _compare(got: dict[str, np.ndarray], want: dict[str, np.ndarray]) -> None:
    assert want, "the case has no outputs"
    assert set(want) <= set(got), f"unknown outputs {sorted(set(want) - set(got))}"
    for name, array in want.items():
        _equal(got[name], array, name)


# --- side inputs ----------------------------------------------------------------------


def side_inputs(arrays: dict, exempt: np.ndarray, *, hard_g2l: bool) -> dict:
    """Official masks and ids, from the builder's arrays, as dense formulas."""
    k = MAX_DISTANCE
    long = _segments(arrays["long_paragraph_breakpoints"])
    glob = _segments(arrays["global_paragraph_breakpoints"])
    n, g = long.shape[-1], glob.shape[-1]
    columns = np.arange(g)
    tied = {
        name: arrays[name][..., None] == columns
        for name in ("long_sentence_ids", "long_paragraph_ids", "l2g_linked_ids")
        if name in arrays
    }
    member = tied["long_sentence_ids"] | tied["long_paragraph_ids"]
    linked = np.any(list(tied.values()), axis=0)
    across = (long[..., None] > 0) == (glob[:, None] > 0)
    keys = np.arange(n)[:, None] + np.arange(2 * RADIUS + 1) - RADIUS
    inside = (keys >= 0) & (keys < n)
    window = long[:, np.clip(keys, 0, n - 1)]
    g2l = across & (member | exempt[:, None]) if hard_g2l else across
    distance = _distances(columns[:, None], columns, k)
    other = glob[..., None] != glob[:, None]
    ids = np.where(linked, 2 * k + 2, 2 * k + 1)
    return {
        "l2l_att_mask": (window == long[..., None]) & inside,
        "g2g_att_mask": (glob[..., None] > 0) == (glob[:, None] > 0),
        "l2g_att_mask": across,
        "g2l_att_mask": g2l.swapaxes(1, 2),
        "l2l_relative_att_ids": np.broadcast_to(
            _distances(np.arange(n)[:, None], keys, k), window.shape
        ),
        "g2g_relative_att_ids": np.where(other, 2 * k + 3, distance),
        "l2g_relative_att_ids": ids,
        "g2l_relative_att_ids": ids.swapaxes(1, 2),
    }


def _segments(breakpoints) -> np.ndarray:
    return np.cumsum(breakpoints[:, ::-1], axis=-1)[:, ::-1]


def _distances(query, key, k: int) -> np.ndarray:
    far = np.minimum(np.abs(key - query), k)
    return np.where(key >= query, far, k + far)


def _compare_structure(windows: list[Window], arrays: dict, exempt: np.ndarray) -> None:
    """Through the rules, masks and labels are those of the official side inputs."""
    structure = batch(windows)[2]
    for hard_g2l in (False, True):
        rules = st.Rules(radius=RADIUS, max_distance=MAX_DISTANCE, hard_g2l=hard_g2l)
        want = side_inputs(arrays, exempt, hard_g2l=hard_g2l)
        etc_structure._compare(structure, rules, want)


# --- tasks ----------------------------------------------------------------------------


def _unigrams(window) -> np.ndarray:
    """Which word of its sentence a long token begins in; -1 for none."""
    found = np.full(len(window.offsets), -1, np.int32)
    for i, (start, _) in enumerate(window.offsets.tolist()):
        if start >= 0:
            text = window.texts[window.structure.links[i, 0]]
            found[i] = words_of(text)[start]
    return found


def _hotpotqa_arrays(windows) -> dict[str, np.ndarray]:
    labels = batch(windows)[3]
    return _arrays(windows) | {
        "long_tokens_to_unigrams": np.stack([_unigrams(w) for w in windows]),
        "global_sentence_ids": np.stack([w.sentence for w in windows]),
        "global_paragraph_ids": np.stack([w.paragraph for w in windows]),
        "supporting_facts": labels["support"],
        "answer_types": labels["answer_type"],
        "answer_begins": labels["begin"],
        "answer_ends": labels["end"],
        "answer_bio_ids": np.stack([hotpotqa.inputs.bio_labels(w) for w in windows]),
    }


def run_hotpotqa(case: Case) -> float:
    """Inputs and labels of every record, which are trained on, and the structure."""
    sidecar = {k: v for k, v in case.description.items() if k not in _NO_MATTER}
    tokenizer = _tokenizer(case, sidecar)
    sizes = StructuredSizes(
        sidecar.pop("long_seq_length"), sidecar.pop("global_seq_length")
    )
    kept = sidecar.pop("train_kept_indices")
    assert not sidecar, f"unknown {sidecar}"
    windows = [
        window
        for record in _records(case, hotpotqa.records.read)
        for window in hotpotqa.inputs.features(
            record, tokenizer, sizes, official_quirks=True
        )
    ]
    assert [i for i, w in enumerate(windows) if w.unusable is None] == kept
    outputs = group(case.arrays(), "out")
    evaluated, trained = group(outputs, "eval"), group(outputs, "train")
    assert len(evaluated) + len(trained) == len(outputs), sorted(outputs)
    _compare(_hotpotqa_arrays(windows), evaluated)
    _compare(_hotpotqa_arrays([windows[i] for i in kept]), trained)
    cls = evaluated["global_token_ids"] == tokenizer.special_id("cls")
    _compare_structure(windows, evaluated, cls)
    return 0.0


def _splitter(name: str):
    """The stand-in that a case describes for the official sentence splitter."""
    pattern = re.match(r"regex findall '(.*?)' then strip", name)
    assert pattern, f"unknown sentence splitter {name!r}"
    return lambda text: [s.strip() for s in re.findall(pattern[1], text)]


def run_wikihop(case: Case) -> float:
    """Inputs and labels of every record, and the structure."""
    sidecar = {k: v for k, v in case.description.items() if k not in _NO_MATTER}
    tokenizer = _tokenizer(case, sidecar)
    sizes = StructuredSizes(sidecar.pop("long_seq_len"), sidecar.pop("global_seq_len"))
    options = wikihop.choice_inputs.CandidateOptions(
        max_sentences=sidecar.pop("max_num_sentences")
    )
    split_fn = _splitter(sidecar.pop("sentence_splitter"))
    assert not sidecar, f"unknown {sidecar}"
    windows = [
        window
        for record in _records(case, wikihop.records.read)
        for window in wikihop.choice_inputs.features(
            record,
            tokenizer,
            sizes,
            options=options,
            split_fn=split_fn,
            official_quirks=True,
        )
    ]
    want = group(case.arrays(), "out")
    structure, labels = batch(windows)[2:]
    extra = {
        "l2g_linked_ids": structure.links[..., 2],
        "label_id": labels["candidate"],
    }
    _compare(_arrays(windows) | extra, want)
    types = want["global_token_type_ids"]
    exempt = np.isin(types, (GLOBAL_CANDIDATE_TYPE, GLOBAL_QUESTION_TYPE))
    _compare_structure(windows, want, exempt)
    return 0.0
