"""Where the processes of a save wait for each other, in the background.

Orbax lets each process write its part, waits for all of them, and has process 0 commit.
Its own way of waiting does not hear of a part that failed, so that a full disk on one
process would hold up the others until a time-out.
"""

import time

from jax._src import distributed as jax_distributed

from etc_jax.training.hosts.key_value import look_up


class Meeting:
    """A place of its own for the saves of one Orbax checkpointer; no device is used.

    Args:
      name: the same on every process, and used once.
    """

    def __init__(self, name: str):
        self._folder = f"etc_jax/meeting/{name}"
        state = jax_distributed.global_state  # jax has no public name for it
        self._client, self._index = state.client, state.process_id
        self._count = state.num_processes

    def wait(self, *, key: str, timeout_ms: int) -> None:
        """Returns when all processes have come; what Orbax calls a barrier function.

        Raises:
          TimeoutError: naming the processes that have not come.
          RuntimeError: as soon as one has called the save off.
        """
        self._set(f"{key}/{self._index}", "here")
        deadline = time.monotonic() + timeout_ms / 1000
        missing, pause = set(range(self._count)), 0.005
        while True:
            missing = {i for i in missing if self._get(f"{key}/{i}") is None}
            if not missing:
                return
            if reason := self.called_off():
                raise RuntimeError(reason)
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"processes {sorted(missing)} have not written their part of the "
                    f"checkpoint within {timeout_ms / 1000:.0f} s"
                )
            time.sleep(pause)
            pause = min(2 * pause, 0.5)

    def call_off(self, reason: str) -> None:
        """Ends the waiting of all others; the first reason stays."""
        if self._count > 1 and self.called_off() is None:
            self._set("called off", f"process {self._index} failed: {reason}")

    def called_off(self) -> str | None:
        """Why the save is called off; None if it is not."""
        return self._get("called off") if self._count > 1 else None

    def _set(self, key: str, value: str) -> None:
        # Two processes may fail at the same time.
        self._client.key_value_set(f"{self._folder}/{key}", value, True)

    def _get(self, key: str) -> str | None:
        return look_up(self._client, f"{self._folder}/{key}")
