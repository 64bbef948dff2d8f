"""Package metadata; tool settings live in pyproject.toml."""

from setuptools import find_packages, setup

CORE = [
    "jax>=0.10.2,<0.12",  # 0.10.2 is the last for Python 3.11; 0.11.x is tested too
    "flax>=0.12.8,<0.13",
    "optax>=0.2.8",
    "orbax-checkpoint>=0.12,<0.13",  # the v0 manager API is what etc_jax wraps
    "etils>=1.9",  # epath, the paths that orbax speaks
    "ml_collections>=1.1",
    "pyyaml>=6.0",  # manifests of launch
    "absl-py>=2.1",
    "numpy>=2.0",
    "scipy>=1.13",
    "sentencepiece>=0.2",
    "tokenizers>=0.21",
    "huggingface_hub>=0.23",  # its cache of models; tokenizers needs it too
    "safetensors>=0.5",
    "tqdm>=4.66",
]

PYARROW = "pyarrow>=18"
SKLEARN = "scikit-learn>=1.5"
WANDB = "wandb>=0.31"
# Scores of written texts, Moses's detokenizer, F1 of labels, and of entities.
METRICS = [
    "rouge-score>=0.1.2",
    "sacrebleu>=2.4",
    "sacremoses>=0.1.1",
    SKLEARN,
    "seqeval>=1.2.2",
]

EXTRAS = {
    # nupunkt splits sentences without downloading a model.
    "data": ["nupunkt>=0.6"],
    "seqio": [
        "seqio>=0.0.20",
        "tensorflow-datasets>=4.9.9",
        "importlib_resources>=6.0",  # tensorflow-datasets uses and does not declare it
        "tensorflow>=2.21",
    ],
    "tensorboard": ["tensorboardX>=2.6"],
    "wandb": [WANDB],
    "metrics": METRICS,
    # Clusters of similar documents, for `etc-jax corpora link`.
    "corpora": [SKLEARN],
    # Parquet and Arrow files, as `datasets` has them.
    "parquet": [PYARROW],
    # Runs in Google Cloud Storage; google-cloud-storage comes with it.
    "gcs": ["gcsfs>=2026.10"],
    # Data prepared by many machines; the same version on all of them.
    "cluster": ["distributed>=2026.8"],
    "plot": ["matplotlib>=3.9"],
    "parity": [
        "torch>=2.6",
        "transformers>=5.0",
        WANDB,
        "gcp-storage-emulator>=2026.7",
        # Schemas of what `etc-jax launch` makes.
        "kubernetes-validate>=1.37",
        "kubeflow-trainer-api>=2.3",
    ],
    "tpu_aot": ["jax[tpu]"],  # brings the libtpu that fits this jax
    "cuda": ["jax[cuda13]"],
    "tpu": ["jax[tpu]"],
    "test": [
        "pytest>=8.3",
        "pytest-xdist>=3.6",
        "hypothesis>=6.120",
        "matplotlib>=3.9",
        "selenium>=4.51",
        PYARROW,
        *METRICS,
    ],
    "dev": ["ruff>=0.14", "pre-commit>=4.0"],
}

setup(
    name="etc_jax",
    version="0.1.0",
    description="Long-document transformers in JAX: pre-train, convert, fine-tune.",
    license="Apache-2.0",
    python_requires=">=3.11",
    # The library, its data sets and its configs: one package.
    packages=find_packages(include=["etc_jax", "etc_jax.*"]),
    package_data={"etc_jax": ["**/*.txt", "papers/*.json"]},
    entry_points={"console_scripts": ["etc-jax = etc_jax.__main__:main"]},
    install_requires=CORE,
    extras_require=EXTRAS,
)
