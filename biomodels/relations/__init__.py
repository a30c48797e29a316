"""Relation extraction: corpus readers, entity markers and blinding, triples, folds, leakage, and a baseline."""
