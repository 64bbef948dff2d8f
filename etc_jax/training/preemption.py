"""SIGTERM and SIGINT become a flag that the loop reads between two steps."""

import logging
import signal
import threading
from types import FrameType

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
        """Whether the run should save and end."""
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
            signal.signal(number, handler)
        self._previous.clear()
