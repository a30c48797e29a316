"""Jobs that turn models of other systems into ours, and back."""
