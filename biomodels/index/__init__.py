"""Sharded FAISS IVF: choose a factory, train once, fill shards, measure recall, search as if it were one index."""
