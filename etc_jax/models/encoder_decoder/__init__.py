"""Encoder-decoders: BART, LED, T5, LongT5."""
