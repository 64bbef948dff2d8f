"""Batches of ETC's pre-training: masked words and masked sentences."""
