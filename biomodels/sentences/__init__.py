"""Sentences: readers of training sets and of benchmarks, the index of the search tool, checkpoints of SimCSE."""
