"""A record of a run that is none is refused in one line."""

import errno

import pytest
import toy_job

from etc_jax.config import default_config, from_config_dict
from etc_jax.training import workdir
from etc_jax.training.checkpoints import folder as checkpoint_folder
from etc_jax.training.errors import UserError
from etc_jax.training.run import train_and_evaluate


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


def test_a_record_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    """As on a disk that is full, or of which nobody may write any more."""

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    config = toy_job.config(train__num_steps=2)
    with monkeypatch.context() as patch:
        patch.setattr(workdir, "write_whole", full)
        with pytest.raises(UserError, match=r"cannot be read or written.*run.json'; m"):
            train_and_evaluate(config, tmp_path)
    assert train_and_evaluate(config, tmp_path).step == 2
    # Of a note that is damaged a new one is made.
    (tmp_path / "last_checkpoint.json").write_text("{")
    with monkeypatch.context() as patch:
        patch.setattr(checkpoint_folder, "write_whole", full)
        with pytest.raises(UserError, match="last_checkpoint.json'; make space"):
            train_and_evaluate(config, tmp_path)
    assert train_and_evaluate(config, tmp_path).step == 2
