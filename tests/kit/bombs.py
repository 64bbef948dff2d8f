"""A pickle that shows when it is run, for tests of what reads files of others."""

import pathlib


class Bomb:
    """Leaves a file behind if it is ever unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(self.path),)
