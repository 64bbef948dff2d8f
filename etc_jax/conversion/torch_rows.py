"""Modules of PyTorch as rows of a table of names, and what others call activations."""

from etc_jax.conversion.engine import Row

# Names of Hugging Face -> of `etc_jax.layers.common`.
ACTIVATIONS = {
    "gelu": "gelu_exact",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
    "tanh": "tanh",
    "linear": "linear",
    # Other names of the same functions.
    "gelu_python": "gelu_exact",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
}


def linear(source: str, target: str, kernel, bias=None) -> tuple[Row, Row]:
    """Rows of a torch Linear, whose weight is `[out, in]`."""
    bias = (bias,) if bias else ()
    return (
        Row(f"{source}.weight", f"{target}/kernel", kernel),
        Row(f"{source}.bias", f"{target}/bias", *bias),
    )


def norm(source: str, target: str) -> tuple[Row, Row]:
    return (
        Row(f"{source}.weight", f"{target}/scale"),
        Row(f"{source}.bias", f"{target}/bias"),
    )
