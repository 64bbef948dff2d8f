import numpy as np
import pytest
from multihop_samples import tokenizer
from openkp_samples import BODY, PLAIN, TITLE, record
from tokenizer_samples import byte_bpe

from etc_jax import config as config_lib, structure as st
from etc_jax.configs.etc import etc_base_openkp
from etc_jax.data.schema import stacked
from etc_jax.datasets.of_config import task_of
from etc_jax.datasets.records import BadRecordError
from etc_jax.formats.structured import StructuredSizes
from etc_jax.ops.visual import FLAGS, NUM_FONTS, Visual, crosses, dense_features
from etc_jax.structure import builders
from etc_jax.tasks.openkp import visual as openkp_visual
from etc_jax.tasks.openkp.inputs import (
    OpenkpOptions,
    features,
)
from etc_jax.tasks.openkp.pages import find_occurrences

SIZES = StructuredSizes(long_length=30, global_length=6)


def window(*args, sizes=SIZES, quirks=False, block=None, **changes):
    [made] = features(
        record(*args, **changes),
        tokenizer(),
        sizes,
        options=OpenkpOptions(tokens_per_block=block),
        official_quirks=quirks,
    )
    return made


def found(made) -> dict[str, list[int]]:
    """By keyphrase as the window spells it, where it begins."""
    labels = made.labels
    phrases = {}
    for p, (start, length) in enumerate(
        zip(labels["start"], labels["length"], strict=True)
    ):
        if length > 0:
            starts = np.flatnonzero(labels["occurrences"] >> p & 1).tolist()
            assert starts[0] == start
            phrases[" ".join(made.words[start : start + length])] = starts
    return phrases


# --- input ----------------------------------------------------------------------------


def test_the_layout_of_an_input():
    made = window(("Old mills", "Ton ."), phrases=["Ton"])
    pieces = tokenizer().pieces(made.tokens.long)
    assert pieces[:6] == ["old", "mill", "##s", "ton", ".", "[PAD]"]
    assert made.words == ("Old", "mills", "Ton", ".")
    assert made.extra["long_words"][:6].tolist() == [0, 1, 1, 2, 3, -1]
    assert made.structure.links[:6, 0].tolist() == [0, 0, 0, 1, 1, -1]
    assert made.tokens.global_.tolist() == [1, 1, 0, 0, 0, 0]
    assert made.structure.global_example_ids.tolist() == [1, 1, 0, 0, 0, 0]
    assert made.structure.long_example_ids.tolist() == [1] * 5 + [0] * 25
    assert made.types.long.tolist() == [1] * 5 + [0] * 25
    assert not made.types.global_.any() and made.unusable is None
    st.validate(made.structure, st.Rules(radius=2, max_distance=2))


def test_words_are_tokenised_alone():
    # In a running text the point would be a token by itself, and so it is here; but
    # what stands around a word decides nothing.
    alone = {
        word: window((word,)).tokens.long[:4].tolist() for word in ("mill.", "Ton")
    }
    both = window(("mill. Ton mill.",)).tokens.long[:5].tolist()
    assert both == [*alone["mill."][:2], alone["Ton"][0], *alone["mill."][:2]]


@pytest.mark.parametrize("long_length, elements", [(12, 3), (11, 2), (9, 2), (8, 1)])
def test_whole_elements_are_taken_while_there_is_room(long_length, elements):
    made = window(sizes=StructuredSizes(long_length, 6))
    assert made.structure.global_example_ids.sum() == elements
    assert made.structure.long_example_ids.sum() == [2, 9, 12][elements - 1]
    # A smaller element after the first that does not fit is not taken.
    made = window(("a b", "a b c d e", "a"), sizes=StructuredSizes(6, 6))
    assert made.words == ("a", "b")


def test_no_more_elements_are_taken_than_there_are_global_tokens():
    made = window(sizes=StructuredSizes(30, 2))
    assert made.words[-1] == "." and len(made.words) == 9


def test_a_page_whose_first_element_does_not_fit_is_refused():
    with pytest.raises(BadRecordError, match="7 tokens in the first element"):
        window(("the old mill stands in Ton .",), sizes=StructuredSizes(6, 6))


def test_words_without_a_piece_are_left_out_but_with_quirks():
    texts = ("Old  mill", "", "in Ton")
    made = window(texts, phrases=["old mill", "in ton"])
    assert made.words == ("Old", "mill", "in", "Ton")
    assert found(made) == {"Old mill": [0], "in Ton": [2]}
    # An element without words still has its global token.
    assert made.structure.links[:5, 0].tolist() == [0, 0, 2, 2, -1]
    official = window(texts, phrases=["old mill", "in ton"], quirks=True)
    assert official.words == ("Old", "", "mill", "", "in", "Ton")
    assert official.extra["long_words"][:5].tolist() == [0, 2, 4, 5, -1]
    assert found(official) == {"in Ton": [4]}
    empty = (" " * 40,)
    with pytest.raises(BadRecordError, match="43 words, but there is room for 30"):
        window(("a b", *empty), quirks=True)


def test_global_tokens_are_those_of_the_vocabulary_but_with_quirks():
    page = record(("the cat", "cat"), phrases=["cat"])
    ids = [
        features(page, byte_bpe(), SIZES, official_quirks=quirks)[0].tokens.global_
        for quirks in (False, True)
    ]
    assert [row.tolist() for row in ids] == [[2, 2, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    assert byte_bpe().pieces([2]) == ["</s>"]


# --- fixed blocks ---------------------------------------------------------------------


def test_the_layout_of_fixed_blocks():
    texts = ("Old mills", "Ton .", "of Ton")
    made = window(texts, phrases=["Ton"], block=3, sizes=StructuredSizes(18, 6))
    pieces = tokenizer().pieces(made.tokens.long)
    assert pieces[:8] == ["old", "mill", "##s", "ton", ".", "of", "ton", "[PAD]"]
    assert made.structure.links[:8, 0].tolist() == [0, 0, 0, 1, 1, 1, 2, -1]
    assert made.tokens.global_.tolist() == [1, 1, 1, 0, 0, 0]
    assert made.structure.global_example_ids.tolist() == [1, 1, 1, 0, 0, 0]
    assert not made.types.global_.any() and made.num_elements == 3
    st.validate(made.structure, st.Rules(radius=2, max_distance=2))


@pytest.mark.parametrize("block", [5, 8, 15, 30])
def test_fixed_blocks_are_those_of_the_builder(block):
    """Every token sees, under the same labels, what it sees in the builder's form."""
    made = window(block=block)
    used = int(made.structure.long_example_ids.sum())
    want = builders.fixed_blocks(used, block, long_length=30, global_length=6)
    rules = st.Rules(radius=4, max_distance=2, hard_g2l=True)
    for sees in (st.l2l, st.l2g, st.g2l, st.g2g):
        got, expected = (_seen(sees, rules, x) for x in (made.structure, want))
        np.testing.assert_array_equal(got[0], expected[0])
        np.testing.assert_array_equal(
            np.where(got[0], got[1], -1), np.where(got[0], expected[1], -1)
        )
        assert got[0].any()


def _seen(sees_fn, rules, structure):
    """(who sees whom, under which label) of one kind of attention."""
    sides = {"l": structure.long_tokens(), "g": structure.global_tokens()}
    one, other = (sides[x] for x in sees_fn.__name__.split("2"))
    seen = sees_fn(rules, st.as_rows(one), st.as_columns(other))
    return tuple(np.asarray(x) for x in seen)


def test_all_but_the_global_tokens_are_those_of_elements():
    by_element, made = window(), window(block=7)
    np.testing.assert_array_equal(made.tokens.long, by_element.tokens.long)
    words = [x.extra["long_words"] for x in (made, by_element)]
    np.testing.assert_array_equal(*words)
    assert found(made) == found(by_element) and made.words == by_element.words
    for name, array in made.extra["visual"].items():
        assert by_element.extra["visual"][name].any() and not array.any(), name


def test_fixed_blocks_take_elements_until_the_tokens_do_not_fit():
    # Two global tokens, which are not enough for four elements, and one long token less
    # than the last element needs.
    assert window(sizes=StructuredSizes(15, 2), block=15).num_elements == 4
    made = window(sizes=StructuredSizes(14, 2), block=8)
    assert made.num_elements == 3 and made.words[-1] == "burned"
    with pytest.raises(BadRecordError, match="too large: .* 2 tokens in the first"):
        window(sizes=StructuredSizes(1, 1), block=1)


def test_a_page_without_a_piece_has_no_block():
    made = window(("\u200b", "\u200b"), phrases=["a"], block=5)
    assert not made.structure.global_example_ids.any() and made.num_elements == 2


def test_blocks_that_do_not_go_with_the_sizes_are_refused():
    with pytest.raises(ValueError, match="global_length is 6, expected 8 at least, fo"):
        window(block=4)
    with pytest.raises(ValueError, match="tokens_per_block is 0; expected 1 or more"):
        OpenkpOptions(tokens_per_block=0)


def config_of(arg, **objective):
    values = etc_base_openkp.get_config(arg)
    values.data.update(paths=("train",), validation_paths=("dev",))
    values.checkpoint.init_from = "models/etc"
    values.objective.update(objective)
    return config_lib.from_config_dict(values)


@pytest.mark.parametrize(
    "arg, n, g, blocks",
    [
        ("", 4096, 512, None),
        ("fixed_blocks", 4096, 43, 43),
        ("512,fixed_blocks", 512, 6, 6),
    ],
)
def test_inputs_of_the_configs_are_those_of_the_paper(arg, n, g, blocks):
    config = config_of(arg)
    sizes = StructuredSizes(config.data.long_length, config.data.global_length)
    assert sizes == StructuredSizes(n, g)
    page = record(("a",) * 5000, phrases=["a"])
    [made] = task_of(config).features(page, tokenizer(), sizes)
    # One token an element: the paper's input ends with its 512th global token.
    assert made.num_elements == (512 if blocks is None else n)
    assert made.structure.global_example_ids.sum() == (blocks or 512)


def test_looks_do_not_go_with_fixed_blocks():
    assert not config_of("fixed_blocks").objective.visual_features
    config = config_of("fixed_blocks", visual_features=True)
    with pytest.raises(
        ValueError, match="openkp: tokens_per_block=97 leaves no global"
    ):
        task_of(config)
    # What is asked for counts, in place of what the run had.
    assert task_of(config, ["tokens_per_block=null"]).options == OpenkpOptions()
    with pytest.raises(ValueError, match="visual_features is True.*set it to False"):
        task_of(config_of(""), ["tokens_per_block=8"])


# --- look -----------------------------------------------------------------------------


def test_fonts_are_bucketed_by_the_first_cut_that_is_not_smaller():
    sizes = [0, 0.4, 1, 8, 8.4, 8.6, 24, 25, 29, 30, 49, 49.4, 50, 500, -3]
    want = [0, 0, 1, 1, 1, 2, 17, 18, 18, 19, 22, 22, 23, 23, 0]
    assert openkp_visual.font_ids(np.float32(sizes)).tolist() == want
    assert len(openkp_visual.FONT_SIZES) + 1 == NUM_FONTS


def test_boxes_are_clipped_and_scaled():
    low, high = [-50, 0, -50, 0], [1500, 1500, 6000, 18000]
    middle = [(a + b) / 2 for a, b in zip(low, high, strict=True)]
    far = [9e9, -9e9, 9e9, -9e9]
    rows = np.zeros((4, 20), np.float32)
    for row, box in zip(rows, (low, high, middle, far), strict=True):
        row[:4] = row[10:14] = box
    got = openkp_visual.boxes(rows)
    # x, y, width, height: the file has the width before y.
    want = [[-1] * 4, [1] * 4, [0] * 4, [1, 1, -1, -1]]
    np.testing.assert_allclose(got, np.tile(want, 2), atol=1e-6)


def test_every_flag_has_its_bit_and_its_place_for_the_model():
    names = ["block", "inline", "heading", "leaf", "bold"]
    columns = {name: c for name, c in zip(names, (4, 5, 6, 7, 9), strict=True)}
    columns |= {f"parent_{name}": c + 10 for name, c in columns.items()}
    for bit, name in enumerate(FLAGS):
        row = np.zeros((1, 20), np.float32)
        row[0, columns[name]] = 1
        [flag] = openkp_visual.flags(row)
        assert flag == 1 << bit
        visual = Visual(
            *[np.zeros(1, np.uint8)] * 2, np.array([flag]), np.zeros((1, 8))
        )
        cross, dense = crosses(visual.flags)[0], dense_features(visual)[0, 8:]
        assert cross == {"block": 4, "heading": 2, "bold": 1}.get(name, 0)
        five = ["inline", "leaf", "parent_heading", "parent_leaf", "parent_bold"]
        assert dense.tolist() == [float(name == other) for other in five]


def test_looks_go_with_the_global_token_of_their_element():
    made = window(sizes=StructuredSizes(12, 6))
    looks = openkp_visual.visual_arrays(np.float32([TITLE + BODY, PLAIN + BODY]), 2)
    for name, array in looks.items():
        got = made.extra["visual"][name]
        np.testing.assert_array_equal(got[:3], array[[0, 1, 1]])
        assert not got[3:].any() and got.dtype == array.dtype


# --- labels ---------------------------------------------------------------------------


def test_all_occurrences_are_labels_and_the_first_is_named():
    made = window(phrases=["mill", "TON", "old  mill"])
    assert found(made) == {"Mill": [1, 4, 10], "Ton": [7, 14]}
    made = window(phrases=["mill", "old mill", "MILL", "York", "stands in ton", "of"])
    assert found(made) == {
        "Mill": [1, 4, 10],
        "Old Mill": [0, 3],
        "stands in Ton": [5],
    }


def test_an_occurrence_is_inside_of_one_element():
    assert found(window(phrases=["mill the old", "burned country"])) == {}
    assert window(phrases=["mill the old"]).unusable == "no keyphrase in the input"


def test_a_keyphrase_may_be_one_text_with_spaces():
    words = "old mill stands in Ton".split(" ")
    one = find_occurrences([["Mill stands"]], words, np.array([[0, 5]]))
    assert one == find_occurrences([["mill", "stands"]], words, np.array([[0, 5]]))
    assert one == [(2, [1])]


def test_repeats_may_overlap():
    got = find_occurrences([["a", "a"]], list("aaaba"), np.array([[0, 3], [3, 5]]))
    assert got == [(2, [0, 1])]


@pytest.mark.parametrize("seed", range(5))
def test_occurrences_are_those_of_a_plain_search(seed):
    rng = np.random.default_rng(seed)
    words = rng.choice(["a", "B", "b"], size=40).tolist()
    cuts = [0, *sorted(rng.choice(np.arange(1, 40), 5, replace=False).tolist()), 40]
    elements = np.array(list(zip(cuts[:-1], cuts[1:], strict=True)))
    phrase = ["a", "b", "b"][: 1 + seed % 3]
    want = [
        i
        for start, stop in elements
        for i in range(start, stop - len(phrase) + 1)
        if [w.lower() for w in words[i : i + len(phrase)]] == phrase
    ]
    got = find_occurrences([phrase], words, elements)
    assert got == ([(len(phrase), want)] if want else [])


def test_keyphrases_of_more_than_five_words_are_none_but_with_quirks():
    six = "the old mill stands in ton"
    made = window(phrases=[six, "old"])
    assert found(made) == {"Old": [0, 3]}
    official = window(phrases=[six, "old"], quirks=True)
    assert official.labels["length"].tolist() == [6, 1, -1]
    assert official.labels["start"].tolist() == [2, 0, -1]


def test_a_keyphrase_that_is_cut_off_is_no_label():
    made = window(phrases=["burned", "Ton"], sizes=StructuredSizes(11, 6))
    assert found(made) == {"Ton": [7]}


def test_a_page_that_cannot_be_trained_on_says_why():
    url = "u" * 1001
    assert window(url=url).unusable is None
    assert window(url=url, quirks=True).unusable == "url too long"


# --- batches --------------------------------------------------------------------------


def test_a_batch_has_what_the_model_takes():
    got = stacked([window(), window(("Ton",))])
    assert {k: v.shape for k, v in got["visual"].items()} == {
        "font": (2, 6),
        "parent_font": (2, 6),
        "flags": (2, 6),
        "boxes": (2, 6, 8),
    }
    assert got["long_words"].shape == got["long_tokens"].shape == (2, 30)
    assert got["structure"].links.shape == (2, 30, 1)
    assert set(Visual._fields) == set(got["visual"])
