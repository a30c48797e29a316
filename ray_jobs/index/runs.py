"""What a new version of an index takes over from the `run.json` of the one before."""

from __future__ import annotations

from biomodels import storage


def carried(index: str) -> dict[str, str]:
    """Return where the model of an index was."""
    path = storage.join(index, "run.json")
    record = storage.read_json(path) if storage.exists(path) else {}
    return {"model": record["model"]} if "model" in record else {}
