"""Where jobs run: a file each."""
