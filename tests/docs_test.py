"""Pages of documentation: links lead somewhere, measurements are in an index."""

import re

import pytest
from repository import ROOT

import benchmarks.__main__
import etc_jax.__main__

RESULTS = ROOT / "docs/results"
INDEX = RESULTS / "README.md"
PAGES = sorted(set(RESULTS.glob("*.md")) - {INDEX})
DOCS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
COMMANDS = {
    r"python -m benchmarks (\w+)": benchmarks.__main__.MODULES,
    r"etc-jax (\w+)": etc_jax.__main__.COMMANDS,
}
ROW = re.compile(
    r"\| \[[^]]+\]\((?P<page>\S+)\) (\| [^|]+ ){3}\| [0-9a-f]{8} \|", re.ASCII
)


def links(page):
    """What a page links to or shows, without what is on the web: [(path, anchor)]."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(), flags=re.DOTALL)
    targets = re.findall(r"\]\(([^()\s]+)\)", text)
    return [x.partition("#")[::2] for x in targets if "://" not in x]


def anchors(page):
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    words = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {text.replace(" ", "-") for text in words}


@pytest.mark.parametrize("page", DOCS, ids=lambda x: str(x.relative_to(ROOT)))
def test_links_lead_to_files_and_headings(page):
    lost = []
    for path, anchor in links(page):
        target = page.parent / path if path else page
        if not target.exists() or anchor and anchor not in anchors(target):
            lost.append(f"{path}#{anchor}")
    assert not lost


def test_every_measurement_is_in_the_index_once_and_the_newest_first():
    groups = [
        [row["page"] for row in map(ROW.match, group.splitlines()) if row]
        for group in INDEX.read_text().split("\n## ")[1:]
    ]
    assert sorted(sum(groups, [])) == [page.name for page in PAGES]
    for group in groups:
        dates = [page.partition("_")[0] for page in group]
        assert dates == sorted(dates, reverse=True)


def test_a_page_or_its_folder_is_linked_to_all_raw_figures():
    linked = {
        (page.parent / path).resolve() for page in PAGES for path, _ in links(page)
    }
    files = {x.resolve() for x in RESULTS.rglob("*") if x.is_file()} - {*PAGES, INDEX}
    assert not {x for x in files if not x.is_relative_to(RESULTS / "data")}
    assert not {x for x in files if linked.isdisjoint({x, x.parent})}


@pytest.mark.parametrize("page", PAGES, ids=lambda x: x.stem)
def test_a_page_says_at_its_top_which_of_its_commands_are_gone(page):
    text = page.read_text()
    # The paragraph below the title.
    stale = text.split("\n\n")[1]
    stale = stale if re.fullmatch(r"> \*\*Stale:\*\* .*", stale) else ""
    gone = {
        name
        for form, known in COMMANDS.items()
        for name in re.findall(form, text)
        if name not in known
    }
    assert not {name for name in gone if f"`{name}`" not in stale}, (
        'a page whose command is gone has "> **Stale:** `NAME` ..." below its title'
    )
