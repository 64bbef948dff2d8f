import jax
import numpy as np
import pytest

from etc_jax.conversion.engine import (
    TRANSPOSE,
    ConversionError,
    Row,
    export_params,
    flatten,
    import_params,
    split_first,
    split_last,
    unflatten,
)
from etc_jax.conversion.renaming import LayerRuns

TABLE = (
    Row("embed.weight", "embedder/embedding"),
    Row(
        "layer.{layer}.{kind:query|key}.weight",
        "layers/{kind}/kernel",
        TRANSPOSE,
    ),
    Row("layer.{layer}.{kind:query|key}.bias", "layers/{kind}/bias", split_last(2)),
    Row("top.{layer}.weight", "top_{layer}/kernel", split_first(3)),
)


def make_source():
    rng = np.random.default_rng(0)
    source = {"embed.weight": rng.normal(size=(5, 4))}
    for i in (1, 0):
        for kind in ("query", "key"):
            source[f"layer.{i}.{kind}.weight"] = rng.normal(size=(6, 4))
            source[f"layer.{i}.{kind}.bias"] = rng.normal(size=(6,))
        source[f"top.{i}.weight"] = rng.normal(size=(6, 2))
    return {k: v.astype(np.float32) for k, v in source.items()}


def make_abstract(**changes):
    shapes = {
        "embedder/embedding": (5, 4),
        "layers/query/kernel": (2, 4, 6),
        "layers/query/bias": (2, 2, 3),
        "layers/key/kernel": (2, 4, 6),
        "layers/key/bias": (2, 2, 3),
        "top_0/kernel": (3, 2, 2),
        "top_1/kernel": (3, 2, 2),
    }
    return unflatten(
        {
            k: jax.ShapeDtypeStruct(v, np.float32)
            for k, v in (shapes | changes).items()
            if v is not None
        }
    )


def test_layers_are_stacked_in_order_and_transformed():
    source = make_source()
    params, report = import_params(TABLE, source, make_abstract())
    kernel = params["layers"]["query"]["kernel"]
    np.testing.assert_array_equal(kernel[1], source["layer.1.query.weight"].T)
    bias = params["layers"]["key"]["bias"]
    np.testing.assert_array_equal(bias[0, 1], source["layer.0.key.bias"][3:])
    np.testing.assert_array_equal(
        params["top_1"]["kernel"][2, 1], source["top.1.weight"][5]
    )
    assert report.loaded["layers/query/bias"] == (
        "layer.0.query.bias",
        "layer.1.query.bias",
    )
    assert report.missing == report.unused == ()


def test_the_round_trip_is_exact():
    source = make_source()
    params, _ = import_params(TABLE, source, make_abstract())
    exported = export_params(TABLE, params)
    assert set(exported) == set(source)
    for name, value in source.items():
        np.testing.assert_array_equal(exported[name], value)


def test_every_problem_is_in_one_error():
    source = make_source()
    del source["layer.1.key.bias"]
    del source["embed.weight"]
    source["unknown"] = np.zeros(3)
    source["top.0.weight"] = np.zeros((7, 2), np.float32)
    source["layer.2.query.bias"] = np.zeros(6, np.float32)
    abstract = make_abstract(**{"layers/query/kernel": (2, 4, 7)})
    with pytest.raises(ConversionError, match="6 conversion problems") as caught:
        import_params(TABLE, source, abstract)
    text = str(caught.value)
    for part in (
        "embed.weight (for embedder/embedding): missing",
        "unknown: unused",
        "top_0/kernel: top.0.weight of shape (7, 2) cannot be laid out",
        "layers/query/kernel: layer.0.query.weight of shape (6, 4) gives (4, 6), "
        "expected (4, 7)",
        "layers/key/bias: the model has 2 layers; the checkpoint lacks "
        "layer.1.key.bias",
        "layers/query/bias: the model has 2 layers; beyond them are layer.2.query.bias",
    ):
        assert part in text


def test_what_the_caller_allows_is_reported_and_left_out():
    source = make_source()
    del source["embed.weight"]
    source["head.weight"] = np.zeros(3)
    params, report = import_params(
        TABLE,
        source,
        make_abstract(),
        allow_missing=["embedder/.*"],
        allow_unused=[r"head\..*"],
    )
    assert report.missing == ("embedder/embedding",)
    assert report.unused == ("head.weight",)
    assert "embedder" not in params


def test_an_allowance_is_for_whole_names():
    source = make_source() | {"head.weight": np.zeros(3)}
    with pytest.raises(ConversionError, match="head.weight: unused"):
        import_params(TABLE, source, make_abstract(), allow_unused=["head"])


def test_one_source_may_feed_two_targets():
    table = (Row("w", "a/kernel"), Row("w", "b/kernel"))
    value = np.arange(3, dtype=np.float32)
    leaf = jax.ShapeDtypeStruct((3,), np.float32)
    abstract = {"a": {"kernel": leaf}, "b": {"kernel": leaf}}
    params, _ = import_params(table, {"w": value}, abstract)
    np.testing.assert_array_equal(params["a"]["kernel"], params["b"]["kernel"])
    np.testing.assert_array_equal(export_params(table, params)["w"], value)
    params["b"]["kernel"] = value + 1
    with pytest.raises(ConversionError, match="w: b/kernel and another parameter"):
        export_params(table, params)


def test_two_sources_of_one_target_are_refused():
    table = (Row("a", "x"), Row("b", "x"))
    leaf = {"x": jax.ShapeDtypeStruct((), np.float32)}
    zero = np.zeros((), np.float32)
    with pytest.raises(ConversionError, match="x: both a and b claim it"):
        import_params(table, {"a": zero, "b": zero}, leaf)


def test_floats_are_cast_and_integers_refused():
    leaf = {"x": jax.ShapeDtypeStruct((2,), np.float32)}
    half = np.array([1.5, 2], np.float16)
    params, _ = import_params((Row("x", "x"),), {"x": half}, leaf)
    assert params["x"].dtype == np.float32
    wide = jax.numpy.bfloat16(1.5) * np.ones(2, jax.numpy.bfloat16)
    params, _ = import_params((Row("x", "x"),), {"x": wide}, leaf)
    np.testing.assert_array_equal(params["x"], [1.5, 1.5])
    with pytest.raises(ConversionError, match="dtype int64 of x, expected float32"):
        import_params((Row("x", "x"),), {"x": np.array([1, 2])}, leaf)


def test_exporting_an_unknown_parameter_is_an_error():
    with pytest.raises(ConversionError, match="new/kernel: no row of the table"):
        export_params(TABLE, {"new": {"kernel": np.zeros(2)}})


def test_flatten_and_unflatten_are_inverse():
    tree = {"a": {"b": 1, "c": {"d": 2}}, "e": 3}
    assert flatten(tree) == {"a/b": 1, "a/c/d": 2, "e": 3}
    assert unflatten(flatten(tree)) == tree


def test_an_array_of_several_parameters_is_taken_apart_and_joined():
    table = [
        Row("qkv", f"{kind}/kernel", TRANSPOSE, (i, 3)) for i, kind in enumerate("qkv")
    ]
    source = {"qkv": np.arange(30, dtype=np.float32).reshape(6, 5)}
    leaf = jax.ShapeDtypeStruct((5, 2), np.float32)
    abstract = {kind: {"kernel": leaf} for kind in "qkv"}
    params, report = import_params(table, source, abstract)
    np.testing.assert_array_equal(params["k"]["kernel"], source["qkv"][2:4].T)
    assert set(report.loaded.values()) == {("qkv",)}
    exported = export_params(table, params)
    np.testing.assert_array_equal(exported["qkv"], source["qkv"])
    with pytest.raises(ConversionError, match=r"qkv: no parameter is part \[1\] of 3"):
        export_params(table, {k: x for k, x in params.items() if k != "k"})
    short = {"qkv": source["qkv"][:5]}
    with pytest.raises(ConversionError, match="cannot be laid out"):
        import_params(table, short, abstract)


def test_layers_before_the_runs_keep_their_names():
    runs = LayerRuns("layers", 3, first=1)
    names = [f"layers.{i}.wo" for i in range(7)]
    split = [runs.split(name) for name in names]
    assert split[:3] == ["layers.0.wo", "layers.run0.0.wo", "layers.run1.0.wo"]
    assert split[4] == "layers.run0.1.wo"
    assert [runs.join(name) for name in split] == names
