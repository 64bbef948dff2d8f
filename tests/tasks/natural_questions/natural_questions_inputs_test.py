import dataclasses
import random

import numpy as np
import pytest
from hypothesis import assume, given, settings, strategies as st
from natural_questions_samples import (
    ANN,
    annotation,
    long_article,
    record,
    tokenizer,
)
from structured_batch import batch

from etc_jax import config as config_lib
from etc_jax.configs.etc import bert_base_nq, etc_base_nq, etc_large_nq
from etc_jax.data.windows.arrays import flatten
from etc_jax.datasets.of_config import task_of
from etc_jax.datasets.records import BadRecordError
from etc_jax.datasets.strides import default_stride
from etc_jax.formats.structured import StructuredSizes
from etc_jax.models.heads import NATURAL_QUESTIONS_TYPES
from etc_jax.structure import Rules, validate
from etc_jax.tasks.natural_questions.inputs import (
    SIZES,
    SIZES_512,
    SIZES_8192,
    NaturalQuestionsOptions,
    features,
)
from etc_jax.tasks.natural_questions.labels import (
    LONG,
    NO,
    NULL,
    PLACES,
    SHORT,
    YES,
    chosen_annotation,
)
from etc_jax.tasks.natural_questions.records import Annotation
from etc_jax.tasks.natural_questions.windows import NOT_DRAWN, draw

SMALL = StructuredSizes(long_length=24, global_length=16)
OPTIONS = NaturalQuestionsOptions(question_tokens=4, stride=8)
WHOLE = StructuredSizes(long_length=80, global_length=20)


def windows(made=None, sizes=SMALL, official_quirks=False, **options):
    return features(
        made or record(),
        tokenizer(),
        sizes,
        options=dataclasses.replace(OPTIONS, **options),
        official_quirks=official_quirks,
    )


def places_of(window) -> list[int]:
    return [int(window.labels[name]) for name in PLACES]


def spelled(ids) -> str:
    return " ".join(tokenizer().pieces(ids))


def real(window) -> np.ndarray:
    return window.structure.long_example_ids > 0


# --- inputs ---------------------------------------------------------------------------


def test_a_whole_article_is_spelled_with_its_structure():
    [got] = windows(sizes=WHOLE, stride=60)
    text = spelled(got.tokens.long[real(got)])
    assert text.startswith("[CLS] who built the mill [SEP] ")
    assert text.endswith(" [SEP]") and text.count("[SEP]") == 2
    # Neither the heading nor the words between candidates.
    shown = {w for w in got.word.tolist() if w >= 0}
    assert sorted(shown) == [*range(3, 12), *range(14, 34)]
    # [CLS], four pieces of the question and its [SEP], three top-level candidates.
    glob = tokenizer().pieces(got.tokens.global_[:9])
    assert glob == ["[CLS]", *["[unused34]"] * 5, *["[unused0]"] * 3]
    links = got.structure.links[:, 0]
    assert links[:6].tolist() == [0, 1, 2, 3, 4, 5]
    for candidate, link in ((0, 6), (1, 7), (4, 8)):
        assert set(links[got.candidate == candidate].tolist()) == {link}
    assert set(links[got.candidate < 0][6:].tolist()) == {-1}
    assert got.structure.global_example_ids.tolist() == [1] * 9 + [0] * 11
    assert not got.types.long.any() and not got.types.global_.any()


def test_tags_become_one_piece_that_opens_or_closes():
    [got] = windows(sizes=WHOLE, stride=60)
    opened, closed = (tokenizer().special_id(f"nq_html_{x}") for x in ("start", "end"))
    for word, token in zip(got.word.tolist(), got.tokens.long.tolist(), strict=True):
        text = got.record.words[word] if word >= 0 else ""
        assert (token == closed) == text.startswith("</")
        assert (token == opened) == (text.startswith("<") and text[1] != "/")


def test_every_word_is_tokenised_by_itself():
    made = record("<P> mill ##s 1840 a.b </P>", said=[])
    [got] = windows(made, sizes=WHOLE, stride=60)
    for number in range(1, 5):
        [(ids, _)] = tokenizer().encode_batch([made.words[number]])
        assert got.tokens.long[got.word == number].tolist() == ids.tolist()


@settings(max_examples=40, deadline=None)
@given(
    words=st.integers(4, 90),
    long_length=st.integers(12, 60),
    stride=st.integers(1, 50),
    seed=st.integers(0, 99),
)
def test_windows_show_the_article_in_order_without_gaps(
    words, long_length, stride, seed
):
    room = long_length - 4 - 3
    assume(stride <= room)
    made = record(long_article(words, seed), said=[])
    got = windows(made, StructuredSizes(long_length, 60), stride=stride)
    [whole] = windows(made, StructuredSizes(4000, 60), stride=3000)
    article = whole.tokens.long[whole.word >= 0].tolist()
    assert [w.number for w in got] == list(range(len(got)))
    assert {w.count for w in got} == {len(got)}
    for w in got:
        part = w.tokens.long[w.word >= 0].tolist()
        first = w.number * stride
        assert part == article[first : first + room]
        assert part, "a window without text"
    # As many as it takes, and no more.
    shown = [w.number * stride + room for w in got]
    assert shown[-1] >= len(article) and all(x < len(article) for x in shown[:-1])


def test_long_questions_are_cut_and_short_ones_leave_room():
    [long] = windows(
        record(question="who built the mill by the lake"), WHOLE, stride=60
    )
    assert spelled(long.tokens.long[:6]) == "[CLS] who built the mill [SEP]"
    [short] = windows(record(question="mill"), WHOLE, stride=60)
    assert spelled(short.tokens.long[:3]) == "[CLS] mill [SEP]"
    assert short.structure.links[:4, 0].tolist() == [0, 1, 2, 3]


def test_paragraphs_beyond_the_room_share_the_last_global_token():
    [got] = windows(sizes=StructuredSizes(80, 8), stride=60)
    links = got.structure.links[:, 0]
    assert [set(links[got.candidate == c].tolist()) for c in (0, 1, 4)] == [
        {6},
        {7},
        {7},
    ]
    assert got.structure.global_example_ids.all()


def test_the_last_separator_has_a_global_token_like_padding_only_officially():
    [sound] = windows(sizes=WHOLE, stride=60)
    [official] = windows(sizes=WHOLE, stride=60, official_quirks=True)
    last = int(np.flatnonzero(real(sound))[-1])
    assert sound.structure.links[last, 0] == -1
    assert official.structure.links[last, 0] == 9
    assert official.tokens.global_[9] == tokenizer().special_id("pad")
    assert official.structure.global_example_ids.sum() == 10


def test_fixed_blocks_tie_every_so_many_tokens_to_one_global_token():
    for got in windows(tokens_per_block=5):
        used = int(real(got).sum())
        links = got.structure.links[:used, 0]
        assert links.tolist() == [i // 5 for i in range(used)]
        blocks = -(-used // 5)
        assert got.structure.global_example_ids.tolist() == [1] * blocks + [0] * (
            16 - blocks
        )
        sentence = tokenizer().special_id("sentence")
        assert set(got.tokens.global_[:blocks].tolist()) == {sentence}


def test_flat_windows_have_no_global_token_but_the_first():
    for flat, full in zip(windows(flat=True), windows(), strict=True):
        assert flat.structure.global_example_ids.tolist() == [1] + [0] * 15
        assert flat.structure.links[:, 0].tolist() == [0] + [-1] * 23
        np.testing.assert_array_equal(flat.tokens.long, full.tokens.long)
        assert flat.labels == full.labels


@pytest.mark.parametrize(
    "options", [{}, {"flat": True}, {"tokens_per_block": 5}, {"official_quirks": True}]
)
def test_structures_are_valid_and_stack(options):
    made = windows(**options)
    tokens, types, structure, labels = batch(made)
    validate(structure, Rules(radius=4, max_distance=3, hard_g2l=True))
    assert tokens.long.shape == types.long.shape == (len(made), 24)
    assert set(labels) == {"answer_type", *PLACES}
    # As caches keep them.
    flatten(made, made[0].schema.of(made[0]), tokenizer().vocab_size)
    for label in labels.values():
        assert label.shape == (len(made),) and label.dtype == np.int32


def test_sizes_and_strides_are_those_of_the_paper():
    lengths = [512, 4096, 8192]
    assert [s.long_length for s in (SIZES_512, SIZES, SIZES_8192)] == lengths
    assert [s.global_length for s in (SIZES_512, SIZES, SIZES_8192)] == [128, 230, 460]
    assert [default_stride(n) for n in lengths] == [128, 2048, 4096]
    made = record(long_article(1500, seed=1), said=[])
    first, second = features(made, tokenizer(), SIZES_512)[:2]
    room = 512 - 4 - 3
    assert (first.word >= 0).sum() == room
    np.testing.assert_array_equal(
        first.word[first.word >= 0][128:],
        second.word[second.word >= 0][: room - 128],
    )


@pytest.mark.parametrize(
    "module, arg, sizes, stride",
    [
        (etc_base_nq, "", SIZES, 2048),
        (etc_base_nq, "512", SIZES_512, 128),
        (etc_base_nq, "8192", SIZES_8192, 4096),
        (etc_base_nq, "fixed_blocks", StructuredSizes(4096, 43), 2048),
        (etc_base_nq, "512,fixed_blocks", StructuredSizes(512, 6), 128),
        (etc_large_nq, "", SIZES, 2048),
        (bert_base_nq, "", StructuredSizes(512, 1), 128),
    ],
)
def test_inputs_of_the_configs_are_those_of_the_paper(module, arg, sizes, stride):
    values = module.get_config(arg)
    values.data.update(paths=("train",), validation_paths=("dev",))
    values.checkpoint.init_from = "models/etc"
    config = config_lib.from_config_dict(values)
    assert StructuredSizes(config.data.long_length, config.data.global_length) == sizes
    made = record(long_article(9000, seed=1), said=[])
    first, second = task_of(config).features(made, tokenizer(), sizes)[:2]
    np.testing.assert_array_equal(
        first.word[first.word >= 0][stride:][:99], second.word[second.word >= 0][:99]
    )
    used = int(first.structure.global_example_ids.sum())
    # Those of fixed blocks and of BERT are full; paragraphs have some.
    full = sizes.global_length
    assert used == full if full < 128 else 10 < used <= full


@pytest.mark.parametrize(
    "sizes, options, message",
    [
        (SMALL, {"stride": 18}, "24 tokens hold 17 of the text .* stride 18"),
        (StructuredSizes(6, 16), {}, "6 tokens hold 0 of the text"),
        (StructuredSizes(24, 6), {}, "global_length is 6, expected 7 at least"),
        (
            StructuredSizes(24, 4),
            {"tokens_per_block": 5},
            "global_length is 4, expected 5",
        ),
        (SMALL, {"tokens_per_block": 5, "flat": True}, "flat has no global tokens"),
        (
            SMALL,
            {"null_share": 1.5},
            "null_share is 1.5; expected a number from 0",
        ),
        (SMALL, {"stride": 0}, "stride is 0; expected 1 or more"),
    ],
)
def test_sizes_that_do_not_go_together_are_named(sizes, options, message):
    with pytest.raises(ValueError, match=message):
        windows(sizes=sizes, **options)


def test_officially_sizes_may_leave_words_out_but_not_the_question():
    got = windows(sizes=StructuredSizes(24, 6), stride=30, official_quirks=True)
    shown = {w for window in got for w in window.word.tolist() if w >= 0}
    assert len(shown) < len([*range(3, 12), *range(14, 34)])
    # No room for paragraphs: they share the global token of the question's [SEP].
    assert set(got[0].structure.links[6:24, 0].tolist()) == {5}
    with pytest.raises(BadRecordError, match="too many global tokens: '7': 6, but"):
        windows(sizes=StructuredSizes(24, 5), official_quirks=True)
    with pytest.raises(BadRecordError, match="question too long: '7': 4 tokens"):
        windows(sizes=StructuredSizes(7, 16), official_quirks=True)


def test_top_level_candidates_that_overlap_are_read_twice_only_officially():
    made = record()
    crossed = dataclasses.replace(made, top_level=(True,) * len(made.top_level))
    [sound] = windows(crossed, StructuredSizes(120, 40), stride=100)
    [official] = windows(
        crossed, StructuredSizes(120, 40), stride=100, official_quirks=True
    )
    [plain] = windows(made, StructuredSizes(120, 40), stride=100)
    np.testing.assert_array_equal(sound.word, plain.word)
    words = official.word.tolist()
    assert words.count(16) == 2 * plain.word.tolist().count(16) > 0


def test_an_article_whose_candidates_have_no_token_is_refused():
    made = record("<P> a </P>", said=[])
    empty = dataclasses.replace(made, words=("\x07",) * 3, is_html=(False,) * 3)
    with pytest.raises(BadRecordError, match="no text: '7'"):
        windows(empty)


# --- labels ---------------------------------------------------------------------------


def brute_force(window, stride: int, said: Annotation) -> tuple[int, list[int]]:
    """Type and places by walking over the pieces of the article."""
    [whole] = windows(window.record, WHOLE, stride=60)
    article = [w for w in whole.word.tolist() if w >= 0]
    first_place = window.word.tolist().index(article[window.number * stride])
    shown = int((window.word >= 0).sum())

    def ends(span):
        pieces = [i for i, word in enumerate(article) if span and word in range(*span)]
        found = []
        for piece in (pieces[0], pieces[-1]) if pieces else ():
            inside = piece - window.number * stride
            found.append(first_place + inside if 0 <= inside < shown else 0)
        return found or [0, 0]

    long = ends(said.long)
    short = ends((said.short[0][0], said.short[-1][1]) if said.short else None)
    if all(short):
        return SHORT, short + long
    if any(long):
        return {"yes": YES, "no": NO, "none": LONG}[said.yes_no], [0, 0] + long
    return NULL, [0, 0, 0, 0]


@pytest.mark.parametrize(
    "said",
    [
        ANN,
        annotation((3, 12)),
        annotation((14, 24), [(16, 18), (20, 22)]),
        annotation((3, 12), yes_no="YES"),
        annotation((24, 34), yes_no="NO"),
        annotation((15, 19), [(17, 18)]),
        annotation(),
    ],
)
def test_labels_are_what_a_window_shows(said):
    made = record(said=[said])
    kinds = set()
    for window in windows(made, stride=3):
        kind, places = brute_force(window, 3, made.annotations[0])
        assert int(window.labels["answer_type"]) == kind
        assert places_of(window) == places
        kinds.add(kind)
    assert kinds - {NULL} or said == annotation()


def test_the_places_of_a_whole_article_are_those_of_the_words():
    [got] = windows(sizes=WHOLE, stride=60)
    assert got.labels["answer_type"] == SHORT
    begin, end, long_begin, long_end = places_of(got)
    # "ann" is three pieces.
    assert spelled(got.tokens.long[begin : end + 1]) == "a ##n ##n"
    assert (got.word[long_begin], got.word[long_end]) == (3, 11)


def test_null_windows_have_no_label_but_officially_they_keep_it():
    made = record(said=[annotation((3, 12), [(4, 5)])])
    nulls = quirks = 0
    for sound, official in zip(
        windows(made, stride=3),
        windows(made, stride=3, official_quirks=True),
        strict=True,
    ):
        if sound.labels["answer_type"] == NULL:
            assert not any(places_of(sound))
            nulls += 1
        if official.labels["answer_type"] == NULL:
            quirks += any(places_of(official))
    assert nulls and quirks


def test_yes_is_said_only_where_its_reason_is_seen_but_officially_everywhere():
    made = record(said=[annotation((24, 34), yes_no="YES")])
    sound = [int(w.labels["answer_type"]) for w in windows(made)]
    official = [
        int(w.labels["answer_type"]) for w in windows(made, official_quirks=True)
    ]
    assert sound[0] == NULL and sound[-1] == YES
    assert set(official) == {YES}


def test_words_without_a_piece_are_passed_over():
    text = "<P> \x07 mill \x07 </P>"
    made = record(text, said=[annotation((0, 5), [(1, 4)])])
    [got] = windows(made, WHOLE, stride=60)
    begin, end = places_of(got)[:2]
    assert begin == end and got.word[begin] == 2


def test_types_are_those_of_the_head():
    assert (NULL, YES, NO, LONG, SHORT) == tuple(range(NATURAL_QUESTIONS_TYPES))


NONE = Annotation(None, (), "none")
LONG_ONLY = Annotation((3, 12), (), "none")
ONE = Annotation((3, 12), ((9, 10),), "none")
TWO = Annotation((3, 12), ((4, 5), (9, 10)), "none")
YES_SAID = Annotation((3, 12), (), "yes")


@pytest.mark.parametrize(
    "said, want",
    [
        ([], None),
        ([NONE], NONE),
        ([ONE], ONE),
        ([LONG_ONLY], LONG_ONLY),
        ([NONE, NONE, ONE, NONE, NONE], NONE),
        ([NONE, ONE, LONG_ONLY, NONE, NONE], LONG_ONLY),
        ([TWO, NONE, ONE, NONE, NONE], ONE),
        ([TWO, TWO, NONE, NONE, NONE], TWO),
        ([YES_SAID, ONE, NONE, NONE, NONE], YES_SAID),
        ([NONE, YES_SAID, LONG_ONLY, LONG_ONLY, NONE], LONG_ONLY),
    ],
)
def test_of_several_annotators_two_make_an_answer(said, want):
    assert chosen_annotation(said) == want


def test_officially_the_first_annotator_counts():
    made = record(said=[annotation(), ANN, ANN, ANN, ANN])
    [sound] = windows(made, WHOLE, stride=60)
    [official] = windows(made, WHOLE, stride=60, official_quirks=True)
    assert sound.labels["answer_type"] == SHORT
    assert official.labels["answer_type"] == NULL


def test_a_record_without_annotations_is_not_trained_on():
    made = dataclasses.replace(record(), annotations=None)
    for quirks, label in ((False, NULL), (True, -1)):
        for w in windows(made, official_quirks=quirks):
            assert w.unusable == "no annotation"
            assert w.labels["answer_type"] == label


# --- windows without an answer --------------------------------------------------------


def test_null_windows_are_drawn_by_their_share_and_the_others_always_kept():
    made = [record(name=i, said=[ANN if i % 2 else annotation()]) for i in range(150)]
    shares = {"null_share": 0.3, "unanswerable_share": 0.7}
    kept = {0.3: [], 0.7: [], 1.0: []}
    for one in made:
        for w in windows(one, **shares):
            assert w.unusable in (None, NOT_DRAWN)
            kept[w.share].append(w.unusable is None)
            assert (w.share == 1.0) == (w.labels["answer_type"] != NULL)
    assert all(kept[1.0])
    for share in (0.3, 0.7):
        n = len(kept[share])
        # Five standard deviations.
        assert abs(np.mean(kept[share]) - share) < 5 * (share * (1 - share) / n) ** 0.5
    assert all(w.unusable is None for w in windows(made[0]))
    nothing = {"null_share": 0.0, "unanswerable_share": 0.0}
    assert all(w.unusable == NOT_DRAWN for w in windows(made[0], **nothing))


def test_the_draw_depends_on_seed_id_and_number_alone():
    made = [record(name=i, said=[annotation()]) for i in range(20)]

    def drawn(order, **options):
        return {
            (w.record.id, w.number): w.unusable
            for one in order
            for w in windows(one, unanswerable_share=0.5, **options)
        }

    mixed = random.Random(0).sample(made, len(made))
    assert drawn(made) == drawn(mixed)
    assert drawn(made) != drawn(made, seed=1)
    assert draw(0, "a", 1) != draw(0, "a", 2) != draw(0, "b", 2)
