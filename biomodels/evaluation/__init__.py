"""Measures of what a model is worth: pure functions of rankings, and the protocols that produce the rankings."""
