import pytest

from etc_jax.datasets import paragraphs


def test_lines_are_paragraphs():
    text = "Anarchism\n\nA political  philosophy.\r\nHistory\n  First.\tSecond. \n"
    assert paragraphs.by_lines(text) == (
        "Anarchism",
        "A political philosophy.",
        "History",
        "First. Second.",
    )


def test_blank_lines_border_paragraphs_and_line_breaks_inside_are_layout():
    text = "CHAPTER I\n\n\nIt was the best\nof times,\n \t\nit was the worst.\n"
    assert paragraphs.by_blank_lines(text) == (
        "CHAPTER I",
        "It was the best of times,",
        "it was the worst.",
    )


def test_wiki40b_markers_border_paragraphs():
    text = (
        "\n_START_ARTICLE_\nOld Town\n_START_PARAGRAPH_\nA town. It is old._NEWLINE_It"
        " has a wall.\n_START_SECTION_\nHistory\n_START_PARAGRAPH_\nFounded in 1200."
    )
    assert paragraphs.by_wiki40b_markers(text) == (
        "Old Town",
        "A town. It is old.",
        "It has a wall.",
        "History",
        "Founded in 1200.",
    )


@pytest.mark.parametrize(
    "split_fn",
    [
        paragraphs.by_lines,
        paragraphs.by_blank_lines,
        paragraphs.by_wiki40b_markers,
    ],
)
def test_nothing_of_the_text_is_lost(split_fn):
    text = "Eins zwei.\ndrei\n\n\u00a0vier f\u00fcnf\n\x0b sechs\n"
    assert " ".join(split_fn(text)).split() == text.split()
    assert split_fn(" \n\n\t") == ()
