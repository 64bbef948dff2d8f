"""Bytes as tokens: files, images, and the duplication task."""
