"""Processes that train together: how they meet, agree and part.

`run` puts the jax runtime for several processes around a program. Where it is from, in
this order:

1. JAX_COORDINATOR_ADDRESS (host:port), JAX_NUM_PROCESSES and JAX_PROCESS_ID;
2. torchrun's MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK (and LOCAL_RANK);
3. what jax finds out itself: Slurm, TPU pods, Open MPI, Kubernetes;
4. else one process.

One process starts no coordinator, listens nowhere and has no heartbeat to miss: it may
be paused for as long as it likes. The coordinator of several takes anyone's word: it
listens on the given address alone (where jax finds the address itself, on all of the
machine's), so keep its port off the internet.
"""

import contextlib
import faulthandler
import itertools
import json
import logging
import os
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import jax
from jax._src import distributed as jax_distributed, xla_bridge
from jax._src.clusters import ClusterEnv

from etc_jax.base.terminal import listing
from etc_jax.training.errors import CRASHED, DONE, PREEMPTED, RunError, UserError
from etc_jax.training.hosts.key_value import look_up
from etc_jax.training.hosts.process_rank import ProcessRank, detect

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

# A process that is silent for so long is dead, and the job ends.
HEARTBEAT_SECS = 30
# How long a process that is done waits for the others, and for its own threads.
GRACE_SECS = 30.0
# The same after an error, which the others may not know of.
ERROR_GRACE_SECS = 10.0
_LAST_WORDS_SECS = 2.0
_ORBAX_WRITER = "array_type_handler"  # Orbax's name for the thread of a save
INTERRUPTED = 130

_BIND = "JAX_COORDINATOR_BIND_ADDRESS"
_rounds = itertools.count()


class PeerError(RunError):
    """Another process cannot go on; `exit_code` is that of its error."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def start(environ: Mapping[str, str] = os.environ) -> None:
    """Joins the processes of the run; before any device is touched.

    Raises:
      UserError: if variables are wrong, or the processes do not find each other.
    """
    rank = detect(environ)
    # It would take SIGTERM away from `PreemptionGuard`.
    jax.config.update("jax_enable_preemption_service", False)
    if rank is None:
        _meet_as_jax_finds()
    elif rank.processes > 1:
        _meet(rank.source, rank, environ.get(_BIND))
    if several():
        # For CPUs alone; no device has been touched yet.
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        _LOG.info("process %d of %d", _index(), _count())


def _meet_as_jax_finds() -> None:
    """Lets jax look for a cluster, and joins its processes if there are several."""
    # Where jax is in use already, as in a notebook, one process has nobody to meet.
    if xla_bridge.backends_are_initialized() and _as_jax_counts() == 1:
        return
    try:
        _meet("found by jax", None, None)
    except ValueError as error:
        if "coordinator_address should be defined" in str(error):
            return  # no cluster
        raise UserError(f"jax cannot make out this cluster: {error}") from error
    if not several():
        jax.distributed.shutdown()


def _as_jax_counts() -> int:
    """The processes of the cluster that `jax.distributed.initialize` would find."""
    usual = (env for env in ClusterEnv._cluster_types if not env.opt_in_only_method)
    counts = (env.get_process_count() for env in usual if env.is_env_present())
    return next(counts, 1)


def _meet(source: str, rank: ProcessRank | None, bind: str | None) -> None:
    arguments: dict[str, Any] = {}
    if rank is not None:
        bind = bind or rank.coordinator
        if rank.process == 0:
            _check_can_listen(bind)
        arguments = {
            "coordinator_address": rank.coordinator,
            "num_processes": rank.processes,
            "process_id": rank.process,
            "local_device_ids": rank.devices,
            "cluster_detection_method": "deactivate",
            "coordinator_bind_address": bind,
        }
    try:
        jax.distributed.initialize(
            **arguments, heartbeat_timeout_seconds=HEARTBEAT_SECS
        )
    except RuntimeError as error:
        raise UserError(
            f"the processes of the run do not meet ({source}): {error}\nStart all of "
            "them with the same address, on which process 0 can listen"
        ) from error


def _check_can_listen(address: str) -> None:
    """Where process 0 cannot listen, jaxlib dies of a segmentation fault."""
    host, _, port = address.rpartition(":")
    try:
        family, kind, _, _, where = socket.getaddrinfo(
            host.strip("[]"), int(port), type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
            probe.listen()
    except (OSError, ValueError) as error:
        raise UserError(
            f"process 0 cannot listen on {address}, where the processes of the run are "
            f"to meet ({error}); give an address of its machine and a free port, or "
            f"set {_BIND} to where it can listen"
        ) from error


def run(main_fn: Callable[[], int]) -> int:
    """Calls `main_fn` as one of the processes of a run, and returns its exit code.

    After this a process ends in bounded time, whatever the others or a thread do: one
    of several at once, and one alone, such as a notebook, when its program ends.

    Raises:
      UserError: as `start` does.
    """
    start()
    code = CRASHED
    try:
        code = main_fn()
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception:
        # Printed now: the end may not be an orderly one.
        traceback.print_exc()
    stop(code)
    return code


def stop(code: int) -> None:
    """Parts from the others; see `run`.

    Args:
      code: what the process is going to exit with.
    """
    if code in (CRASHED, INTERRUPTED) and several():
        # The others wait for this process in some collective. Saying goodbye would
        # wait for them; that it is gone they notice by themselves. Before that they
        # may read from process 0 why (see `together`).
        time.sleep(_LAST_WORDS_SECS if is_first() else 0)
        _leave(code)
    grace = GRACE_SECS if code in (DONE, PREEMPTED) else ERROR_GRACE_SECS
    # jax waits minutes for processes that do not come, and then aborts.
    ends = threading.Event()
    args = (ends, grace, code)
    threading.Thread(target=_leave_after, args=args, daemon=True).start()
    if not several():
        # `atexit` comes too late: after the threads, for which the program waits.
        threading._register_atexit(_end, ends, code)
        return
    ends.set()
    try:
        jax.distributed.shutdown()
    except RuntimeError as error:
        _LOG.warning("the processes did not part in order: %s", error)
    _end(ends, code)


def _end(ends: threading.Event, code: int) -> None:
    ends.set()
    # What a failed save has left running would abort the process while it ends.
    if any(thread.name == _ORBAX_WRITER for thread in threading.enumerate()):
        _leave(code)


def _leave_after(ends: threading.Event, secs: float, code: int) -> None:
    ends.wait()
    time.sleep(secs)
    print(
        f"etc_jax: another process or a thread has not ended within {secs:.0f} s; "
        f"leaving with exit code {code}. What the threads were doing:",
        file=sys.stderr,
    )
    with contextlib.suppress(OSError, ValueError):  # stderr may be no file
        faulthandler.dump_traceback(file=sys.stderr)
    _leave(code)


def _leave(code: int) -> None:
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # closed by its reader
            stream.flush()
    os._exit(code)


def _client() -> Any:
    # jax has no public name for it; Orbax takes it from here too.
    return jax_distributed.global_state.client


def _count() -> int:
    """Like `jax.process_count`, without waiting for devices to be set up."""
    return jax_distributed.global_state.num_processes


def _index() -> int:
    return jax_distributed.global_state.process_id


def is_first() -> bool:
    """Whether this is the process that writes what is written once."""
    return _index() == 0


def several() -> bool:
    """Whether the run has more than one process."""
    return _count() > 1


def exchange(value: Any) -> Iterator[Any]:
    """Gives `value` to all processes; yields theirs, in order, waiting for each.

    All processes must make the same calls in the same order. No device is used. A
    process that has died ends the job (see `HEARTBEAT_SECS`), so there is no time-out.

    Args:
      value: as JSON takes it.
    """
    if not several():
        yield value
        return
    folder = f"etc_jax/{next(_rounds)}"
    _client().key_value_set(f"{folder}/{_index()}", json.dumps(value))
    for process in range(_count()):
        yield json.loads(_waited_for(f"{folder}/{process}"))


def _waited_for(key: str) -> str:
    pause = 0.01
    while True:
        try:
            value = look_up(_client(), key)
        except jax.errors.JaxRuntimeError as error:
            raise PeerError(
                f"process 0, through which the others meet, is gone: {error}", CRASHED
            ) from error
        if value is not None:
            return value
        # Not jax's own waiting: no signal would be heard meanwhile.
        time.sleep(pause)
        pause = min(1.5 * pause, 0.5)


def together(fn: Callable[[], _T]) -> _T:
    """What `fn` returns here, once it has succeeded on every process.

    Raises:
      PeerError: if it has failed on another process only; its own errors as they are.
    """
    return _settled(*_tried(fn))


def in_turn(fn: Callable[[], _T]) -> _T:
    """Like `together`, but process 0 is done before the others begin."""
    result, error = _tried(fn) if is_first() else (None, None)
    _settled(result, error)
    if not is_first():
        result, error = _tried(fn)
    return _settled(result, error)


def _tried(fn: Callable[[], _T]) -> tuple[_T | None, Exception | None]:
    try:
        return fn(), None
    except Exception as error:
        return None, error


def _settled(result: Any, error: Exception | None) -> Any:
    failed = None
    if error is not None:
        code = getattr(error, "exit_code", CRASHED)
        failed = {"message": f"{type(error).__name__}: {error}", "exit_code": code}
    failures = {i: x for i, x in enumerate(exchange(failed)) if x is not None}
    if error is not None:
        raise error
    for process, failure in failures.items():
        raise PeerError(
            f"process {process} cannot go on: {failure['message']}",
            failure["exit_code"],
        )
    return result


def check_same(what: str, values: Mapping[str, Any], *, advice: str) -> None:
    """Refuses to go on unless all processes give the same values.

    Args:
      what: is compared, for the message.
      values: {name: JSON value}.
      advice: what to do about a difference.

    Raises:
      UserError: on every process, with both values of the first that differ.
    """
    local = {"number of processes": _count(), **values}
    received = exchange(local)
    first = next(received)
    # What is missing differs too: not None, which a value can be.
    absent = "(absent)"
    for process, other in enumerate(itertools.chain([first], received)):
        names = sorted(first.keys() | other.keys())
        wrong = [
            f"{name}: {first.get(name, absent)!r} on process 0, "
            f"{other.get(name, absent)!r} on process {process}"
            for name in names
            if first.get(name, absent) != other.get(name, absent)
        ]
        if wrong:
            raise UserError(
                f"the processes differ in {what} ({len(wrong)} values); {advice}:"
                + listing(wrong, 5)
            )
