"""Golden cases of official metrics: finding them under a folder, and what they are."""

import dataclasses
import json
import pathlib
from typing import Any

# Fields of a file that say what it is and hold no result.
_REMARKS = ("cases", "source", "note", "how")

# What a case is of -> the fields that show it; a dot leads into a value.
KINDS = {
    "bleu": ("hyp", "refs"),
    "bpc": ("nll_nats", "bpc_all"),
    "classification": ("gold", "pred", "accuracy"),
    "coref": ("gold", "pred", "official.muc"),
    "hotpotqa": ("gold", "pred", "official.joint_f1"),
    "natural_questions": ("gold", "predictions", "official.long-best-threshold-f1"),
    "openkp": ("candidate", "reference", "official"),
    "qasper": ("gold", "predictions", "text_evidence_only"),
    "quality": ("items", "hard_accuracy"),
    "rouge": ("pred", "ref", "stemmer"),
    "scrolls": ("task", "predictions", "references", "expected"),
    "scrolls average": ("benchmark_average",),
    "squad": ("data", "predictions", "official"),
    "tokenizers": ("text", "bert.ids"),
    "triviaqa": ("ground_truth", "predictions", "official"),
    "wikihop": ("candidates", "answer", "prediction"),
    "wikihop accuracy": ("cases.0.candidates", "accuracy"),
}


@dataclasses.dataclass(frozen=True)
class Golden:
    """One golden case.

    Attributes:
      name: where it is, for people; nothing depends on it.
      description: the case itself, or the whole file if it has a result of its own.
      problem: why the file holds no case; "" if it does.
    """

    name: str
    description: Any
    problem: str = ""

    @property
    def kinds(self) -> list[str]:
        """All kinds whose fields it has: one, if it is known."""
        return [
            kind
            for kind, fields in KINDS.items()
            if all(_has(self.description, field) for field in fields)
        ]


def _has(value: Any, field: str) -> bool:
    for name in field.split("."):
        if isinstance(value, list) and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict) and name in value:
            value = value[name]
        else:
            return False
    return True


def find_goldens(folder: pathlib.Path) -> list[Golden]:
    """Every case under `folder`, searched through.

    A JSON file is a case, or has a list `cases` of them; with further results beside
    that list, the file as a whole is a case too.
    """
    found = []
    for path in sorted(folder.rglob("*.json")):
        name = str(path.relative_to(folder).with_suffix(""))
        try:
            found += _cases(name.removesuffix("/cases"), json.loads(path.read_bytes()))
        except ValueError as e:
            found.append(Golden(name, None, f"{path} is no JSON: {e}"))
    return found


def _cases(name: str, value: Any) -> list[Golden]:
    if not isinstance(value, dict) or not isinstance(value.get("cases"), list):
        return [Golden(name, value)]
    cases = [
        Golden(f"{name}/{_case_name(case, number)}", case)
        for number, case in enumerate(value["cases"])
    ]
    if not cases or any(field not in _REMARKS for field in value):
        cases.append(Golden(name, value))
    return cases


def _case_name(case: Any, number: int) -> str:
    names = case if isinstance(case, dict) else {}
    return str(names.get("case", names.get("id", number)))
