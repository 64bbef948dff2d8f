"""Official metrics, on hand-made values and on golden cases."""
