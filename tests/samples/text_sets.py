"""A row for each data set of text to text: official files, and the records in them.

A new one adds a row, and `tests/datasets/text_sets_test.py` walks it.
"""

import gzip
import json
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from multihop_samples import HOTPOT, write_json
from natural_questions_samples import write_lines
from written_samples import QUESTION, write_release


class TextSet(NamedTuple):
    """What tests have of a data set.

    Attributes:
      write: folder -> an official file of two records or more, the first of them with
        several right texts if the release has such. No ROUGE-2 is above 0 of a
        text of one word.
      records: those in it, as JSON lines have them.
      options: with which they are read.
      package: that its score needs; None for none.
    """

    write: Callable[[pathlib.Path], Any]
    records: Sequence[dict[str, Any]]
    options: dict[str, Any] = {}
    package: str | None = None


def in_lines(*values: Any, name: str = "dev.jsonl.gz"):
    """A JSON value a line."""
    return lambda folder: write_lines(folder / name, values)


def in_one(value: Any, name: str = "dev.json"):
    """One JSON value."""
    return lambda folder: write_json(folder, value, name)


def lines_of(records: Sequence[dict[str, Any]]) -> str:
    """Records as JSON lines."""
    return "".join(f"{json.dumps(record)}\n" for record in records)


def write_files(folder: pathlib.Path, files: dict[str, Any]) -> pathlib.Path:
    """Texts, or values as JSON, by path; the first of them."""
    for name, value in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        text = value if isinstance(value, str) else json.dumps(value)
        (folder / name).write_text(text, encoding="utf-8")
    return folder / next(iter(files))


def in_files(files: dict[str, Any]):
    """Files by path, of which the first is given."""
    return lambda folder: write_files(folder, files)


_MILL = {"id": "a", "input": "The mill stands in Ton.", "target": ["in Ton", "at Ton"]}
_FROG = {"id": "b", "input": "The frog sat by the pond.", "target": "the pond"}

# --- SCROLLS --------------------------------------------------------------------------

_OPTIONS = (
    "Who owned the mill?\n\n (A) A baker.\n (B) Ann\n\n (D) Lee.\n (C) Bob.\n (D) x"
)


def scrolls_lines(name: str, count: int = 2) -> list[dict[str, Any]]:
    """Lines of a data set of SCROLLS: two of the first id, one of each other."""
    query = "Who owned the mill?"
    heads = {"gov_report": "", "summ_screen_fd": "", "quality": f"{_OPTIONS}\n\n\n"}
    head = heads.get(name, f"{query}\n\n")
    lines = []
    for i in range(count):
        # Lines of the first id stand together.
        text = f"{head}The mill of {i} stands in Ton.\n\nAnn Lee owned it.\n (D) no"
        for j, output in enumerate(("Ann Lee did so", "Lee did it")[: 2 - bool(i)]):
            named = {"id": f"{name}_{i}", "pid": f"{name}_{i}_{j}"}
            lines.append({**named, "input": text, "output": output})
    return lines


def _scrolls(name: str, prefix: str | None, before: str = "") -> TextSet:
    texts = (f"{before}The mill of {i} stands in Ton." for i in range(2))
    more = {} if prefix is None else {"prefix": prefix}
    records = [
        {
            "id": f"{name}_{i}",
            **more,
            "input": f"{text}\n\nAnn Lee owned it.\n (D) no",
            "target": ["Ann Lee did so", "Lee did it"] if not i else "Ann Lee did so",
        }
        for i, text in enumerate(texts)
    ]
    package = (
        None if name not in ("gov_report", "summ_screen_fd", "qmsum") else "rouge_score"
    )
    return TextSet(in_lines(*scrolls_lines(name)), records, package=package)


_ASKED = "Who owned the mill?"
_SCROLLS = {
    "scrolls_gov_report": _scrolls("gov_report", None),
    "scrolls_summ_screen_fd": _scrolls("summ_screen_fd", None),
    "scrolls_qmsum": _scrolls("qmsum", _ASKED),
    "scrolls_narrative_qa": _scrolls("narrative_qa", _ASKED),
    "scrolls_qasper": _scrolls("qasper", _ASKED),
    # The blank line before the article is followed by another line feed.
    "scrolls_quality": _scrolls("quality", _OPTIONS, "\n"),
    "scrolls_contract_nli": _scrolls("contract_nli", _ASKED),
}

# --- questions ------------------------------------------------------------------------

_MEETING = {
    "topic_list": [{"topic": "mill", "relevant_text_span": [["0", "1"]]}],
    "general_query_list": [{"query": "What was said?", "answer": "The mill burned."}],
    "specific_query_list": [
        {
            "query": "Who owned it?",
            "answer": "Ann Lee owned it.",
            "relevant_text_span": [["1", "2"]],
        }
    ],
    "meeting_transcripts": [
        {"speaker": "PhD A", "content": "The mill {disfmarker} burned . {gap}"},
        {"speaker": "Ann", "content": "{vocalsound}"},
        {"speaker": "Ann", "content": "I owned it ."},
    ],
}
_SAID = "PhD A: The mill burned .\nAnn: I owned it ."


def _answer(**right: Any) -> dict[str, Any]:
    """Of an annotator of Qasper."""
    nothing = {"unanswerable": False, "extractive_spans": [], "free_form_answer": ""}
    other = {"yes_no": None, "evidence": [], "highlighted_evidence": []}
    return {"answer": {**nothing, **other, **right}, "annotation_id": "x"}


def _asked(name: str, question: str, *answers: dict[str, Any]) -> dict[str, Any]:
    return {"question_id": name, "question": question, "answers": list(answers)}


_PAPERS = {
    "1901.1": {
        "title": "Mills",
        "abstract": "We burn mills.",
        "full_text": [
            {"section_name": "Data", "paragraphs": ["Ten mills in Ton.", " "]},
            {"section_name": None, "paragraphs": ["They stand."]},
        ],
        "qas": [
            _asked(
                "q1",
                "Which mills?",
                _answer(free_form_answer="those of Ton"),
                _answer(extractive_spans=["Ten mills", "in Ton"]),
            ),
            _asked(
                "q2",
                "Do they stand?",
                _answer(yes_no=True),
                _answer(unanswerable=True),
            ),
        ],
    },
    "1901.2": {
        "title": "Frogs",
        "abstract": "",
        "full_text": [{"section_name": "Pond", "paragraphs": ["A frog swims."]}],
        "qas": [_asked("q3", "Does it fly?", _answer(yes_no=False))],
    },
}
_MILLS = "Data\nTen mills in Ton.\nThey stand."

_YES = {
    **HOTPOT,
    "_id": "a2",
    "question": "Is it a town?",
    "answer": "yes",
    "supporting_facts": [["Ton", 0], ["Ann Lee", 1]],
}
_OLD_MILL = "Old Mill: The Old Mill was built by its first owner. It burned."
_ANN = "Ann Lee: Ann Lee was a baker. She owned the Old Mill."
_TON = "Ton: Ton is a town in Norland."

_POND = {
    "id": "q2",
    "title": "Pond",
    "question": "who sat there?",
    "context": "The frog sat by the pond.",
    "answers": [{"text": "The frog", "answer_start": 0}] * 2,
}

_QUESTIONS = {
    "qmsum": TextSet(
        in_lines(_MEETING),
        [
            {
                "id": "dev:1:general-1",
                "input": _SAID,
                "prefix": "What was said?",
                "target": "The mill burned.",
            },
            {
                "id": "dev:1:specific-1",
                "input": _SAID,
                "prefix": "Who owned it?",
                "target": "Ann Lee owned it.",
            },
        ],
        package="rouge_score",
    ),
    "qasper": TextSet(
        in_one(_PAPERS),
        [
            {
                "id": "q1",
                "input": _MILLS,
                "prefix": "Which mills?",
                "target": ["those of Ton", "Ten mills, in Ton"],
                "types": ["abstractive", "extractive"],
            },
            {
                "id": "q2",
                "input": _MILLS,
                "prefix": "Do they stand?",
                "target": ["Yes", "Unanswerable"],
                "types": ["boolean", "none"],
            },
            {
                "id": "q3",
                "input": "Pond\nA frog swims.",
                "prefix": "Does it fly?",
                "target": "No",
                "types": ["boolean"],
            },
        ],
    ),
    "hotpotqa_text": TextSet(
        in_one([HOTPOT, _YES]),
        [
            {
                "id": "a1",
                "input": f"{_OLD_MILL}\n{_ANN}",
                "prefix": "Who built the mill?",
                "target": "Ann Lee",
            },
            {
                "id": "a2",
                "input": f"{_TON}\n{_ANN}",
                "prefix": "Is it a town?",
                "target": "yes",
            },
        ],
    ),
    "squad_distractors": TextSet(
        lambda folder: write_release(folder, [QUESTION, _POND]),
        [
            {
                "id": "q1",
                "input": f"{QUESTION['context']}\n{_POND['context']}",
                "prefix": QUESTION["question"],
                "target": ["Ann Lee", "Lee"],
            },
            {
                "id": "q2",
                "input": f"{_POND['context']}\n{QUESTION['context']}",
                "prefix": _POND["question"],
                "target": "The frog",
            },
        ],
        {"order": "ordered", "distractors": 1},
    ),
}

# --- summaries ------------------------------------------------------------------------

_CANALS = {
    "id": "R00001",
    "title": "Canal Tolls",
    "reports": {
        "section_title": "",
        "paragraphs": ["Canals charge tolls. "],
        "subsections": [
            {
                "section_title": "History",
                "paragraphs": ["Tolls began early.", ""],
                "subsections": [
                    {
                        "section_title": "Reform",
                        "paragraphs": ["Rates fell by half."],
                        "subsections": [],
                    }
                ],
            },
            {"section_title": "Today", "paragraphs": ["They rise."]},
        ],
    },
    "summary": ["Canals charge tolls.", "Rates fell."],
}
_BRIDGES = {
    "id": "GAO-00-001",
    "report": [
        {"section_title": "Background", "paragraphs": ["Paint keeps steel dry."]},
        {"section_title": "Findings", "paragraphs": ["Checks were late."]},
    ],
    "highlight": [
        {"section_title": "Why GAO Did This Study", "paragraphs": ["It is dear."]},
        {"section_title": "What GAO Found", "paragraphs": ["Checks were late."]},
    ],
    "fastfact": ["Late!"],
}
_PAPER = {
    "article_id": "0708.1996",
    "article_text": ["we study frogs .", " they sit by ponds . "],
    "abstract_text": ["<S> frogs sit by ponds . </S>", "<S> we say why . </S>"],
    "labels": None,
    "section_names": ["introduction"],
    "sections": [["we study frogs .", "they sit by ponds ."]],
}
_OTHER_PAPER = {
    **_PAPER,
    "article_id": "PMC1",
    "article_text": ["herons eat frogs ."],
    "abstract_text": ["<S> on herons . </S>"],
}
_SCIENTIFIC = TextSet(
    in_lines(_PAPER, _OTHER_PAPER, name="val.txt.gz"),
    [
        {
            "id": "0708.1996",
            "input": "we study frogs .\nthey sit by ponds .",
            "target": "frogs sit by ponds .\nwe say why .",
        },
        {"id": "PMC1", "input": "herons eat frogs .", "target": "on herons ."},
    ],
    package="rouge_score",
)


def _episode(*recap: str) -> dict[str, Any]:
    return {"Transcript": ["[ Bakery ]", "Mira: Who ate it?"], "Recap": list(recap)}


def _episodes(source: str, site: str) -> TextSet:
    raw = f"SummScreen_raw/{source}"
    listed = [{"filename": f"e{i}.json", "Recap": ["a b@@ un ."] * i} for i in (1, 2)]
    return TextSet(
        in_files(
            {
                f"SummScreen/{site}/{source}_dev.json": lines_of(listed),
                f"{raw}/e1.json": _episode("Mira asks.", "Tom blames a dog."),
                f"{raw}/e2.json": _episode("A bun is gone."),
                f"{raw}/e3.json": _episode("Not in the split."),
            }
        ),
        [
            {"id": name, "input": "[ Bakery ]\nMira: Who ate it?", "target": recap}
            for name, recap in (
                ("e1", "Mira asks.\nTom blames a dog."),
                ("e2", "A bun is gone."),
            )
        ],
        package="rouge_score",
    )


def _alignment(site: str, number: int) -> dict[str, Any]:
    return {
        "bid": "99",
        "is_aggregate": False,
        "source": site,
        "chapter_path": "all_chapterized_books/99-chapters/01.txt",
        "summary_path": f"finished_summaries/{site}/The Pond/section_{number}.txt",
        "book_id": "The Pond.chapter 1",
        "summary_id": "chapter 1",
    }


_CHAPTER = "CHAPTER I\n\nThe frog sat by the pond.\n"
_PASSAGE = {
    "metadata": {"passage_id": "63833", "uid": "x", "license": "free"},
    "document": "The frog sat by the pond. A heron came.",
    "questions": [
        {
            "question_text": "What is the plot? ",
            "question_number": 1,
            "responses": [
                {"worker_id": "6", "uid": "a", "response_text": "\nA heron comes."},
                {"worker_id": "1", "uid": "b", "response_text": "A frog dives."},
            ],
        },
        {
            "question_text": "Who sat there?",
            "question_number": 2,
            "responses": [{"worker_id": "6", "uid": "c", "response_text": "A frog."}],
        },
    ],
}

SUMMARIES = {
    "gov_report": TextSet(
        in_files(
            {
                # Cut anywhere, it names a report that is not there.
                "gov-report/split_ids/crs_valid.ids": "R00001\nGAO-00-001\n",
                "gov-report/crs/R00001.json": _CANALS,
                "gov-report/crs/GAO-00-001.json": _BRIDGES,
            }
        ),
        [
            {
                "id": "R00001",
                "input": "Canals charge tolls.\nHistory\nTolls began early.\nReform\n"
                "Rates fell by half.\nToday\nThey rise.",
                "target": "Canals charge tolls.\nRates fell.",
            },
            {
                "id": "GAO-00-001",
                "input": "Background\nPaint keeps steel dry.\nFindings\n"
                "Checks were late.",
                "target": "It is dear.\nChecks were late.",
            },
        ],
        package="rouge_score",
    ),
    "arxiv": _SCIENTIFIC,
    "pubmed": _SCIENTIFIC,
    "booksum": TextSet(
        in_files(
            {
                "alignments/chapter-level/chapter_val.jsonl": lines_of(
                    [_alignment("notes", 0), _alignment("a study", 2)]
                ),
                "all_chapterized_books/99-chapters/01.txt": _CHAPTER,
                "scripts/finished_summaries/notes/The Pond/section_0.txt": {
                    "name": "Chapter 1",
                    "summary": ["A frog rests.", "It dives."],
                    "analysis": [],
                },
                "scripts/finished_summaries/a study/The Pond/section_2.txt": {
                    "summary": ["A heron comes."]
                },
            }
        ),
        [
            {"id": f"99/{name}", "input": _CHAPTER.strip(), "target": summary}
            for name, summary in (
                ("notes/The Pond/section_0", "A frog rests.\nIt dives."),
                ("a study/The Pond/section_2", "A heron comes."),
            )
        ],
        package="rouge_score",
    ),
    "summ_screen_fd": _episodes("fd", "ForeverDreaming"),
    "summ_screen_tms": _episodes("tms", "TVMegaSite"),
    "squality": TextSet(
        in_lines(_PASSAGE),
        [
            {
                "id": "63833_1",
                "prefix": "What is the plot?",
                "input": _PASSAGE["document"],
                "target": ["A heron comes.", "A frog dives."],
            },
            {
                "id": "63833_2",
                "prefix": "Who sat there?",
                "input": _PASSAGE["document"],
                "target": ["A frog."],
            },
        ],
        package="rouge_score",
    ),
}

# --- other releases -------------------------------------------------------------------

_CONTRACT = "The duty lasts three years. The Receiver keeps one copy."
_HYPOTHESES = {"nda-1": "Some duties go on.", "nda-4": "No copy is kept."}


def contract_nli_file(folder: pathlib.Path):
    """A contract with two choices."""
    choices = {"nda-1": "Entailment", "nda-4": "NotMentioned"}
    annotations = {k: {"choice": x, "spans": []} for k, x in choices.items()}
    document = {"id": 7, "text": _CONTRACT, "spans": [[0, 27], [28, 56]]}
    document["annotation_sets"] = [{"annotations": annotations}]
    labels = {k: {"hypothesis": x} for k, x in _HYPOTHESES.items()}
    return write_json(folder, {"documents": [document], "labels": labels})


STORY = "THE  MILL\n\nAnn Lee owned the old mill. It burned.\n\nTHE END."


def narrativeqa_file(folder: pathlib.Path, name: str = "qaps_valid.csv.gz"):
    """Two questions about a film, beside its page and the tables of documents."""
    (folder / "tmp").mkdir()
    page = STORY.replace("\n\n", "<br><br>").replace("old", "<b>old</b>")
    page = (
        f"<html><script>THE MILL Ann</script>More scripts<pre>{page}</pre> Ads</html>"
    )
    (folder / "tmp" / "m1.content").write_text(page)
    begin = "document_id,set"
    (folder / "documents.csv").write_text(
        f"{begin},kind,story_start,story_end\nm1,valid,movie,THE MILL Ann,THE END .\n"
    )
    summaries = folder / "third_party" / "wikipedia" / "summaries.csv"
    summaries.parent.mkdir(parents=True)
    summaries.write_text(f'{begin},summary\nm1,valid," A mill, burned."\n')
    rows = ('Who owned the mill?,Ann Lee,"Lee, Ann"', "What burned?,the mill,mill")
    text = "".join(f"m1,valid,{row},x,x,x\n" for row in rows)
    columns = "question,answer1,answer2,question_tokenized,answer1_tokenized,other"
    path = folder / name
    content = f"{begin},{columns}\n{text}".encode()
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


_RELEASES = {
    "contract_nli": TextSet(
        contract_nli_file,
        [
            {"id": f"7:{k}", "prefix": x, "input": _CONTRACT, "target": choice}
            for (k, x), choice in zip(
                _HYPOTHESES.items(), ("Entailment", "Not mentioned"), strict=True
            )
        ],
    ),
    "narrativeqa": TextSet(
        narrativeqa_file,
        [
            {"id": f"m1:{i}", "prefix": question, "input": STORY, "target": answers}
            for i, (question, answers) in enumerate(
                {
                    "Who owned the mill?": ["Ann Lee", "Lee, Ann"],
                    "What burned?": ["the mill", "mill"],
                }.items()
            )
        ],
    ),
}

# --- the table ------------------------------------------------------------------------

TEXT_SETS = {
    **_SCROLLS,
    **_QUESTIONS,
    **SUMMARIES,
    **_RELEASES,
    "text_to_text": TextSet(
        in_lines(
            {**_MILL, "target": "in Ton"},
            {**_MILL, "target": "at Ton"},
            _FROG,
        ),
        [_MILL, _FROG],
        {"measure": "rouge"},
        package="rouge_score",
    ),
}
