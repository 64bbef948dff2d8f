"""What a run will need and compile to, checked before its first step."""
