"""From a mention to ranked concepts."""
