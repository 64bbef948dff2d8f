"""SQuAD as spans: windows and labels, the best answers, and no answer."""

import json

import numpy as np
import pytest
from golden_data import require_shared
from multihop_samples import split_at_stops, tokenizer
from tokenizer_samples import byte_bpe

from etc_jax.data.tokenizers.tokenizer import open_tokenizer
from etc_jax.datasets.records import BadRecordError, Problems
from etc_jax.datasets.spans import Outputs
from etc_jax.formats.sequence import SequenceSizes
from etc_jax.formats.structured import StructuredSizes
from etc_jax.tasks import squad
from etc_jax.tasks.squad.decoding import N_BEST, NULL_ODDS, summarise

TASK = squad.DATA_SET.in_format("sequence")
SIZES = SequenceSizes(input_length=40, global_length=8)
SHORT = {"question_tokens": 5, "stride": 4}
CONTEXT = "The old mill was owned by Ann Lee. It stands in Ton, a town in Norland."


def record(context=CONTEXT, answer="Ann Lee", start=None, question="Who owned it?"):
    answers = []
    if answer:
        start = context.index(answer) if start is None else start
        answers = [{"text": answer, "answer_start": start}]
    value = {"id": "q1", "question": question, "context": context, "answers": answers}
    return TASK.parse({**value, "is_impossible": not answers}, lambda *note: None)


def task(**options):
    return TASK.with_options({**SHORT, **options})


def windows_of(made=None, model=None, sizes=SIZES, **options):
    return task(**options).features(made or record(), model or tokenizer(), sizes)


def said(window) -> str:
    """What a window is trained to say; "" for no answer."""
    [first], [last] = window.labels["starts"], window.labels["ends"]
    if first == 0:
        assert last == 0
        return ""
    number, (start, stop) = window.span_of(first, last)
    assert number == 0
    return window.record.context[start:stop]


# --- inputs ---------------------------------------------------------------------------


def test_the_layout_with_a_vocabulary_of_bert():
    [made] = windows_of()
    pieces = tokenizer().pieces(made.tokens)
    assert pieces[:6] == ["[CLS]", "who", "owned", "it", "[UNK]", "[SEP]"]
    assert pieces[6:14] == "the old mill was owned by ann lee".split()
    used = pieces.index("[PAD]")
    assert pieces[used - 1] == "[SEP]" and pieces.count("[SEP]") == 2
    # The first token and the question are global, for a Longformer.
    assert made.global_index.tolist() == [0, 1, 2, 3, 4, -1, -1, -1]
    types = [0] * 6 + [1] * (used - 6) + [0] * (40 - used)
    assert made.types.tolist() == types
    assert (made.labels["starts"], made.labels["ends"]) == (12, 13)
    assert said(made) == "Ann Lee" and made.unusable is None


def test_the_layout_with_a_vocabulary_of_roberta():
    model = byte_bpe()
    [made] = windows_of(record("the cat's cats", "cat", question="the cat"), model)
    pieces = model.pieces(made.tokens)
    assert pieces[:5] == ["<s>", "the", "Ġcat", "</s>", "</s>"]
    assert pieces[5:11] == ["the", "Ġcat", "'s", "Ġcat", "s", "</s>"]
    assert not made.types.any() and said(made) == "cat"
    assert made.global_index.tolist()[:4] == [0, 1, 2, -1]


@pytest.mark.parametrize(
    "context, answer",
    [
        ("The  old\n\nmill \t was owned by\u3000Ann  Lee .", "Ann  Lee"),
        ("  Ann Lee\n", "Ann Lee"),
        ("Café Müller: Ann\u00a0Lee’s mill", "Ann\u00a0Lee"),
        ("𝄞 the İstanbul mill, Ann", "İstanbul mill"),
        ("the mill (Ann Lee)", "Ann Lee"),
    ],
)
def test_a_label_says_the_characters_of_the_answer(context, answer):
    for model in (tokenizer(), byte_bpe()):
        [made] = windows_of(record(context, answer), model, SequenceSizes(120, 8))
        assert said(made) == answer


def test_an_answer_inside_a_token_is_the_whole_token():
    made = windows_of(record("the mills burned", "mill"))[0]
    assert said(made) == "mill"  # "mill" and "##s" are pieces
    made = windows_of(record("the mill burned", "urn"))[0]
    assert said(made) == "burned"
    [loss] = TASK.why_lost([made], {"text": "burned"})
    assert loss == "'urn': tokens say 'burned'"


def test_windows_overlap_and_reach_the_end():
    made = windows_of(sizes=SequenceSizes(16, 6))
    [(ids, _)] = tokenizer().encode_batch([CONTEXT])
    tokens = len(ids)
    room = 16 - 7
    assert [w.number for w in made] == list(range(len(made)))
    assert len(made) == -(-(tokens - room) // 4) + 1 == made[0].count
    seen = []
    for window in made:
        found = window.characters[window.document == 0]
        first = int(np.flatnonzero(window.document == 0)[0])
        assert window.tokens[: first - 1].tolist() == made[0].tokens[: 6 - 1].tolist()
        seen.append([tuple(x) for x in found.tolist()])
    assert all(x[4:] == y[: len(x) - 4] for x, y in zip(seen, seen[1:], strict=False))
    assert seen[-1][-1][1] == len(CONTEXT)
    # Only windows with all of the answer have it; the others say that it is elsewhere.
    answers = [said(window) for window in made]
    assert answers[:3] == ["Ann Lee", "Ann Lee", ""] and not any(answers[3:])


def test_long_questions_are_cut_and_sizes_are_checked():
    [made] = windows_of(record(question="who who who who owned the old mill"))
    assert tokenizer().pieces(made.tokens)[:7] == ["[CLS]", *["who"] * 4, "owned"] + [
        "[SEP]"
    ]
    with pytest.raises(ValueError, match="global_length is 5, expected 6 at least"):
        windows_of(sizes=SequenceSizes(40, 5))
    with pytest.raises(ValueError, match="11 tokens hold 3 of the text .* stride 4"):
        windows_of(sizes=SequenceSizes(11, 8))
    with pytest.raises(BadRecordError, match="no text: 'q1': the context has no token"):
        windows_of(record("\u0300", None))


def test_what_cannot_be_learnt_says_why():
    made = record(start=3)
    assert windows_of(made)[0].unusable == "answer not at its place"
    assert windows_of(made)[0].labels["starts"].tolist() == [-1]


def test_structured_inputs_have_globals_of_question_context_and_sentences():
    sizes, options = StructuredSizes(32, 16), squad.inputs.SpanOptions(**SHORT)

    def split(paragraphs):
        return [s for p in paragraphs for s in split_at_stops(p)]

    given = {"options": options, "split_fn": split}
    [made] = squad.inputs.features(record(), tokenizer(), sizes, **given)
    pieces = tokenizer().pieces(made.tokens.long)
    assert pieces[:5] == ["[CLS]", "who", "owned", "it", "[UNK]"]
    assert said(made) == "Ann Lee"
    roles = "cls", *["question"] * 4, "paragraph", *["sentence"] * 2
    ids = [tokenizer().special_id(role) for role in roles]
    assert made.tokens.global_[:9].tolist() == [*ids, 0]
    sentence = made.structure.links[:, 0].tolist()
    assert sentence[:14] == [-1, 1, 2, 3, 4, *[6] * 9] and sentence[14] == 7
    several = squad.inputs.features(
        record(), tokenizer(), StructuredSizes(14, 16), **given
    )
    assert [said(x) for x in several].count("Ann Lee") == 2 and len(several) == 4
    with pytest.raises(ValueError, match="global_length is 7, expected 8 at least"):
        squad.inputs.features(record(), tokenizer(), StructuredSizes(32, 7), **given)


# --- decoding -------------------------------------------------------------------------


def outputs(windows, *sure):
    """Logits 0 but for (window, place of the first token, of the last, score)."""
    made = Outputs(*np.zeros((2, len(windows), len(windows[0].document)), np.float32))
    for window, first, last, score in sure:
        made.start[window, first] = made.end[window, last] = score / 2
    return made


def test_the_spans_of_a_window_are_those_of_a_plain_loop():
    [window] = windows_of()
    rng = np.random.default_rng(0)
    logits = Outputs(*rng.normal(size=(2, 1, 40)).astype(np.float32))
    options = squad.inputs.SpanOptions(**SHORT, max_answer_tokens=4, n_best=7)
    [got] = summarise(logits, [window], options=options)
    rest = np.flatnonzero(window.document >= 0)
    pairs = [(i, j) for i in rest for j in rest if i <= j < i + 4]
    start, end = np.float64(logits.start[0]), np.float64(logits.end[0])
    pairs = sorted(pairs, key=lambda p: -(start[p[0]] + end[p[1]]))[:7]
    want = [[start[i], end[j], *window.span_of(i, j)[1]] for i, j in pairs]
    np.testing.assert_allclose([x[:4] for x in got["spans"]], want)
    assert all(text == CONTEXT[a:b] for _, _, a, b, text in got["spans"])
    assert got["null"] == [logits.start[0, 0], logits.end[0, 0]]


def test_the_best_span_of_all_windows_is_the_answer():
    made = windows_of(sizes=SequenceSizes(16, 6))
    logits = outputs(made, (0, 6, 6, 4.0), (2, 7, 8, 10.0), (3, 9, 9, 6.0))
    [prediction] = task(n_best=3).answers(logits, made).values()
    _, (a, b) = made[2].span_of(7, 8)
    assert prediction["text"] == CONTEXT[a:b]
    assert len(prediction["nbest"]) == 3 and "null_odds" not in prediction
    total = sum(entry["probability"] for entry in prediction["nbest"])
    assert total == pytest.approx(1)
    assert len({entry["text"] for entry in prediction["nbest"]}) == 3


def test_no_answer_has_the_least_score_of_all_windows():
    made = windows_of(sizes=SequenceSizes(16, 6))
    null = [(i, 0, 0, 8.0 - i) for i in range(len(made))]
    logits, least = outputs(made, *null, (1, 7, 8, 3.0)), 9.0 - len(made)
    [answered] = (
        task(unanswerable=True, null_threshold=least).answers(logits, made).values()
    )
    assert answered["null_odds"] == least - 3.0 and answered["text"]
    below = least - 3.5
    [none] = (
        task(unanswerable=True, null_threshold=below).answers(logits, made).values()
    )
    assert none["text"] == "" and none["nbest"] == answered["nbest"]
    assert {x["text"] for x in none["nbest"]} > {""}
    # Where every question has an answer, that is not asked.
    [asked] = task(null_threshold=below).answers(logits, made).values()
    assert asked["text"] == answered["text"]


def test_files_have_the_names_and_forms_of_berts():
    made = windows_of()
    options = task(unanswerable=True)
    predictions = options.answers(outputs(made, (0, 12, 13, 9.0)), made)
    files = options.official({**predictions, "q2": options.no_answer})
    assert files["predictions.json"] == {"q1": "Ann Lee", "q2": ""}
    assert files[NULL_ODDS] == {"q1": -9.0, "q2": 0.0}
    best = files[N_BEST]["q1"][0]
    assert best["text"] == "Ann Lee" and best["start_logit"] == 4.5
    names = [*options.official_files(json.loads(json.dumps(files)))]
    assert names == ["predictions.json", N_BEST, NULL_ODDS]
    gold = [{"id": "q1", "answers": ["Ann Lee"]}, {"id": "q2", "answers": []}]
    assert options.score(gold, files).metrics["best_f1"] == 1.0
    assert options.thresholds(gold, files)["null_threshold"] == -9.0
    assert options.thresholds(gold[:1], files) is None


def test_a_reader_sees_where_the_answer_stands_and_the_others():
    made, options = windows_of(), task(unanswerable=True, n_best=2)
    logits = outputs(made, (0, 12, 13, 9.0))
    told = options.pool_explained(options.explain(logits, made, None))
    assert told.answer == "Ann Lee" and len(told.candidates) == 3
    [passage] = told.documents[0].passages
    assert [passage.text[a:b] for a, b in passage.marks] == ["Ann Lee"]
    assert passage.probability == told.candidates[0].probability > 0.9
    logits = outputs(made, (0, 0, 0, 9.0))
    told = options.pool_explained(options.explain(logits, made, None))
    assert told.answer == "" and told.candidates[0].text == "(no answer)"
    assert not any(p.marks for p in told.documents[0].passages)


# --- options --------------------------------------------------------------------------


def test_whether_there_may_be_no_answer_is_read_in_the_files(tmp_path):
    path = tmp_path / "a.jsonl"
    row = {"question": "x", "context": CONTEXT, "answer": "Ann Lee"}
    path.write_text(json.dumps(row) + "\n")
    assert not TASK.completed([path]).options.unanswerable
    with path.open("a") as file:
        file.write(json.dumps({**row, "answer": ""}) + "\n")
    found = TASK.completed([path])
    assert found.options.unanswerable and "null_odds" in found.no_answer


def test_columns_and_reading_of_spans_shape_no_input():
    sizes = SequenceSizes(384, 65)
    usual = TASK.shaping(sizes)
    assert usual == {"question_tokens": 64, "stride": 96, "input_length": 384}
    others = {"answer_column": "a", "null_threshold": -1.5, "unanswerable": True}
    assert TASK.with_options({**others, "n_best": 3}).shaping(sizes) == usual
    assert TASK.with_options({"stride": 128}).shaping(sizes)["stride"] == 128


@pytest.mark.parametrize(
    "option, said",
    [
        ({"stride": 0}, "stride is 0; expected 1 or more"),
        ({"n_best": 0}, "n_best is 0; expected 1 or more"),
        ({"null_threshold": float("nan")}, "null_threshold is nan"),
        ({"delimiter": "ab"}, "delimiter is 'ab'"),
    ],
)
def test_wrong_options_are_named(option, said):
    with pytest.raises(ValueError, match=said):
        TASK.with_options(option)


@pytest.mark.parametrize("name", ["dev-v1.1.slice.json", "dev-v2.0.slice.json.gz"])
def test_gold_labels_of_real_files_are_answers(name):
    path = require_shared("data/squad") / name
    model = open_tokenizer(require_shared("data/tokenizers/bert_base_uncased"))
    records = list(TASK.read([path], Problems()))[:150]
    found = TASK.with_options({"unanswerable": True})
    predictions, gold = {}, []
    for got in records:
        made = found.features(got, model, SequenceSizes(128, 65))
        predictions |= found.answers(found.gold_outputs(made), made)
        gold.append(found.gold(got))
        text = predictions[got.id]["text"]
        # Tokens of BERT are parts of words: a label is the answer or some more letters.
        assert (got.answers[0].text if got.answers else "") in text
    metrics = found.score(gold, found.official(predictions)).metrics
    assert metrics["f1"] > 0.99
