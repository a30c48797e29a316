"""Jobs that measure a model on a benchmark."""
