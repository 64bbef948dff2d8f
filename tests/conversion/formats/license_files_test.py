"""Which licence a folder states."""

import pytest

from etc_jax.conversion.formats import license_files

APACHE = "\n                 Apache License\n           Version 2.0, January 2004\n"


@pytest.mark.parametrize(
    "files, want",
    [
        ({}, None),
        ({"README.md": "---\nlicense: mit\n---\n# A"}, ("mit", "README.md", None)),
        (
            {"README.md": '---\r\ntags:\r\n- a\r\nlicense: "cc-by-4.0"\r\n---\r\n'},
            ("cc-by-4.0", "README.md", None),
        ),
        ({"README.md": "---\nlicense: [mit]\n---"}, ("mit", "README.md", None)),
        ({"README.md": "---\nlicense:\n- mit\n---"}, ("mit", "README.md", None)),
        (
            {"README.md": "---\nlicense: other\nlicense_name: own-1\n---\n"},
            ("other", "README.md", "own-1"),
        ),
        # Only the head counts, and its first level.
        ({"README.md": "# A\n\nlicense: mit\n"}, None),
        ({"README.md": "---\ntags: [a]\n---\nlicense: mit\n---\n"}, None),
        ({"README.md": "---\ncard:\n  license: mit\n---\n"}, None),
        ({"README.md": "---\nlicense:\ntags: [a]\n---\n"}, None),
        ({"LICENSE": APACHE}, ("apache-2.0", "LICENSE", None)),
        ({"LICENSE.txt": "MIT License\n\nCopyright"}, ("mit", "LICENSE.txt", None)),
        ({"LICENSE": "For my friends alone."}, ("other", "LICENSE", None)),
        ({"LICENSE": "\xff\x00" * 9}, ("other", "LICENSE", None)),
        # The head comes first; a card without a licence says nothing against a file.
        (
            {"README.md": "---\nlicense: mit\n---", "LICENSE": APACHE},
            ("mit", "README.md", None),
        ),
        (
            {"README.md": "---\ntags: [a]\n---", "LICENSE": APACHE},
            ("apache-2.0", "LICENSE", None),
        ),
    ],
)
def test_the_head_of_the_card_comes_before_a_file(files, want, tmp_path):
    for name, text in files.items():
        (tmp_path / name).write_bytes(text.encode("latin-1"))
    stated = license_files.read(tmp_path)
    if want is None:
        assert stated is None
        return
    assert (stated.id, stated.path.name, stated.name) == want
