"""Texts from texts: SLED, BART-LS, denoising."""
