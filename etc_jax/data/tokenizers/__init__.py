"""Tokenizers: text to ids and back, over the vocabularies that models come with."""
