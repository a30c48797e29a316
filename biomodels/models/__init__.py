"""Models: encoders with pooling, and what identifies them."""
