"""Runs on machines elsewhere: what is made there, started, watched and stopped."""
