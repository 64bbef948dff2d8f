"""Tags of invented sentences, by hand."""

from etc_jax.tasks.synthetic.token_classification import _tags

KINDS = {("Ann", "Lee"): "person", ("Ton",): "town"}


def test_a_name_is_tagged_wherever_it_stands():
    tags = _tags("Ann Lee left Ton".split(), KINDS)
    assert tags == ["B-person", "I-person", "O", "B-town"]
    tags = _tags("Ton made Ann Lee".split(), KINDS)
    assert tags == ["B-town", "O", "B-person", "I-person"]
    assert _tags("Ann left".split(), KINDS) == ["O", "O"]
