"""Names of concepts: reading terminologies, normalising names, and making synonym pairs."""
