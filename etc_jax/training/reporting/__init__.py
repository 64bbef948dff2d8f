"""What a run tells: metrics, progress, curves, profiles."""
