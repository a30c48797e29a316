"""Biomedical text-mining models: terminologies, training recipes, encoders, indexes and linking.

Everything here runs in one process and needs no cluster. `ray_jobs` spreads it over machines, `serving` puts it
behind HTTP. Importing this package loads neither torch nor faiss: heavy libraries are imported where they are used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from biomodels.simcse import SimCSE

__all__ = ["SimCSE", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "SimCSE":
        from biomodels.simcse import SimCSE

        return SimCSE
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
