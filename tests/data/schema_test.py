"""Schemas: what is declared once is checked, filled and stored for every format."""

import dataclasses
import re
import types

import numpy as np
import pytest
from window_samples import make_tokenizer
from written_windows import write_windows

from etc_jax.data.schema import Field, Placed, Schema, arrays_of, at, flat, stacked
from etc_jax.data.windows.cache import WindowReader
from etc_jax.data.windows.window import Window
from etc_jax.data.windows.writing import WindowSource
from etc_jax.formats import sequence, structured, text_to_text
from etc_jax.structure import Structure

MODEL = types.SimpleNamespace(vocab_size=100, num_types=2)


@dataclasses.dataclass(frozen=True)
class Summary(Window):
    """A text with one that says it in short."""

    schema = text_to_text.SCHEMA
    axes = {"importance": Placed("input", -1)}

    tokens: np.ndarray
    target: np.ndarray

    def arrays(self):
        n, m = len(self.tokens), len(self.target)
        return {
            "input_tokens": np.pad(self.tokens, (0, 12 - n)),
            "input_example_ids": np.pad(np.ones(n, np.int32), (0, 12 - n)),
            "target_tokens": np.pad(self.target, (0, 6 - m)),
            "target_weights": np.pad(np.ones(m, np.float32), (0, 6 - m)),
        }


def summary(n, m, name="a"):
    return Summary(
        record=types.SimpleNamespace(id=name),
        labels={},
        unusable=None,
        extra={"importance": np.pad(np.arange(n), (0, 12 - n), constant_values=-1)},
        tokens=np.arange(1, n + 1, dtype=np.int32),
        target=np.arange(50, 50 + m, dtype=np.int32),
    )


def test_texts_to_be_written_go_through_a_cache(tmp_path):
    made = [summary(12, 2), summary(5, 6), summary(7, 0)]
    sizes = {"input_length": 12, "target_length": 6}
    source = WindowSource("news", "text_to_text", sizes)
    cache = write_windows(made, make_tokenizer(), tmp_path / "c", source)
    assert cache.format == "text_to_text"
    ends = {
        axis: int(cache.arrays[f"{axis}_offsets"][-1]) for axis in ("input", "target")
    }
    assert ends == {"input": 24, "target": 8}
    assert cache.longest == {"input": 12, "target": 6}
    # A window without a target has no run of weights.
    assert cache.arrays["target_run_lengths"].tolist() == [2, 6]
    lengths = {"input": 16, "target": 8}
    order = {"batch_size": 3, "seed": 0, "evaluation": True}
    batch = WindowReader([cache], lengths=lengths, **order).batch_at(0)
    want = stacked(made) | {"weights": np.ones(3, np.float32)}
    assert batch.keys() == want.keys()
    for name, array in want.items():
        assert batch[name].dtype == array.dtype
        held = batch[name][:, : array.shape[1]] if array.ndim > 1 else batch[name]
        np.testing.assert_array_equal(held, array, err_msg=name)
    assert (batch["importance"][:, 12:] == -1).all()
    assert batch["target_weights"][:, 6:].sum() == 0


def test_tokens_of_a_row_are_those_of_the_text():
    data = types.SimpleNamespace(
        long_length=512, global_length=64, input_length=100, target_length=20
    )
    assert structured.SCHEMA.tokens_per_row(data) == 512
    assert text_to_text.SCHEMA.tokens_per_row(data) == 120
    assert text_to_text.SCHEMA.lengths_of(data) == {"input": 100, "target": 20}


@pytest.mark.parametrize("schema", [sequence.SCHEMA, structured.SCHEMA])
def test_the_smallest_batch_is_one_without_a_problem(schema):
    batch = schema.smallest()
    assert schema.problems(batch, MODEL) == []
    assert (
        schema.problems(schema.smallest(**dict.fromkeys(schema.text, 7)), MODEL) == []
    )
    assert set(flat(batch)) == {
        name for name in schema.fields if not name.startswith("structure.")
    } | ({"structure"} if schema is structured.SCHEMA else set())
    assert at(batch, "structure.parent") is None


def test_arrays_below_a_group_are_its_object():
    made = structured.SCHEMA.empty(2, {"long": 8, "global": 3})
    batch = structured.SCHEMA.batch({**made, "labels.kind": np.zeros(2)})
    assert isinstance(batch["structure"], Structure)
    assert at(batch, "structure.links").shape == (2, 8, 1)
    assert (at(batch, "structure.parent") == -1).all()
    assert at(batch, "labels.kind").shape == (2,) and at(batch, "labels.no") is None


@pytest.mark.parametrize(
    "change, message",
    [
        (
            {"types": None},
            "the batch lacks types; it has example_ids, global_index, to",
        ),
        (
            {"tokens": np.full((2, 6), 100)},
            "from 100 to 100, but model.vocab_size is 10",
        ),
        (
            {"tokens": np.full((2, 6), -100)},
            "from -100 to -100, but model.vocab_size is 100; tokenizer",
        ),
        ({"types": np.full((2, 6), 2)}, "from 2 to 2, but model.num_types is 2"),
        ({"global_index": np.full((2, 3), 6)}, "expected -1 for none, or 0 to 5"),
        ({"global_index": np.full((2, 3), -2)}, "from -2 to -2, expected -1 for none"),
        (
            {"types": np.zeros((2, 5), int)},
            "types has 5 positions along input, but tokens has 6",
        ),
        (
            {"example_ids": np.ones((3, 6), int)},
            "example_ids has 3 rows, but tokens has 2",
        ),
    ],
)
def test_what_does_not_fit_is_named(change, message):
    good = {k: np.repeat(x, 2, 0) for k, x in sequence.SCHEMA.smallest(input=6).items()}
    good["global_index"] = np.array([[0, 5, -1]] * 2)
    assert sequence.SCHEMA.problems(good, MODEL) == []
    batch = {k: x for k, x in {**good, **change}.items() if x is not None}
    [said] = sequence.SCHEMA.problems(batch, MODEL)
    assert re.search(message, said), said


def test_a_schema_is_saved_as_json():
    window = summary(3, 2)
    schema = window.schema.of(window)
    assert schema.fields["importance"] == Field("input", "int64", padding=-1)
    assert Schema.from_json(schema.to_json()) == schema
    saved = schema.to_json()
    saved["fields"]["importance"]["axis"] = "inputt"
    with pytest.raises(ValueError, match="importance runs along 'inputt'"):
        Schema.from_json(saved)
    assert arrays_of(window).keys() == schema.fields.keys()


def test_further_inputs_have_a_field_and_an_axis():
    schema = sequence.SCHEMA.extended(
        {"marked": Field(shape=(1,), padding=-1)}, positions={"marked": "input"}
    )
    assert schema.smallest()["marked"].shape == (1, 1)
    wrong = {**schema.smallest(), "marked": np.array([[1]])}
    [said] = schema.problems(wrong, MODEL)
    assert said.startswith("marked holds positions from 1 to 1, expected -1 for none")
