"""What every job's configuration shares."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _split(value: Any) -> Any:
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


CommaList = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Several values: `a,b` on the command line, a list in YAML."""


class JobConfig(BaseModel):
    """Base of the jobs' configurations: immutable, and unknown keys are errors.

    Each field is one option of the job's command; its description is the option's help.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", str_min_length=1, allow_inf_nan=False)

    placement: ClassVar[frozenset[str]] = frozenset({"out", "num_cpus"})
    """Fields that do not change the output's bytes: paths, numbers of workers, block sizes. Subclasses add theirs."""

    num_cpus: int | None = Field(
        default=None, ge=1, description="logical CPUs of the local Ray; by default twice the cores, at least 4"
    )

    def byte_config(self) -> dict[str, Any]:
        """Return the fields that change the bytes of the output: what the config digest covers."""
        return self.model_dump(mode="json", exclude=set(self.placement))
