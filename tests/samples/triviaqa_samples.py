"""A small TriviaQA record, and official files."""

import json
import pathlib

from etc_jax.tasks import triviaqa as tq

VALUE = {
    "Question": "Who owned the mill?",
    "QuestionId": "tc_1",
    "Answer": {"NormalizedAliases": ["ann lee", "lee"], "HumanAnswers": ["Mill (Ton)"]},
    "Documents": [
        {"Filename": "a.txt", "Text": "The  Old Mill\n\nwas owned by Ann Lee. "},
        {"Filename": "b.txt", "Text": "Lee was the LEE of the old mill, Ton. Leeds"},
    ],
}


def record(*texts: str, names=None, **changes) -> tq.records.Record:
    """The record, with other texts or names of the answer where some are given."""
    value = {**VALUE, **changes}
    if texts:
        value["Documents"] = [
            {"Filename": f"{i}.txt", "Text": text} for i, text in enumerate(texts)
        ]
    if names is not None:
        value["Answer"] = {"NormalizedAliases": list(names)}
    return tq.records.parse(
        {k: v for k, v in value.items() if v is not None}, lambda *_: None
    )


def release(
    folder, questions, domain="Wikipedia", texts=None, name="dev", **more
) -> pathlib.Path:
    """Writes a release; as in the real one, the domain stands after the questions."""
    for file, text in (texts or {}).items():
        path = folder / "evidence" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    path = folder / "qa" / f"{name}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps({"Data": questions, "Domain": domain, **more}))
    return path


def release_of(folder, values, name="dev") -> pathlib.Path:
    """A release of records that are spelled as `VALUE`."""
    questions, texts = [], {}
    for value in values:
        documents = value["Documents"]
        pages = [{"Filename": document["Filename"]} for document in documents]
        texts |= {f"wikipedia/{d['Filename']}": d["Text"] for d in documents}
        rest = {k: x for k, x in value.items() if k != "Documents"}
        questions.append({**rest, "EntityPages": pages})
    return release(folder, questions, texts=texts, name=name)
