"""What every room may use: names, paths, the terminal."""
