"""The errors that a user can cause or mend.

A message says what was wrong, where (file and line, field, or parameter), and what to do. The command line prints it
as one line and exits with code 2; the service answers problem JSON (RFC 9457) with the class's `status` and `title`.
Anything else that escapes is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

import errno
from typing import ClassVar

_REMEDIES = {
    errno.ENOSPC: "make room and run the same command again",
    errno.EDQUOT: "make room and run the same command again",
    errno.EACCES: "choose a place where you may write",
    errno.EPERM: "choose a place where you may write",
    errno.EROFS: "choose a place where you may write",
    errno.ENOTDIR: "a part of the path is a file; choose another place",
    errno.EEXIST: "a file is in the way; choose another place",
    errno.EISDIR: "a directory is in the way; choose another place",
}


class BiomodelsError(Exception):
    """Base of all errors that a user can act on."""

    status: ClassVar[int] = 400
    title: ClassVar[str] = "Bad request"


class UsageError(BiomodelsError):
    """A parameter has a value that cannot work."""

    title = "Bad parameter"


class InputError(BiomodelsError):
    """An input file or record cannot be used."""

    status = 422
    title = "Bad input"

    @classmethod
    def at(cls, file: str, line: int | None, problem: str, remedy: str = "") -> InputError:
        """Build the usual message, `FILE:LINE: problem; remedy`."""
        place = f"{file}:{line}" if line is not None else file
        return cls(f"{place}: {problem}" + (f"; {remedy}" if remedy else ""))


class RejectRateError(InputError):
    """More input rows were malformed than `max_reject_rate` allows."""


class ArtifactError(BiomodelsError):
    """An artifact is missing, unfinished, damaged, or made from something else."""

    status = 409
    title = "Unusable artifact"


class CompatibilityError(ArtifactError):
    """Two artifacts do not belong together, such as an index and a model that did not make it."""

    title = "Incompatible artifacts"


def storage_error(error: OSError) -> BiomodelsError | None:
    """Return what a user can mend behind an error of the operating system, such as a full disk; else None."""
    remedy = _REMEDIES.get(error.errno or 0)
    if remedy is None:
        return None
    place = f"{error.filename}: " if error.filename else ""
    return UsageError(f"{place}{error.strerror or error}; {remedy}")
