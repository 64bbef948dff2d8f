"""Pairs of texts in rows: nothing is lost, nothing is mixed up, every step is exact."""

import gzip
import json

import numpy as np
import pytest
from causal_pairs import PIECES, WORDS, write
from hypothesis import given, settings, strategies as st
from written_windows import write_windows

from etc_jax.data.input_files import VARIABLE
from etc_jax.data.parts import cut_records
from etc_jax.data.text.pairs import PairReader, cut_to, plan_rows
from etc_jax.data.tokenizers.tokenizer import WordPieceTokenizer
from etc_jax.data.windows.writing import WindowSource
from etc_jax.datasets import pair_cache
from etc_jax.datasets.pairs import Pair, PairOptions, encoded, read_complete
from etc_jax.formats.text_to_text import whole_window

TOKENIZER = WordPieceTokenizer(PIECES)
SEP = TOKENIZER.special_id("sep")


def records(count, seed=0):
    """Pairs of 1 to 7 words, and 0 to 3."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        source, target = (rng.choice(WORDS, n) for n in rng.integers([1, 0], [8, 4]))
        yield {"input": " ".join(source), "target": " ".join(target)}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """(records, their cache)."""
    folder, values = tmp_path_factory.mktemp("pairs"), list(records(40))
    file = write(folder / "a.jsonl", values)
    return values, pair_cache.prepared([file], TOKENIZER, folder / "cache")


def reader(cache, n=16, m=8, rows=4, **options):
    lengths = {"input": n, "target": m}
    return PairReader(cache, lengths=lengths, batch_size=rows, seed=3, **options)


def texts_in(batch):
    """(input, target) of every pair of a batch, which must lie as they should."""
    found = []
    for row in range(len(batch["cut_tokens"])):
        sides = []
        for axis in ("input", "target"):
            tokens, ids = (batch[f"{axis}_{k}"][row] for k in ("tokens", "example_ids"))
            count = ids.max()
            # 1, 1, 2, 2, 2, ..., then padding, which is 0.
            assert (np.diff(ids[ids > 0]) >= 0).all() and not ids[
                (ids > 0).sum() :
            ].any()
            assert not tokens[ids == 0].any()
            sides.append([tokens[ids == i] for i in range(1, count + 1)])
        assert len(sides[0]) == len(sides[1])
        found += zip(*sides, strict=True)
    return found


def spelled(tokens):
    assert tokens[-1] == SEP
    return TOKENIZER.decode(tokens[:-1])


def all_pairs(given):
    batches = map(given.batch_at, range(given.steps_per_epoch))
    found = [tuple(map(spelled, pair)) for b in batches for pair in texts_in(b)]
    return sorted(found)


# --- rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("packed", [True, False])
def test_every_pair_is_in_a_row_of_its_own_number_on_both_sides(made, packed):
    values, cache = made
    given = reader(cache, packed=packed, evaluation=True)
    assert all_pairs(given) == sorted((x["input"], x["target"]) for x in values)
    assert (given.num_examples == len(values)) is not packed


def test_rows_are_filled_and_padding_is_counted(made):
    values, cache = made
    plan = reader(cache, n=16, m=8).plan
    inputs = sum(len(x["input"].split()) + 1 for x in values)
    targets = sum(len(x["target"].split()) + 1 for x in values)
    counts = plan.counts
    assert (counts["input"].tokens, counts["target"].tokens) == (inputs, targets)
    assert counts["input"].fill == inputs / (16 * plan.num_rows)
    # No more rows than one of the two sides takes at least, and a fifth of that.
    assert plan.num_rows <= 1.2 * max(inputs / 16, targets / 8)
    assert counts["input"].cut == counts["target"].cut == 0
    assert plan.report().startswith(f"40 pairs in {plan.num_rows} rows\ninputs: ")


def cache_of(folder, sizes):
    windows = [
        whole_window(
            Pair(f"p{i}", "", ""), [7] * n + [SEP], [1] * (n + 1), [8] * m + [SEP]
        )
        for i, (n, m) in enumerate(sizes)
    ]
    source = WindowSource(
        "pairs", "text_to_text", {"input_length": 1, "target_length": 1}
    )
    return write_windows(windows, TOKENIZER, folder, source)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=30),
    st.integers(1, 12),
    st.integers(1, 12),
)
def test_no_row_holds_more_than_it_has_room_for(tmp_path_factory, sizes, n, m):
    cache = cache_of(tmp_path_factory.mktemp("any") / "cache", sizes)
    plan = plan_rows(cache, {"input": n, "target": m}, packed=True)
    rows = [plan.row(i) for i in range(plan.num_rows)]
    assert sorted(sum(rows, [])) == list(range(len(sizes)))
    for row in rows:
        assert sum(min(sizes[i][0] + 1, n) for i in row) <= n
        assert sum(min(sizes[i][1] + 1, m) for i in row) <= m


def test_a_text_that_is_cut_keeps_its_beginning_and_its_end_token(tmp_path):
    cache = cache_of(tmp_path / "cache", [(6, 5), (2, 0)])
    given = reader(cache, n=4, m=3, packed=False, evaluation=True)
    batch = given.batch_at(0)
    assert batch["input_tokens"][:2].tolist() == [[7, 7, 7, SEP], [7, 7, SEP, 0]]
    assert batch["target_tokens"][:2].tolist() == [[8, 8, SEP], [SEP, 0, 0]]
    assert batch["cut_tokens"].tolist() == [3 + 3, 0, 0, 0]
    counts = given.plan.counts
    assert (counts["input"].cut, counts["input"].cut_texts) == (3, 1)
    assert (counts["input"].longest, counts["target"].longest) == (7, 6)
    assert counts["target"].cut_share == 3 / 7
    assert cut_to(np.arange(5), 1).tolist() == [4]


def test_first_tokens_are_global_where_it_is_asked_for(tmp_path):
    cache = cache_of(tmp_path / "cache", [(4, 1), (0, 1), (2, 1)])
    lengths = {"input": 12, "target": 8, "global": 6}
    options = {"lengths": lengths, "batch_size": 2, "seed": 0, "evaluation": True}
    batch = PairReader(cache, global_tokens=2, **options).batch_at(0)
    ids = batch["input_example_ids"][0]
    assert ids.tolist() == [1, 1, 1, 1, 1, 2, 3, 3, 3, 0, 0, 0]
    # The second text has one token alone; the second row has none.
    assert batch["global_index"].tolist() == [[0, 1, 5, 6, 7, -1], [-1] * 6]
    assert "global_index" not in PairReader(cache, **options).batch_at(0)
    with pytest.raises(
        ValueError, match="to 9 global tokens, 3 of each pair, but data.g"
    ):
        PairReader(cache, global_tokens=3, **options)


# --- steps ----------------------------------------------------------------------------


def equal(a, b):
    return a.keys() == b.keys() and all((a[k] == b[k]).all() for k in a)


def test_an_epoch_has_every_row_once_and_the_next_one_another_order(made):
    _, cache = made
    given = reader(cache, rows=1)
    epochs = [
        [given.batch_at(e * given.num_examples + i) for i in range(given.num_examples)]
        for e in range(2)
    ]
    as_bytes = [[x["input_tokens"].tobytes() for x in epoch] for epoch in epochs]
    assert sorted(as_bytes[0]) == sorted(as_bytes[1]) and as_bytes[0] != as_bytes[1]


def test_an_evaluation_ends_with_padding(made):
    _, cache = made
    given = reader(cache, rows=3, evaluation=True)
    last = given.batch_at(given.steps_per_epoch - 1)
    beyond = given.steps_per_epoch * 3 - given.num_examples
    assert beyond and not last["input_example_ids"][-beyond:].any()


# --- files ----------------------------------------------------------------------------


def test_a_packed_file_gives_the_same(made, tmp_path):
    values, cache = made
    text = "".join(f"{json.dumps(x)}\n" for x in values)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    other = pair_cache.prepared(
        [tmp_path / "a.jsonl.gz"], TOKENIZER, tmp_path / "cache"
    )
    assert equal(reader(other).batch_at(0), reader(cache).batch_at(0))


def test_a_cache_is_found_again_by_what_made_it(made, tmp_path):
    values, cache = made
    file = write(tmp_path / "a.jsonl", values)
    home = tmp_path / "cache"
    first = pair_cache.prepared([file], TOKENIZER, home)
    assert first.digest == cache.digest  # wherever it lies
    stamp = (first.path / "header.json").stat().st_mtime_ns
    again = pair_cache.prepared([file], TOKENIZER, home)
    assert again.path == first.path
    assert (again.path / "header.json").stat().st_mtime_ns == stamp
    marked = pair_cache.prepared([file], TOKENIZER, home, PairOptions(True))
    write(file, values[1:])
    edited = pair_cache.prepared([file], TOKENIZER, home)
    assert len({first.path, marked.path, edited.path}) == 3
    assert marked.window(0)["target_tokens"][0] == TOKENIZER.special_id("cls")


def test_another_process_makes_the_same_part(made, tmp_path):
    values, _ = made
    file = write(tmp_path / "a.jsonl", values)
    TOKENIZER.save(tmp_path / "saved")
    [(_, pairs)] = cut_records(read_complete([file]))
    here = pair_cache._encoder(TOKENIZER, PairOptions(True))(pairs)
    there = pair_cache._open_encoder(tmp_path / "saved", PairOptions(True))(pairs)
    assert here.facts == there.facts and equal(here.arrays, there.arrays)


# --- prefixes -------------------------------------------------------------------------


def ids_of(text):
    [(ids, _)] = TOKENIZER.encode_batch([text])
    return ids.tolist()


def test_a_prefix_has_places_of_its_own():
    pair = Pair("a", "red green blue", "blue", "red blue")
    options = PairOptions(prefix_length=5)
    found = encoded(pair, TOKENIZER, options)
    text = [*ids_of(pair.input), SEP]
    assert found.ids == [*ids_of(pair.prefix), SEP, 0, 0, *text]
    assert found.marks == [1, 1, 1, 0, 0, *[1] * len(text)]
    assert found.target == [*ids_of("blue"), SEP]
    assert found.prefix_tokens == len(ids_of(pair.prefix)) + 1
    # A longer one is cut, and keeps its end; none at all is padding.
    short = encoded(pair, TOKENIZER, PairOptions(prefix_length=2))
    assert short.ids == [*ids_of("red"), SEP, *text] and min(short.marks) == 1
    assert short.prefix_tokens == found.prefix_tokens
    none = encoded(Pair("a", pair.input, None), TOKENIZER, options)
    assert none.ids == [*[0] * 5, *text] and none.marks[:5] == [0] * 5
    assert none.prefix_tokens == 0
    # Without places it is the beginning of the text.
    joined = encoded(pair, TOKENIZER)
    assert joined.ids == [*ids_of("red blue red green blue"), SEP]


def test_a_prefix_is_repeated_in_each_block():
    pair = Pair("a", "red green blue red green blue red", "blue", "red blue")
    first = [TOKENIZER.special_id("cls"), *ids_of(pair.prefix), SEP]
    text = ids_of(pair.input)
    options = PairOptions(True, prefix_every=len(first) + 4)
    found = encoded(pair, TOKENIZER, options)
    blocks = [text[:3], text[3:6], text[6:]]
    assert found.ids == [t for piece in blocks for t in (*first, *piece, SEP)]
    assert set(found.marks) == {1}
    cut = encoded(pair, TOKENIZER, PairOptions(True, 2, prefix_every=9))
    assert cut.ids[:2] == [first[0], SEP] and cut.ids[9:11] == cut.ids[:2]
    with pytest.raises(ValueError, match="prefix_every is 4, but a prefix has 4 tok"):
        encoded(pair, TOKENIZER, PairOptions(True, prefix_every=4))


def test_padding_of_a_prefix_is_padding_of_the_row(tmp_path):
    values = [{"prefix": "red", "input": "green blue", "target": "blue"}]
    file = write(tmp_path / "a.jsonl", values)
    options = PairOptions(prefix_length=4)
    cache = pair_cache.prepared([file], TOKENIZER, tmp_path / "cache", options)
    batch = reader(cache, rows=1, packed=False).batch_at(0)
    want = [*ids_of("red"), SEP, 0, 0, *ids_of("green blue"), SEP]
    assert batch["input_tokens"][0, : len(want)].tolist() == want
    ids = batch["input_example_ids"][0]
    assert ids[: len(want)].tolist() == [1, 1, 0, 0, 1, 1, 1] and not ids[7:].any()


GOOD = {"input": "red", "target": "blue"}


@pytest.mark.parametrize(
    "line, message",
    [
        ({"input": "red"}, r"a.jsonl, record 2: no 'target'; fields are: input"),
        ({"target": "red"}, r"record 2: no 'input'; fields are: target"),
        ({**GOOD, "input": " \n"}, r"record 2: the input is blank, expected text"),
        ({**GOOD, "input": ["red"]}, r"record 2: 'input' is list .* expected a string"),
        ({**GOOD, "target": 7}, r"record 2: 'target' is int '7', expected a string"),
        ({**GOOD, "target": None}, r"record 2: 'target' is NoneType .* a string"),
        (["red", "blue"], r"record 2: list .*, expected an object"),
        ('{"input": "red', r"record 2: .* expected one JSON object a line"),
        ({**GOOD, "prefix": 7}, r"record 2: 'prefix' is int '7', expected a string"),
        ({**GOOD, "input": "\ud800"}, r"a.jsonl:2: half a character in"),
        ({**GOOD, "input": "\u200b"}, r"a.jsonl:2: the input has no token in this voc"),
    ],
)
def test_a_pair_that_cannot_be_used_is_named(tmp_path, line, message):
    text = line if isinstance(line, str) else json.dumps(line)
    file = tmp_path / "a.jsonl"
    file.write_text(f"{json.dumps(GOOD)}\n{text}\n")
    with pytest.raises(ValueError, match=message):
        pair_cache.prepared([file], TOKENIZER, tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("pairs-*"))


def test_a_record_over_the_bound_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, "1")
    file = write(tmp_path / "a.jsonl", [GOOD, {**GOOD, "input": "x" * 1_000_001}])
    with pytest.raises(
        ValueError, match=r"a.jsonl, record 2: line 2 has 1,000,0.* set"
    ):
        pair_cache.prepared([file], TOKENIZER, tmp_path / "cache")


def test_a_file_cut_short_is_named(tmp_path):
    packed = gzip.compress(b"".join(json.dumps(GOOD).encode() + b"\n" for _ in "ab"))
    (tmp_path / "a.jsonl.gz").write_bytes(packed[:-6])
    with pytest.raises(
        ValueError, match=r"a.jsonl.gz, after line \d: .* fetch the file"
    ):
        pair_cache.prepared([tmp_path / "a.jsonl.gz"], TOKENIZER, tmp_path / "cache")
