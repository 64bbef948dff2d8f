"""Flat encoders: BERT, RoBERTa, Longformer, BigBird."""
