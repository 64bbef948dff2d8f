"""OpenKP in one sequence: layout, labels, what learns it, raw files to the score."""

import jax
import numpy as np
import pytest
from learning import batch_of, evaluated, learner_of, random_params
from multihop_samples import tokenizer
from openkp_samples import TEXTS, page, record, write_lines
from tokenizer_samples import byte_bpe

from etc_jax import config as config_lib
from etc_jax.config.kinds import section_of
from etc_jax.data.schema import stacked
from etc_jax.datasets.of_config import task_of
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.task import find_task
from etc_jax.formats import structured
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.models.big_bird.config import BigBirdConfig
from etc_jax.models.longformer.config import LongformerConfig
from etc_jax.ops.ngrams import NO_NGRAM
from etc_jax.tasks.openkp.inputs import features as structured_features
from etc_jax.tasks.openkp.sequence_inputs import features

TASK = find_task("openkp", "sequence")
# The page has 15 pieces.
SIZES = SequenceSizes(input_length=24, global_length=2)


def window(*args, sizes=SIZES, model=None, **changes):
    [made] = features(record(*args, **changes), model or tokenizer(), sizes)
    return made


# --- layout and labels ----------------------------------------------------------------


def test_the_layout_of_an_input():
    made = window(("Old mills", "Ton ."), phrases=["Ton", "old mills"])
    pieces = ["[CLS]", "old", "mill", "##s", "ton", ".", "[SEP]"]
    assert tokenizer().pieces(made.tokens) == pieces + ["[PAD]"] * 17
    assert made.words == ("Old", "mills", "Ton", ".") and made.num_elements == 2
    words = [-1, 0, 1, 1, 2, 3, -1]
    assert made.extra["words"].tolist() == words + [-1] * 17
    assert made.global_index.tolist() == [0, -1]
    assert made.example_ids.tolist() == [1] * 7 + [0] * 17
    assert not made.types.any()
    assert made.labels["start"].tolist() == [2, 0, -1]
    assert made.labels["length"].tolist() == [1, 2, -1]
    assert made.labels["occurrences"].tolist() == [2, 0, 1] + [0] * 21
    assert made.unusable is None


def test_words_and_labels_are_those_of_structured_inputs():
    got = record(("Old  mill", *TEXTS), phrases=["mill", "TON", "old mill"])
    [made] = features(got, tokenizer(), SIZES)
    [other] = structured_features(got, tokenizer(), structured.StructuredSizes(22, 8))
    assert made.words == other.words and made.num_elements == other.num_elements
    for name, label in other.labels.items():
        n = len(label)
        np.testing.assert_array_equal(made.labels[name][:n], label)
        assert not made.labels[name][n:].any()
    words = other.extra["long_words"]
    np.testing.assert_array_equal(made.extra["words"][1:23], words)


def test_words_have_the_pieces_that_they_have_in_running_text():
    got = record(("the cat", " cat"), phrases=["cat"])
    [made] = features(got, byte_bpe(), SequenceSizes(8, 1))
    # The space is spelled as U+0120; an empty word has no piece.
    pieces = ["<s>", "\u0120the", "\u0120cat", "\u0120cat", "</s>"]
    assert byte_bpe().pieces(made.tokens[:5]) == pieces
    assert made.words == ("the", "cat", "cat")
    assert made.example_ids.sum() == 5
    assert TASK.record_length(got, byte_bpe()) == 5


@pytest.mark.parametrize("pieces, elements", [(15, 4), (14, 3), (12, 3), (11, 2)])
def test_whole_elements_are_taken_while_there_is_room(pieces, elements):
    made = window(sizes=SequenceSizes(pieces + 2, 1))
    used = [2, 9, 12, 15][elements - 1]
    assert made.num_elements == elements
    assert made.example_ids.sum() == used + 2
    assert tokenizer().pieces(made.tokens)[used + 1] == "[SEP]"


def test_what_cannot_be_an_input_is_named():
    with pytest.raises(BadRecordError, match="2 tokens in the first .* room for 1; ra"):
        window(sizes=SequenceSizes(3, 1))
    with pytest.raises(ValueError, match="has no option tokens_per_block; there are:"):
        TASK.with_options({"tokens_per_block": 8})
    assert window(phrases=["mill the old"]).unusable == "no keyphrase in the input"


def test_a_page_without_a_piece_has_no_run_of_words():
    made = window(("\u200b", "\u200b"), phrases=["a"])
    assert made.words == () and made.example_ids.sum() == 2
    learner = learner_of(TASK, MODELS["big_bird"])
    outputs = jax.jit(learner.outputs)(random_params(learner), stacked([made]))
    assert (np.asarray(outputs) == NO_NGRAM).all()
    assert TASK.decode(np.asarray(outputs), [made], (None,)) == [[[]]]


def test_a_lost_keyphrase_has_its_reason(tmp_path):
    path = write_lines(tmp_path, [page(phrases=("country", "york", "Ton"))])
    got = TASK.upper_bound([path], tokenizer(), SequenceSizes(14, 1))
    assert [loss.reason for loss in got.losses] == [
        "'country' did not fit into the input",
        "'york' is not in the text",
    ]
    assert got.scores.metrics["R@3"] == pytest.approx(1 / 3)


# --- what learns it -------------------------------------------------------------------

SMALL = {
    "vocab_size": tokenizer().vocab_size,
    "embed_dim": 8,
    "num_layers": 1,
    "num_heads": 2,
    "mlp_dim": 16,
    "max_length": 40,
    "attention": "dense",
    "dropout_rate": 0.0,
}
MODELS = {
    "longformer": LongformerConfig(**SMALL, attention_window=(4,)),
    "big_bird": BigBirdConfig(**SMALL, block_size=2, num_globals=2),
}


def batch():
    """Two pages, and one of weight 0 that has no keyphrase."""
    windows = [
        window(phrases=["mill", "of Ton"]),
        window(("Ann Lee owned a mill", "Ann Lee"), ["Ann Lee"]),
        window(("Ton",), ["york"]),
    ]
    assert [w.unusable is None for w in windows] == [True, True, False]
    return batch_of(windows, (1, 1, 0))


# Of the first two pages: all runs that are a keyphrase, (words - 1, first word).
PLACES = (
    {"mill": [(0, 1), (0, 4), (0, 10)], "of ton": [(1, 13)]},
    {"ann lee": [(1, 0), (1, 5)]},
)
NUM_WORDS = (15, 7)


@pytest.mark.parametrize(
    "family, which", [("longformer", "first"), ("big_bird", "best")]
)
@pytest.mark.full(but=["big_bird-best"])
def test_the_loss_is_that_of_a_plain_loop(family, which):
    learner, given = learner_of(TASK, MODELS[family], keyphrase_loss=which), batch()
    params = random_params(learner)
    assert set(params) == {"encoder", "head"}
    assert learner.problems(given) == []
    loss, sums, grads, outputs = evaluated(learner)(params, given)
    assert outputs.shape == (3, 5, SIZES.input_length) and outputs.dtype == np.float32
    want = 0.0
    for row, phrases in enumerate(PLACES):
        logits = np.float64(outputs[row])
        runs = [(k, i) for k in range(5) for i in range(NUM_WORDS[row] - k)]
        assert {tuple(x) for x in np.argwhere(logits > NO_NGRAM).tolist()} == set(runs)
        if which == "first":
            targets = [places[0] for places in phrases.values()]
        else:
            targets = [max(p, key=lambda r: logits[r]) for p in phrases.values()]
            others = [r for places in phrases.values() for r in places]
            runs = [r for r in runs if r in targets or r not in others]
        mass = np.log(sum(np.exp(logits[r]) for r in runs))
        for r in runs:
            share = (r in targets) / len(targets) + 1e-4 / len(runs)
            want -= share / (1 + 1e-4) * (logits[r] - mass)
    np.testing.assert_allclose(loss, want / 2, rtol=1e-5)
    assert set(sums) == {"loss", "accuracy"} and float(sums["accuracy"][1]) == 2
    assert all(np.isfinite(x).all() for x in jax.tree.leaves(grads))
    assert all(np.any(x) for x in jax.tree.leaves(grads["head"]))


@pytest.mark.parametrize(
    "change, message",
    [
        (np.full((3, 24), 24), "words holds positions from 24 to 24, expected -1"),
        (np.full((3, 24), -2), "words holds positions from -2 to -2, expected -1"),
        (None, "the batch lacks words"),
    ],
)
def test_words_that_no_page_has_are_named(change, message):
    learner = learner_of(TASK, MODELS["longformer"])
    given = {**batch(), "words": change}
    given = {name: x for name, x in given.items() if x is not None}
    [said] = learner.problems(given)
    assert said.startswith(message)


def test_options_of_looks_are_for_structured_inputs_alone():
    values = config_lib.default_config("bert")
    values.objective.name = "openkp"
    values.objective.keyphrase_loss = "best"
    values.data.update(source="windows", paths=("train",), validation_paths=("dev",))
    config = config_lib.from_config_dict(values)
    section = section_of("openkp", "sequence")
    assert config.objective == section("openkp", keyphrase_loss="best")
    assert task_of(config).format == "sequence"
    values.objective.visual_features = False
    with pytest.raises(
        config_lib.ConfigError,
        match=r"visual_features: is False.*\(openkp in format structured does\)",
    ):
        config_lib.from_config_dict(values)
