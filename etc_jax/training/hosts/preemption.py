"""SIGTERM and SIGINT become a decision between two steps, the same on all processes."""

import functools
import logging
import signal
import threading
from types import FrameType

import jax
import jax.numpy as jnp
import numpy as np

_LOG = logging.getLogger(__name__)


class PreemptionGuard:
    """While open, the first signal asks for a stop; a second one acts as usual.

    Attributes:
      signal_name: "SIGTERM" or "SIGINT" once a signal has come, else None.
    """

    SIGNALS = (signal.SIGTERM, signal.SIGINT)

    def __init__(self):
        self.signal_name: str | None = None
        self._previous: dict[signal.Signals, object] = {}

    @property
    def requested(self) -> bool:
        """Whether a signal has come to this process."""
        return self.signal_name is not None

    def __enter__(self) -> "PreemptionGuard":
        if threading.current_thread() is not threading.main_thread():
            _LOG.warning(
                "not in the main thread: SIGTERM will not be caught, so a preempted "
                "run continues from its last regular checkpoint"
            )
            return self
        for number in self.SIGNALS:
            self._previous[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *exc) -> None:
        self._restore()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.signal_name = signal.Signals(number).name
        self._restore()

    def _restore(self) -> None:
        for number, handler in self._previous.items():
            # None: a handler written in C, such as that of jax's own preemption
            # service, which Python cannot put back; it would only note the signal.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        self._previous.clear()


class StopVote:
    """Whether to stop, decided at the same step by all processes of a mesh.

    One process follows its guard at once. Several agree by a small
    reduction over their devices, that is started after each step and looked at when
    the next step has been started: the host does not wait for it, and a signal is
    followed one or two steps late.

    Args:
      guard: of this process.
      mesh: of the run.

    Attributes:
      signal_name: of the signal that a stop is for, once it is decided, else None.
    """

    def __init__(self, guard: PreemptionGuard, mesh: jax.sharding.Mesh):
        self.signal_name: str | None = None
        self._guard = guard
        self._pending: jax.Array | None = None
        self._alone = self._is_alone(mesh)
        if self._alone:
            return
        self._shape = (mesh.size,)
        self._sharding = jax.NamedSharding(mesh, jax.P(mesh.axis_names))
        whole = jax.NamedSharding(mesh, jax.P())
        self._largest = jax.jit(jnp.max, out_shardings=whole)
        self._votes = functools.cache(self._vote)

    def _is_alone(self, mesh: jax.sharding.Mesh) -> bool:
        return len({device.process_index for device in mesh.devices.flat}) == 1

    def _vote(self, number: int) -> jax.Array:
        """This process's part of a vote, on its devices: no transfer each step."""
        return jax.make_array_from_callback(
            self._shape, self._sharding, lambda _: np.full(1, number, np.int32)
        )

    @property
    def stop(self) -> bool:
        """Whether to stop before the next step."""
        if self._alone:
            self.signal_name = self._guard.signal_name
        return self.signal_name is not None

    def after_step(self) -> None:
        """To be called when a step has been started, on every process.

        Also before each batch of an evaluation: it is decided one of them late.
        """
        if self._alone:
            return
        name = self._guard.signal_name
        number = 0 if name is None else int(signal.Signals[name])
        before, self._pending = self._pending, self._largest(self._votes(number))
        if before is not None and (decided := int(before)):
            self.signal_name = signal.Signals(decided).name
