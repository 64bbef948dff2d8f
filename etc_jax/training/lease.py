"""One owner of a workdir in an object store, by the generations of one object.

`owner.json` is made only if there is none, and written again only if it is as the owner
has left it. Whoever takes it over writes it in the same way, so that of two processes
one gets it, and a former owner that goes on after a sleep cannot write it any longer.

An owner is gone if its process, on this machine, has ended, or if it has not written
the object for `claim.WATCH_SECS`.
"""

import logging

from etils import epath

from etc_jax.base import stores
from etc_jax.training import claim as claim_lib
from etc_jax.training.claim import Claim, Owner

_LOG = logging.getLogger(__name__)

# The next write is due, and nobody takes the folder over before several are missed.
_PATIENCE_SECS = 10.0


class _Lease(Owner):
    """A hold on an object of a generation.

    Args:
      path: address of the object.
      claim: that is written to it.
      generation: that it is of now; 0 if there is none.
    """

    def __init__(self, path: epath.Path, claim: Claim, generation: int):
        self._generation = generation
        self._writes = 0
        super().__init__(path, claim)

    def _write(self) -> None:
        self._writes += 1
        content = claim_lib.content(self._claim, self._writes)
        self._generation = stores.write(
            self._path,
            content,
            generation=self._generation,
            patience_secs=_PATIENCE_SECS,
        )

    def _renew(self) -> Claim | None:
        try:
            self._write()
        except stores.Changed:
            if (current := stores.read(self._path)) is None:
                return None  # deleted by hand, so that another run may begin
            claim = claim_lib.claim_in(current[0])
            if claim is not None and claim.token != self._claim.token:
                return claim
            self._generation = current[1]  # it was written, and the answer was lost
        return None

    def _release(self) -> None:
        stores.delete(
            self._path, generation=self._generation, patience_secs=_PATIENCE_SECS
        )


def take(path: epath.Path, claim: Claim) -> Owner:
    """The hold on an object, once it is certain that nobody else owns it.

    Raises:
      UserError: if another run has it.
      OSError: if the store refuses.
    """
    while True:
        current = stores.read(path)
        generation = 0 if current is None else current[1]
        if current is not None:
            _outlast_the_owner(path, claim, current[0])
        try:
            return _Lease(path, claim, generation)
        except stores.Changed:  # by one that came first, or let it go just now
            continue


def _outlast_the_owner(path: epath.Path, claim: Claim, content: bytes) -> None:
    """Returns when the owner that the object names is gone; UserError if it is not."""
    owner = claim_lib.claim_in(content)
    if owner is not None and owner.token == claim.token:
        return  # it was written, and the answer was lost
    if owner is not None and owner.machine == claim.machine:
        if claim_lib.is_running(owner, claim, locks=False):
            raise claim_lib.refused(path, owner)
        if owner.pids == claim.pids and owner.ticks:
            _LOG.warning("workdir %s is taken over from %s", path.parent, owner)
            return
    claim_lib.outwatch(path, content, owner, _content)


def _content(path: epath.Path) -> bytes:
    current = stores.read(path)
    return b"" if current is None else current[0]
