import ast
import textwrap

import pytest

from etc_jax.data.text import corpus

LONG = (
    "A paragraph that is repeated in many places and is longer than eighty characters."
)


def _package(folder, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path = path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return folder


def test_docstrings_come_in_source_order_with_added_ones():
    tree = ast.parse(
        textwrap.dedent(
            '''
            """The module."""
            class A:
                """Class A."""
                def f(self):
                    """Method f."""
                    def inner():
                        """Inner function."""
            if True:
                async def g():
                    """Function g."""
            else:
                add_newdoc("a.b", "c", """Added c.""")
            try:
                x = "no docstring"
            except ValueError:
                def h():
                    """Function h."""
            '''
        )
    )
    assert list(corpus.docstrings(tree)) == [
        "The module.",
        "Class A.",
        "Method f.",
        "Inner function.",
        "Function g.",
        "Added c.",
        "Function h.",
    ]


def test_cleaning_leaves_prose_only():
    text = """Sum of the elements.

        Parameters
        ----------
        x : array
            The summed elements,
            all of them.
        axis : int
            Which one to sum.

        .. versionadded:: 2.0
        .. note:: This is a note.
           :option: 3

        An example follows here.
        >>> f(1)
        output of it

        +---+----+
        | a | b c d |
        +---+----+

        After the table.
        """
    assert corpus.clean_paragraphs(text) == (
        "Sum of the elements.",
        "Parameters x : array The summed elements, all of them.",
        "axis : int Which one to sum.",
        "2.0 This is a note.",
        "An example follows here.",
        "After the table.",
    )


def test_reading_a_package_skips_tests_and_repeats(tmp_path):
    folder = _package(
        tmp_path,
        b=f'"""Module b is here.\n\n{LONG}\n"""',
        a=f'"""Module a is here.\n\n{LONG}\n"""\ndef f():\n  """Same in both."""',
        sub__c='"""Module c is here."""\ndef f():\n  """Same in both."""',
        tests__d='"""Module d is a test."""',
        empty="x = 1",
        broken='"""Never read at all."""\ndef (',
    )
    read = corpus.read_corpus([("pkg", folder)])
    assert read.documents == (
        corpus.Document("pkg/a.py", ("Module a is here.", LONG, "Same in both.")),
        corpus.Document("pkg/b.py", ("Module b is here.",)),
        corpus.Document("pkg/sub/c.py", ("Module c is here.",)),
    )
    assert len(read.unreadable) == 1 and "pkg/broken.py" in read.unreadable[0]
    report = read.report()
    chars = sum(len(p) for d in read.documents for p in d.paragraphs)
    assert f"total: 3 documents, {chars} chars" in report
    assert "not parsed: pkg/broken.py" in report


def test_reading_twice_gives_equal_documents(tmp_path):
    names = {f"m{i}": f'"""Module number {i} of ten."""' for i in range(10)}
    folder = _package(tmp_path, **names)
    first = corpus.read_corpus([("pkg", folder)])
    assert first == corpus.read_corpus([("pkg", folder)])
    assert [d.name for d in first.documents] == sorted(f"pkg/{n}.py" for n in names)


def test_topics_are_documents(tmp_path):
    path = tmp_path / "topics.py"
    path.write_text("topics = {'with': 'The with statement.', 'if': 'The if one is.'}")
    read = corpus.read_corpus([], topics=path)
    assert [d.name for d in read.documents] == ["topics/if", "topics/with"]
    path.write_text("nothing = 1")
    with pytest.raises(ValueError, match="has no `topics"):
        corpus.read_corpus([], topics=path)


def test_installed_text_is_found_without_importing():
    topics = corpus.built_in_corpus(packages=())
    sources = {d.source for d in topics.documents}
    assert sources == {"topics", "stdlib"}
    assert sum(len(p) for d in topics.documents for p in d.paragraphs) > 1_000_000
    assert corpus.package_folder("numpy").name == "numpy"
    with pytest.raises(ValueError, match="'no_such_package' .* is not installed"):
        corpus.package_folder("no_such_package")


def test_side_of_a_document_depends_on_its_name_alone():
    names = [f"pkg/m{i}.py" for i in range(4000)]
    validation = {name for name in names if corpus.is_validation(name, 0.05)}
    # 4 standard deviations of a binomial share of 5 %.
    assert abs(len(validation) / 4000 - 0.05) < 4 * (0.05 * 0.95 / 4000) ** 0.5
    assert validation <= {name for name in names if corpus.is_validation(name, 0.1)}
    with pytest.raises(ValueError, match="validation must be a share"):
        corpus.check_share(5)


def test_description_names_versions():
    described = corpus.describe_built_in(("numpy",))
    assert set(described) == {"reader", "python", "numpy"}
