"""The picture of an input: what is drawn, what is printed, what is refused."""

import gzip
import json
import sys

import numpy as np
import pytest

from etc_jax.cli import drawing, inspect
from etc_jax.data.text.cache import build_cache
from etc_jax.data.text.corpus import Document
from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.structure import (
    MENTION,
    PARAGRAPH,
    SENTENCE,
    Link,
    Rules,
    Structure,
    builders,
)

pytest.importorskip("nupunkt")
TEXT = "The sky was grey. Dr. Smith came home, and slept. Nobody saw it."


def small():
    """Two sentences of 2 and 1 tokens."""
    return builders.plain_text([2, 1])


def test_label_matrix_of_a_small_input_by_hand():
    # k = 1: 0 same, 1 right, 2 left, 3 not linked, 4 linked.
    got = drawing.label_matrix(small(), Rules(radius=1, max_distance=1), n=3, g=2)
    want = [
        [0, 1, 4, 4, 3],
        [2, 0, 3, 3, 4],
        [4, 3, 0, 1, -1],
        [4, 3, 2, 0, 1],
        [3, 4, -1, 2, 0],
    ]
    np.testing.assert_array_equal(got, want)


def test_hard_masks_leave_only_linked_pairs():
    rules = Rules(radius=1, max_distance=1, hard_g2l=True, hard_l2g=True)
    got = drawing.label_matrix(small(), rules, n=3, g=2)
    assert (got == rules.unlinked_label).sum() == 0
    np.testing.assert_array_equal(got[:2, 2:], [[4, 4, -1], [-1, -1, 4]])
    np.testing.assert_array_equal(got[2:, :2].T, got[:2, 2:])


def test_without_labels_every_seen_pair_is_zero():
    got = drawing.label_matrix(small(), Rules(radius=1), n=3, g=2)
    assert set(np.unique(got)) == {0, drawing.UNSEEN}
    assert drawing.label_names(Rules(radius=1)) == {0: "may see"}


def test_explicit_structures_are_drawn_too():
    mask = np.array([[0, 1, 0], [1, 1, 0], [0, 1, 0]])
    structure = Structure.explicit(l2l_mask=mask, g2l_mask=np.eye(2, 3))
    got = drawing.label_matrix(structure, Rules(radius=1), n=3, g=2)
    seen = got != drawing.UNSEEN
    np.testing.assert_array_equal(seen[2:, 2:], [[1, 0, 0], [1, 1, 0], [0, 0, 1]])
    np.testing.assert_array_equal(seen[:2, 2:], np.eye(2, 3))
    assert seen[2:, :2].all()


def test_a_batch_of_several_inputs_is_refused():
    two = builders.plain_text([2, 1])
    stacked = Structure(
        long_example_ids=np.stack([two.long_example_ids] * 2),
        global_example_ids=np.stack([two.global_example_ids] * 2),
        links=np.stack([two.links] * 2),
    )
    with pytest.raises(ValueError, match="take one example of a batch"):
        drawing.label_matrix(stacked, Rules(radius=1), n=3, g=2)


def test_label_names_say_what_labels_mean():
    links = (SENTENCE, PARAGRAPH, Link("mention", opens=False, label=8))
    rules = Rules(radius=2, max_distance=2, links=links, parent_labels=(9, 10))
    assert drawing.label_names(rules) == {
        0: "distance 0",
        1: "distance +1",
        2: "distance +2 and beyond",
        3: "distance \u22121",
        4: "distance \u22122 and beyond",
        5: "not linked",
        6: "linked",
        7: "other order",
        8: "linked: mention",
        9: "to its parent",
        10: "to its child",
    }


def test_every_label_of_the_rules_has_its_own_colour():
    pytest.importorskip("matplotlib")
    links = (SENTENCE, PARAGRAPH, custom_mention())
    rules = Rules(radius=2, max_distance=12, links=links, parent_labels=(29, 30))
    colors = drawing.label_colors(rules)
    assert colors.keys() == drawing.label_names(rules).keys()
    assert len({tuple(np.round(c, 4)) for c in colors.values()}) == len(colors)
    assert all(min(c) < 0.95 for c in colors.values()), "white means: may not see"


def custom_mention():
    return Link(MENTION.name, opens=False, label=28)


def test_image_paints_each_pair_in_its_colour():
    matrix = np.array([[0, -1], [1, 0]])
    got = drawing.image(matrix, {0: (1, 0, 0), 1: (0, 0, 1)})
    want = [[[1, 0, 0], [1, 1, 1]], [[0, 0, 1], [1, 0, 0]]]
    np.testing.assert_array_equal(got, want)
    with pytest.raises(ValueError, match="label 7 is none of the rules' labels"):
        drawing.image(np.array([[7]]), {0: (1, 0, 0)})


def test_legend_keeps_near_and_far_of_many_distances():
    rules = Rules(radius=20, max_distance=12)
    shown = drawing._listed(rules, {-1, *range(7), *range(13, 19), 25, 26})
    assert shown == [0, 1, 6, 13, 18, 25, 26]


def test_draw_writes_a_picture_of_the_pairs(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.png"
    structure = builders.tree(
        [builders.Context((builders.Sentence(3), builders.Sentence(2)))] * 2
    )
    rules = Rules(radius=2, max_distance=2)
    names = ([f"$t{i}" for i in range(10)], [f"g{i}" for i in range(6)])
    matrix = drawing.draw(structure, rules, *names, str(path))
    assert matrix.shape == (16, 16)
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"

    from matplotlib.image import imread

    pixels = imread(path)[..., :3]
    for label in np.unique(matrix[matrix != drawing.UNSEEN]):
        color = drawing.label_colors(rules)[label]
        assert np.any(np.all(np.abs(pixels - color) < 0.01, axis=-1)), label


def test_too_many_tokens_to_draw_are_refused():
    pytest.importorskip("matplotlib")
    n = drawing.MAX_DRAWN
    structure = builders.plain_text([n])
    with pytest.raises(ValueError, match="expected 1 to 4096 tokens"):
        drawing.draw(structure, Rules(radius=1), ["a"] * n, ["g"], "never.png")


def test_missing_matplotlib_names_the_extra(monkeypatch):
    # Its modules may be loaded by now, so that the package alone would not be missed.
    for name in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"etc_jax\[plot\]"):
        drawing.draw(small(), Rules(radius=1), ["a"] * 3, ["g"] * 2, "never.png")


def test_text_is_cut_into_sentences_each_with_a_global_token():
    given = inspect.from_text(TEXT)
    assert given.sentences[0] == ("The", "sky", "was", "grey", ".")
    assert given.globals == ["g0", "g1", "g2"]
    lengths = [len(s) for s in given.sentences]
    np.testing.assert_array_equal(
        given.structure.links[:, 0], np.repeat([0, 1, 2], lengths)
    )


def test_printed_counts_are_the_pairs_of_the_matrix(capsys):
    assert inspect.main(["--text", "One two. Three.", "--radius=1"]) == 0
    out = capsys.readouterr().out
    # 5 tokens in a row, radius 1: 5 + 2 * 4 pairs; 2 globals see and are seen by all.
    assert out.splitlines()[3].split() == ["g0", "0-2", "One", "two", "."]
    counts = {row.split()[0]: row.split()[1:3] for row in out.splitlines()[-5:]}
    assert counts == {
        "g2g": ["4", "4"],
        "g2l": ["10", "10"],
        "l2g": ["10", "10"],
        "l2l": ["13", "25"],
        "all": ["37", "49"],
    }


PIECES = ["sky", ".", "the", "##y", "rain", "s"]


def write_vocabulary(folder):
    """A WordPiece vocab.txt with the special ids of uncased BERT."""
    reserved = ["[PAD]", *(f"[unused{i}]" for i in range(99))]
    reserved += ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path = folder / "vocab.txt"
    path.write_text("\n".join([*reserved, *PIECES]) + "\n")
    return path


def test_command_reads_a_file_and_a_tokenizer(tmp_path, capsys):
    vocabulary = write_vocabulary(tmp_path)
    (tmp_path / "text.txt").write_text("The sky.\n\nrainy hail", encoding="utf-8")
    argv = [f"--file={tmp_path}/text.txt", f"--tokenizer={vocabulary}"]
    assert inspect.main(argv) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[3].split() == ["g0", "0-2", "the", "sky", "."]
    assert out[4].split() == ["g1", "3-5", "rain", "##y", "[UNK]"]


def test_command_shows_a_document_of_a_corpus(tmp_path, capsys):
    rows = [{"text": f"Sentence {i} is first.\n\nAnd one more."} for i in range(3)]
    with gzip.open(tmp_path / "rows.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)
    assert inspect.main([f"--corpus={tmp_path}/*.gz", "--index=2"]) == 0
    assert "g0       0-4          Sentence 2 is first ." in capsys.readouterr().out
    assert inspect.main([f"--corpus={tmp_path}/*.gz", "--index=3"]) == 2
    assert "has no document of --index 3" in capsys.readouterr().err


@pytest.fixture
def cache_folder(tmp_path):
    """Two documents of eight sentences each."""
    tokenizer = open_tokenizer(write_vocabulary(tmp_path))
    documents = [
        Document(f"a/{d}", ("the sky. " * 3 + "rain.", "rainy sky. " * 4))
        for d in range(2)
    ]
    build_cache(
        documents,
        tokenizer,
        tmp_path / "cache",
        made_by={},
        split_fn=lambda paragraphs: [
            f"{s}." for p in paragraphs for s in p.split(".") if s.strip()
        ],
    )
    return tmp_path / "cache"


def test_an_example_of_a_cache_is_shown_as_it_is_masked(cache_folder):
    given = inspect.example_of_cache(
        str(cache_folder), 0, long_length=128, global_length=32
    )
    assert len(given.globals) == 16 == len(given.notes)
    assert {note[:10] for note in given.notes} == {"document 1", "document 2"}
    hidden = [
        set(sentence)
        for sentence, note in zip(given.sentences, given.notes, strict=True)
        if note.endswith("masked for CPC")
    ]
    assert hidden and all(pieces == {"[MASK]"} for pieces in hidden)
    rules = Rules(radius=2, max_distance=0)
    seen = drawing.label_matrix(given.structure, rules, len(given.tokens), 16)
    assert np.any(seen[:16, :16] == drawing.UNSEEN)


def test_command_shows_an_example_of_a_cache(cache_folder, tmp_path, capsys):
    picture = tmp_path / "example.png"
    argv = [f"--cache={cache_folder}", "--long_length=128", "--global_length=32"]
    assert inspect.main([*argv, f"--out={picture}"]) == 0
    assert "masked for CPC] [MASK] [MASK]" in capsys.readouterr().out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert inspect.main([*argv, "--index=1"]) == 2
    assert "--index must be 0..0, got 1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        inspect.main([*argv, "--tokenizer=vocab.txt"])


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--text", "  "], "the text has no tokens"),
        (["--file", "no/such/file.txt"], "cannot read the text of no/such/file.txt"),
        (["--text", TEXT, "--tokenizer", "no.json"], "no tokenizer at no.json"),
        (["--text", TEXT, "--radius=0"], "radius is 0; expected 1 or more"),
        (["--text", TEXT, "--out=no/such/dir/a.png"], "no/such/dir/a.png"),
        (["--text", TEXT, "--out=a.nonsense"], "nonsense"),
    ],
)
def test_bad_input_gives_one_message_and_exit_code_2(argv, message, capsys):
    assert inspect.main(argv) == 2
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("etc-jax inspect: ") and "Traceback" not in err


@pytest.mark.parametrize("argv", [[], ["--text=a", "--file=b"]])
def test_both_or_neither_of_text_and_file_is_refused(argv, capsys):
    with pytest.raises(SystemExit) as e:
        inspect.main(argv)
    assert e.value.code == 2
    assert "--text" in capsys.readouterr().err


def test_a_file_that_is_no_tokenizer_is_named(tmp_path):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"a": "b"}))
    with pytest.raises(ValueError, match="bad.json is not a tokenizer"):
        inspect.load_tokenizer(str(path))
