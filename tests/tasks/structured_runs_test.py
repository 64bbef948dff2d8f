"""Data sets of one text or some documents for ETC: raw files to official scores."""

import json

import classification_samples
import pytest
import triviaqa_samples
from raw_to_score import losses_scores_and_answers

pytest.importorskip("nupunkt")
WORDS = "the old mill stands . it is a town . lee built the mill".split()
LENGTHS = (48, 24)
MODEL = {"radius": 11, "max_distance": 8, "num_labels": 24}


def text(i: int) -> str:
    """Six sentences, of which the first has the label, or the answer."""
    name = ("ann", "lee", "owner", "baker")[i % 4]
    return " ".join(["The", name, "was", ("north", "south")[i % 2], ".", *WORDS * 2])


def triviaqa(folder):
    """Questions with one document each."""
    values = [
        {
            "Question": "Who was it?",
            "QuestionId": f"tc_{i}",
            "Answer": {"NormalizedAliases": [text(i).split()[1]]},
            "Documents": [{"Filename": f"{i}.txt", "Text": text(i)}],
        }
        for i in range(8)
    ]
    return triviaqa_samples.release_of(folder, values), values


def imdb(folder):
    """Reviews in the folders of the release."""
    folders = ("neg", "pos")
    texts = {f"{folders[i % 2]}/{i}_{1 + 8 * (i % 2)}.txt": text(i) for i in range(8)}
    names = [name.removesuffix(".txt") for name in texts]
    values = [
        {"id": f"train/{name}", "text": t}
        for name, t in zip(names, texts.values(), strict=True)
    ]
    return classification_samples.aclimdb(folder, texts), values


def hyperpartisan(folder):
    """Articles in XML, and beside them the truth."""
    labels, names = ("false", "true"), [f"{i:07}" for i in range(8)]
    articles, truth = [], []
    for i, name in enumerate(names):
        inside = f"<p>{text(i)}</p>"
        articles.append(classification_samples.article_xml(name, inside))
        truth.append(classification_samples.truth_xml(name, labels[i % 2]))
    values = [{"id": n, "title": "T", "text": text(i)} for i, n in enumerate(names)]
    return classification_samples.release(folder, articles, truth), values


@pytest.mark.parametrize(
    "make, metric",
    [
        pytest.param(triviaqa, "f1", marks=pytest.mark.full),
        pytest.param(imdb, "accuracy", marks=pytest.mark.full),
        pytest.param(hyperpartisan, "f1", marks=pytest.mark.full),
    ],
    ids=["triviaqa", "imdb", "hyperpartisan"],
)
def test_it_learns_what_the_raw_files_say(make, metric, tmp_path, capsys):
    task = make.__name__
    path, values = make(tmp_path)
    losses, scores, answers = losses_scores_and_answers(
        task,
        "structured",
        path,
        values,
        lengths=LENGTHS,
        model=MODEL,
        folder=tmp_path,
        capsys=capsys,
    )
    assert losses[-1] < 0.5 * losses[0], losses
    assert scores["metrics"][metric] == 1.0
    official = json.loads((tmp_path / "dev" / "predictions.json").read_text())
    assert all(official[a["id"]] == a["answer"] for a in answers)
