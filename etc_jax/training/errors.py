"""How a run can end, and the exit codes that a launcher acts on."""

DONE = 0
CRASHED = 1  # with a traceback
USER_ERROR = 2
NOT_FINITE = 3
CORRUPT_CHECKPOINT = 4
PREEMPTED = 17


class RunError(Exception):
    """A run that ends with one clear message; `exit_code` is its kind."""

    exit_code = USER_ERROR


class UserError(RunError):
    """Something the user gave does not work: data, mesh, folder."""


class NotFiniteError(RunError):
    """Too many updates in a row were not finite."""

    exit_code = NOT_FINITE


class CorruptCheckpointError(RunError):
    """The run had checkpoints, and none of them is whole."""

    exit_code = CORRUPT_CHECKPOINT
