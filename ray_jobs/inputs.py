"""The identity of what a job reads, whether a file or a dataset."""

from __future__ import annotations

from biomodels import storage
from biomodels.artifacts import Artifact
from biomodels.errors import InputError


def input_digest(uri: str, role: str) -> str:
    """Return the SHA-256 of a file, or the digest of an artifact.

    Args:
        uri: what is read.
        role: the option that named it, for the message.

    Raises:
        InputError: the file cannot be read.
        ArtifactError: it is neither a file nor a finished artifact.
    """
    if not storage.is_file(uri):
        return Artifact.open(uri).digest
    try:
        return storage.sha256(uri)
    except OSError as error:
        raise InputError.at(uri, None, f"cannot be read ({error})", f"check --{role}") from error
