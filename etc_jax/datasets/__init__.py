"""What a data set is to the library: records, official files, score, inputs."""
