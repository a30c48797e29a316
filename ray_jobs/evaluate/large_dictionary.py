"""Dictionaries too large for exact search: their names are embedded and indexed by the jobs that serve the linker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from biomodels import schemas
from biomodels.artifacts import ArtifactBuilder
from biomodels.terminology.hashing import hash_strings
from biomodels.terminology.normalise import Normaliser

if TYPE_CHECKING:
    from biomodels.evaluation.entity_linking.rankers import Indexed
    from biomodels.evaluation.exact import Metric
    from ray_jobs.evaluate.benchmark import Loaded
    from ray_jobs.evaluate.linking import Config

PART_ROWS = 1 << 18
_KEPT = Normaliser(lowercase=False)  # the protocol has lowered the names, if it does


def indexed(config: Config, loaded: Loaded, names: Sequence[str], metric: Metric, work: Path) -> Indexed:
    """Build the index of a dictionary's names, or go on with it, and return its ranker.

    Args:
        config: of the evaluation.
        loaded: the model.
        names: distinct names.
        metric: of the index.
        work: what was built here before, for the same names and model, is used again.
    """
    from biomodels.evaluation.entity_linking.rankers import Indexed
    from biomodels.index.sharded import ShardedIndex
    from ray_jobs import embed, index
    from ray_jobs.session import session

    model, encoder = loaded
    listed = _write_names(names, work)
    folder = work / "indexes" / f"{encoder.digest[:16]}-{config.precision}-{Path(listed).name}"
    with session(config.num_cpus):
        embed.main(
            embed.Config(
                model=model.name,
                names=listed,
                out=str(folder / "embeddings"),
                precision=config.precision,
                pooling=model.pooling,
                max_length=encoder.spec.max_length,
                normalise=False,
            )
        )
        target = str(folder / metric)
        index.main(index.Config(embeddings=str(folder / "embeddings"), out=target, metric=metric))
    return Indexed(ShardedIndex.open(target), names, encoder.encode)


def _write_names(names: Sequence[str], work: Path) -> str:
    """Write a `names` artifact in which each name is a concept of its own; its directory is named by its content."""
    import hashlib

    digest = hashlib.blake2b(digest_size=8)
    for name in names:
        digest.update(name.encode() + b"\n")
    out = str(work / "names" / digest.hexdigest())
    builder = ArtifactBuilder.begin(out, "names", config={"names": digest.hexdigest()}, inputs={})
    if not builder.finished:
        for number, table in enumerate(_tables(names)):
            builder.publish_table(f"part-{number:05d}.parquet", table)
        builder.commit({"normaliser": _KEPT.name})
    return out


def _tables(names: Sequence[str]) -> Iterator[pa.Table]:
    for start in range(0, len(names), PART_ROWS):
        chunk = names[start : start + PART_ROWS]
        rows = len(chunk)
        columns = {
            "concept_id": [str(start + i) for i in range(rows)],
            "name_id": hash_strings(map(_KEPT, chunk)),
            "name": list(chunk),
            "language": ["und"] * rows,
            "source": [""] * rows,
            "term_type": [""] * rows,
            "preferred": [True] * rows,
            "semantic_types": [[]] * rows,
        }
        yield pa.table(columns, schema=schemas.NAMES)
