"""Files of data sets whose answers are written: translations, and SQuAD as text."""

import json

SENTENCES = {
    "en": ("The old mill stands in Ton.", "It burned, and Ann Lee was there."),
    "de": ("Die alte Mühle steht in Ton.", "Sie brannte, und Ann Lee war dort."),
}
TRANSLATION = {"id": "dev:1", **{k: x[0] for k, x in SENTENCES.items()}}
QUESTION = {
    "id": "q1",
    "title": "Mill",
    "question": "who owned the old mill?",
    "context": "The old mill stands in Ton. Ann Lee owned it.",
    "answers": [
        {"text": "Ann Lee", "answer_start": 28},
        {"text": "Lee", "answer_start": 32},
    ],
}


def write_pair(folder, sentences=SENTENCES, stem="dev"):
    """Files of lines, one a language; the English one."""
    for language, texts in sentences.items():
        path = folder / f"{stem}.{language}"
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return folder / f"{stem}.en"


def articles_of(questions):
    """Those of SQuAD's release, each with one question."""
    articles = []
    for question in questions:
        inner = {k: x for k, x in question.items() if k not in ("title", "context")}
        paragraph = {"context": question["context"], "qas": [inner]}
        articles.append({"title": question["title"], "paragraphs": [paragraph]})
    return articles


def write_release(folder, questions, name="dev"):
    """A file of SQuAD's release."""
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"version": "1.1", "data": articles_of(questions)}))
    return path
