"""What learns a data set: model, head and loss."""
