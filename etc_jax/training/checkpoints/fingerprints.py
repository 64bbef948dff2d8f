"""Whether the inputs of a run are still those that its checkpoint was trained on."""

import logging
from collections.abc import Mapping
from typing import Any

from etc_jax.base.terminal import listing
from etc_jax.training.errors import UserError
from etc_jax.training.job import Job

_LOG = logging.getLogger(__name__)

# Of the JSON beside a checkpoint.
FIELD = "inputs"
SCORED = "held_back_files"
_SHOWN = 10
_DIGITS = 12  # of a digest in a message


def of_job(job: Job) -> dict[str, dict[str, str]]:
    """{field of the JSON: {name: digest}} of all that a job reads."""
    score = job.validation_score
    scored = {} if score is None else score.inputs
    return {FIELD: dict(job.inputs), SCORED: dict(scored)}


def check_same(
    data: Mapping[str, Any], fields: Mapping[str, Mapping[str, str]]
) -> None:
    """Refuses to go on from a checkpoint with other inputs.

    Which files a run is scored on may change on the way: a file that is named then and
    now has to be the same.

    Args:
      data: the JSON beside the checkpoint; those of earlier versions have no digests,
        or none of the files for scores, and are taken as they are.
      fields: of `of_job`.

    Raises:
      UserError: naming each input that is another one, was added or is gone.
    """
    step = data["step"]
    if FIELD not in data:
        _LOG.warning(
            "the checkpoint of step %d was saved by an earlier version, without digests"
            " of its inputs: whether the data is still the same cannot be compared",
            step,
        )
        return
    now, then = fields[FIELD], data[FIELD]
    scored, scored_then = fields.get(SCORED, {}), data.get(SCORED, {})
    for name in scored.keys() & scored_then.keys():
        now, then = {**now, name: scored[name]}, {**then, name: scored_then[name]}
    changed = [
        f"{name}: {_shown(then.get(name))} then, {_shown(now.get(name))} now"
        for name in sorted(then.keys() | now.keys())
        if then.get(name) != now.get(name)
    ]
    if not changed:
        return
    raise UserError(
        f"inputs of this run are not what they were when step {step} was saved "
        f"({len(changed)} of {len(then.keys() | now.keys())}):"
        f"{listing(changed, _SHOWN)}\nRestore them (files, "
        "or the versions of the packages that make tokens of them) and give the same "
        "command again; or choose another --workdir, where checkpoint.init_from can "
        "take over the parameters. Files of data.validation_files may also be others, "
        "of another name"
    )


def _shown(digest: str | None) -> str:
    return "absent" if digest is None else digest[:_DIGITS]
