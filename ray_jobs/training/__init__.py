"""The training loop: reading, the DeepSpeed step, gathering across ranks, checkpoints."""
