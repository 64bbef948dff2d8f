"""A record of a run that is none is refused in one line."""

import pytest

from etc_jax.config import default_config, from_config_dict
from etc_jax.training import workdir
from etc_jax.training.errors import UserError


@pytest.mark.parametrize(
    "text, message",
    [
        ("[]", "holds a list, expected an object"),
        ("null", "holds a NoneType"),
        ("{", "Expecting property name"),
        ('{"config": [1]}', "config is a list"),
        ('{"identity": 3}', "identity is a int"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe", "can't decode byte"),
    ],
)
def test_a_record_that_is_none_is_refused(tmp_path, text, message):
    content = text if isinstance(text, bytes) else text.encode()
    (tmp_path / "run.json").write_bytes(content)
    config = default_config()
    config.model.vocab_size = 30522
    with pytest.raises(UserError, match=f"not the record of a run .*{message}") as got:
        workdir.check(from_config_dict(config), tmp_path)
    assert "\n" not in str(got.value)
