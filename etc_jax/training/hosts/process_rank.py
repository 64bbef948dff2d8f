"""Which of how many processes this is, from the variables of the environment.

See `distributed` for the order in which they count.
"""

import dataclasses
from collections.abc import Mapping

from etc_jax.training.errors import UserError

_JAX_VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")
_TORCH_VARIABLES = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK")


@dataclasses.dataclass(frozen=True)
class ProcessRank:
    """Which of how many processes this is.

    Attributes:
      coordinator: host:port of process 0; not used by one process alone.
      processes: how many there are.
      process: this one, from 0.
      devices: this process's accelerators; None: all of the machine.
      source: what said so, for messages.
    """

    coordinator: str
    processes: int
    process: int
    devices: tuple[int, ...] | None
    source: str


def detect(environ: Mapping[str, str]) -> ProcessRank | None:
    """The place that variables name; None if it is left to jax to find out.

    Raises:
      UserError: if variables are missing or wrong.
    """
    if any(name in environ for name in _JAX_VARIABLES):
        return _from_jax_variables(environ)
    if any(name in environ for name in _TORCH_VARIABLES):
        return _from_torchrun(environ)
    # jax's port for a Slurm job is fixed, so runs side by side would collide.
    if environ.get("SLURM_NTASKS") == "1":
        return ProcessRank("", 1, 0, None, "SLURM_NTASKS")
    return None


def _from_jax_variables(environ: Mapping[str, str]) -> ProcessRank:
    address, processes, process = _all_of(_JAX_VARIABLES, environ)
    return _checked(address, processes, process, None, _JAX_VARIABLES)


def _from_torchrun(environ: Mapping[str, str]) -> ProcessRank:
    host, port, processes, process = _all_of(_TORCH_VARIABLES, environ)
    if environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        # torchrun's own store listens on the port.
        port = str(_number("MASTER_PORT", port) + 1)
    devices = None
    if "LOCAL_RANK" in environ and environ.get("LOCAL_WORLD_SIZE") != "1":
        devices = (_number("LOCAL_RANK", environ["LOCAL_RANK"]),)
    names = ("MASTER_ADDR:MASTER_PORT", *_TORCH_VARIABLES[2:])
    return _checked(f"{host}:{port}", processes, process, devices, names)


def _all_of(names: tuple[str, ...], environ: Mapping[str, str]) -> list[str]:
    if missing := [name for name in names if not environ.get(name)]:
        present = ", ".join(name for name in names if environ.get(name)) or "none"
        raise UserError(
            f"of the variables {', '.join(names)}, which say where the processes of "
            f"a run meet, {', '.join(missing)} is missing (set: {present}); set all of "
            "them for each process, or unset them to train with one"
        )
    return [environ[name] for name in names]


def _number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise UserError(f"{name} is {text!r}; expected a whole number")
    return int(text)


def _checked(address, processes, process, devices, names) -> ProcessRank:
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal() and 0 < int(port) < 1 << 16):
        raise UserError(
            f"{names[0]} is {address!r}; expected host:port, the same for all "
            "processes, on the machine of process 0"
        )
    count, index = _number(names[1], processes), _number(names[2], process)
    if not 0 <= index < count:
        raise UserError(
            f"{names[2]} is {index}, but {names[1]} is {count}; expected numbers from "
            f"0 to {names[1]} - 1, another for each process"
        )
    return ProcessRank(address, count, index, devices, ", ".join(names))
