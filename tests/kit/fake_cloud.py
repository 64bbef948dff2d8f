"""Stands in for gcloud, kubectl and sbatch: `install` puts one of each on PATH.

A job has lives, each of them a list of looks: what the program that is asked how far it
is prints, and what the service on its first machine says. Starting it begins the next
life; at the end of one the last look stays.
"""

import json
import os
import pathlib
import sys

_STARTS, _ENDS = ("create", "apply", "sbatch"), ("delete", "scancel")
_LOOKS, _ASKS = ("describe", "get", "squeue"), ("ssh",)
ABSENT = {
    "gcloud": "ERROR: NOT_FOUND: Resource not there",
    "kubectl": 'Error from server (NotFound): jobsets "x" not there',
}


def install(folder: pathlib.Path, lives: list[list[list[str]]]) -> pathlib.Path:
    """Makes the programs; returns their folder.

    Args:
      folder: for them, and for what they remember.
      lives: see the module.
    """
    programs = folder / "bin"
    programs.mkdir()
    state = {"lives": lives, "life": -1, "look": -1, "alive": False, "calls": []}
    (folder / "state.json").write_text(json.dumps(state))
    for name in ("gcloud", "kubectl", "sbatch", "squeue", "scancel", "xpk"):
        program = programs / name
        # Isolated and without packages, it starts in an instant.
        python = f"{sys.executable} -I -S {__file__}"
        program.write_text(f'#!/bin/sh\nexec {python} {name} "$@"\n')
        program.chmod(0o755)
    return programs


def calls(folder: pathlib.Path) -> list[list[str]]:
    """The commands that were given, of the programs in a folder."""
    return json.loads((folder / "state.json").read_text())["calls"]


def main(argv: list[str]) -> int:
    """One command; returns its exit code."""
    path = pathlib.Path(os.environ["FAKE_CLOUD"], "state.json")
    state = json.loads(path.read_text())
    state["calls"].append(argv)
    code = _answer(argv, state)
    path.write_text(json.dumps(state))
    return code


def _answer(argv: list[str], state: dict) -> int:
    def any_of(words):
        return any(word in argv for word in words)

    if any_of(_STARTS):
        state.update(life=state["life"] + 1, look=-1, alive=True)
        return 0
    if any_of(_ENDS):
        state["alive"] = False
        return 0
    if not state["alive"]:
        print(ABSENT.get(argv[0], ""), file=sys.stderr)
        return int(argv[0] in ABSENT)
    looks = state["lives"][state["life"]]
    if any_of(_LOOKS) and "pods" not in argv:
        state["look"] = min(state["look"] + 1, len(looks) - 1)
        print(looks[state["look"]][0])
    elif any_of(_ASKS) or "pods" in argv:
        print(looks[state["look"]][1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
