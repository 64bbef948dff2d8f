import re

import pytest
from golden_data import require_shared
from multihop_samples import tokenizer
from openkp_samples import page, write_lines

from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets.task import find_task
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks.openkp.records import read

SIZES = StructuredSizes(long_length=30, global_length=6)


def upper_bound(tmp_path, *pages, sizes=SIZES, block=None):
    values = [page(**{"url": str(i), **p}) for i, p in enumerate(pages)]
    task = find_task("openkp").with_options({"tokens_per_block": block})
    return task.upper_bound([write_lines(tmp_path, values)], tokenizer(), sizes)


def test_pages_that_come_back_whole_lose_nothing(tmp_path):
    got = upper_bound(tmp_path, {}, {"phrases": ["mill", "of Ton", "burned"]})
    assert got.scores.metrics["R@3"] == 1.0 and got.losses == ()
    # The first page has two keyphrases of three that are asked for.
    assert got.scores.metrics["P@3"] == pytest.approx((2 / 3 + 1) / 2)


def test_every_loss_has_its_reason(tmp_path):
    got = upper_bound(
        tmp_path,
        {"phrases": ["the old mill stands in ton", "Ton"]},
        {"phrases": ["york", "burned country", "mill"]},
        {"phrases": ["mill", "old", "ton", "the", "burned"]},
        {"texts": ("mill", "a \u200b b"), "phrases": ["a \u200b b", "mill"]},
    )
    assert [(loss.id, loss.reason) for loss in got.losses] == [
        ("0", "'the old mill stands in ton' has more than 5 words"),
        ("1", "'york' is not in the text"),
        ("1", "'burned country' is in no element as a whole"),
        ("2", "'the' comes after 3 others"),
        ("2", "'burned' comes after 3 others"),
        ("3", "'a \\u200b b' has a word that the tokenizer has no piece for"),
    ]
    assert got.scores.metrics["R@5"] == pytest.approx(
        (1 / 2 + 1 / 3 + 3 / 5 + 1 / 2) / 4
    )
    assert "6 losses" in got.report()


def test_what_does_not_fit_is_a_loss(tmp_path):
    short = upper_bound(
        tmp_path, {"phrases": ["burned", "Ton"]}, sizes=StructuredSizes(11, 6)
    )
    assert [loss.reason for loss in short.losses] == [
        "'burned' did not fit into the input"
    ]
    none = upper_bound(tmp_path, {}, sizes=StructuredSizes(1, 6))
    assert set(none.scores.metrics.values()) == {0.0}
    assert "too large: '0': 2 tokens" in none.losses[0].reason


def test_with_fixed_blocks_only_the_long_tokens_limit_a_page(tmp_path):
    pages = {"phrases": ["country", "Ton", "york"]}
    by_element = upper_bound(tmp_path, pages, sizes=StructuredSizes(15, 2))
    assert [loss.reason for loss in by_element.losses] == [
        "'country' did not fit into the input",
        "'york' is not in the text",
    ]
    whole = upper_bound(tmp_path, pages, sizes=StructuredSizes(15, 2), block=8)
    assert [loss.reason for loss in whole.losses] == ["'york' is not in the text"]
    cut = upper_bound(tmp_path, pages, sizes=StructuredSizes(14, 2), block=8)
    assert cut.losses == by_element.losses


@pytest.mark.parametrize(
    "sizes", [StructuredSizes(4096, 512), StructuredSizes(512, 128)]
)
def test_every_missing_point_of_a_file_of_papers_is_explained(sizes):
    """Papers in OpenKP's layout, whose elements are lines: phrases break over them."""
    folder = require_shared("data")
    words = open_tokenizer(folder / "tokenizers/bert_base_uncased/vocab.txt")
    path = folder / "openkp/openkp_like.jsonl.gz"
    got = find_task("openkp").upper_bound([path], words, sizes)
    assert not got.problems.counts and got.scores.count == 80
    reasons = [re.sub("^'.*?' ", "", loss.reason) for loss in got.losses]
    broken = reasons.count("is in no element as a whole")
    assert broken == 11
    cut = reasons.count("did not fit into the input")
    assert len(reasons) == broken + cut and (cut == 0) == (sizes.long_length == 4096)
    lost = sum(1 / number for number in _keyphrases_of_losses(got, path))
    assert got.scores.metrics["R@3"] == pytest.approx(1 - lost / 80)


def _keyphrases_of_losses(got, path) -> list[int]:
    """For each loss, how many keyphrases its page has."""
    numbers = {record.id: len(record.keyphrases) for record in read([path])}
    return [numbers[loss.id] for loss in got.losses]
