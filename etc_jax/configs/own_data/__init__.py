"""Fine-tuning on files of one's own."""
