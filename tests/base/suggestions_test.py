"""The hint for a misspelt name."""

import pytest

from etc_jax.base.suggestions import did_you_mean, suggestion


@pytest.mark.parametrize(
    "name, names, nearest",
    [
        ("quikstart", ["bart_ls", "quickstart"], "quickstart"),
        ("--over", ["--out", "--overwrite", "--overtake"], "--overtake"),  # begins so
        ("--ou", ["--through", "--out"], "--out"),
        ("--x", ["--a", "--b"], None),  # dashes alone are not alike
        ("V5E:4x4", ["v5e:4x4", "v5p:4x4"], "v5e:4x4"),
        ("", ["a", "b"], None),
        ("anything", [], None),
    ],
)
def test_the_nearest_name_is_asked_for(name, names, nearest):
    want = f"did you mean {nearest!r}?" if nearest else ""
    assert did_you_mean(name, names) == did_you_mean(name, names[::-1]) == want
    if not nearest:
        assert suggestion(name, names) == f"there are: {', '.join(names) or 'none'}"
