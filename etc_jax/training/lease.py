"""One owner of a workdir in an object store, by the generations of one object.

`owner.json` is made only if there is none, and written again only if it is as the owner
has left it. Whoever takes it over writes it in the same way, so that of two processes
one gets it, and a former owner that goes on after a sleep cannot write it any longer.

An owner is gone if its process, on this machine, has ended, or if it has not written
the object for `claim.WATCH_SECS`.
"""

from etils import epath

from etc_jax.base import stores
from etc_jax.training import claim as claim_lib
from etc_jax.training.claim import Claim, Owner

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
        super().__init__(path, claim)

    def _put(self, content: bytes) -> None:
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
        content, generation = stores.read(path) or (b"", 0)
        owner = claim_lib.claim_in(content)
        # Else it was written, and the answer was lost.
        if owner is None or owner.token != claim.token:
            claim_lib.outlast(path, content, claim, _content, locks=False)
        try:
            return _Lease(path, claim, generation)
        except stores.Changed:  # by one that came first, or let it go just now
            continue


def _content(path: epath.Path) -> bytes:
    content, _ = stores.read(path) or (b"", 0)
    return content
