"""Fast batch encoding of texts."""
