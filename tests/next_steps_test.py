"""Which command comes after a run."""

import pytest

from etc_jax import config as config_lib
from etc_jax import config_flag, next_steps

EVALUATE = "etc-jax evaluate '--model=my runs/x' '--out=my runs/x/evaluated'"


@pytest.mark.parametrize(
    "name, change, wanted",
    [
        (
            "reformer_enwik8:short",
            "data.paths=('x',)",
            "next: etc-jax generate '--model=my runs/x' --num_tokens=50 "
            "'--prompt=The '",
        ),
        (
            "quickstart:tiny",
            "train.seed=0",
            'next: echo "A first text." | etc-jax embed '
            "'--model=my runs/x' '--out=my runs/x.npy' -",
        ),
        (
            "quickstart_wikihop",
            "train.seed=0",
            f"next (FILE has answers): {EVALUATE} FILE",
        ),
        (
            "quickstart_wikihop",
            "data.held_back_files=('dev.json',)",
            f"next: {EVALUATE} dev.json",
        ),
        # No command reads a model of images.
        ("reformer_imagenet64", "train.seed=0", ""),
    ],
)
def test_after_a_run_its_model_is_used(name, change, wanted):
    changes = [f"--config.{change}"]
    if name in ("quickstart_wikihop", "reformer_imagenet64"):
        files = {"paths": "x.npy", "held_back_paths": "y.npy"}
        changes += [f"--config.data.{k}=('{file}',)" for k, file in files.items()]
    values = config_flag.read(name, changes)
    config = config_lib.from_config_dict(values)
    assert next_steps.of_run(config, "my runs/x") == wanted
