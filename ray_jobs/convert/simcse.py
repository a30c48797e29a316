"""The job `convert simcse`: a checkpoint of SimCSE to Hugging Face's or sentence-transformers' layout, or back."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from biomodels.errors import InputError
from biomodels.sentences.poolers import POOLERS, Pooler, pooler_of
from ray_jobs.config import JobConfig

EXAMPLE = "python -m ray_jobs convert simcse result/my-sup-simcse --to huggingface --pooler cls --out models/simcse"


class Config(JobConfig):
    """Options of the job."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"checkpoint"}

    checkpoint: tuple[str, ...] = Field(
        min_length=1,
        max_length=1,
        description="directory of the checkpoint, in any of the layouts",
        json_schema_extra={"positional": True},
    )
    to: Literal["huggingface", "sentence-transformers", "simcse"] = Field(description="layout to write")
    out: str = Field(description="directory to write")
    pooler: Pooler | None = Field(
        None, description="how the model pools; needed where the checkpoint does not record it, as SimCSE's own do not"
    )
    max_length: int | None = Field(None, ge=3, description="tokens per text; what is recorded, else 128")


def main(config: Config) -> Path:
    """Convert a checkpoint of SimCSE; tensors go through bit by bit, and the pooler is recorded.

    Of `pytorch_model.bin` only tensors are read; a file that holds anything else is refused, and nothing of it is run.
    """
    from biomodels.sentences.checkpoints import read_checkpoint, write_checkpoint

    source, out = Path(config.checkpoint[0]).expanduser(), Path(config.out).expanduser()
    if not source.is_dir():
        raise InputError(f"{source}: there is no such directory; give the one that holds config.json")
    pooling = POOLERS[config.pooler] if config.pooler else None
    checkpoint = read_checkpoint(source, pooling=pooling, max_length=config.max_length)
    write_checkpoint(checkpoint, config.to, out)
    print(
        f"{checkpoint.layout} → {config.to}: {len(checkpoint.tensors) + len(checkpoint.rest)} tensors, "
        f"pooler {pooler_of(checkpoint.spec.pooling)}: {out}"
    )
    return out
