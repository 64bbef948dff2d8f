import hashlib

import pytest

from etc_jax.data.digests import digest


def test_a_file_has_that_of_its_content(tmp_path):
    (tmp_path / "a").write_bytes(b"abc")
    assert digest(tmp_path / "a") == (3, hashlib.sha256(b"abc").hexdigest())
    with pytest.raises(FileNotFoundError):
        digest(tmp_path / "gone")


def test_a_folder_has_that_of_names_and_contents(tmp_path):
    def made(name, files):
        for file, content in files.items():
            path = tmp_path / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        return digest(tmp_path / name)

    first = made("first", {"pos/1": b"ab", "neg/2": b"c"})
    assert first == made("other", {"neg/2": b"c", "pos/1": b"ab"})
    assert first[0] == 3
    others = [
        made("renamed", {"pos/2": b"ab", "neg/2": b"c"}),
        made("moved", {"pos/1": b"a", "neg/2": b"bc"}),
        made("more", {"pos/1": b"ab", "neg/2": b"c", "neg/3": b""}),
    ]
    assert len({first, *others}) == 4
