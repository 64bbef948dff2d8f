"""seqio and tensorflow-datasets: the only files that import them."""
