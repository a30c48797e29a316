"""Job `shard threads`: a Gene2Phenotype export becomes the dataset `threads`, one row per entry with its text."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, model_validator

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, canonical_json, digest_bytes
from biomodels.errors import InputError
from biomodels.schemas import SCHEMA_VERSION, THREADS
from ray_jobs.config import CommaList, JobConfig

if TYPE_CHECKING:
    from biomodels.literature.g2p import Entry
    from biomodels.literature.threads import Knowledge, Renderer

EXAMPLE = "python -m ray_jobs shard threads --g2p G2P_DD.csv --out data/threads"
RENDERER_FILE = "renderer.json"


class Config(JobConfig):
    """Options of `shard threads`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {"g2p", "genes", "hpo", "mondo"}

    g2p: str = Field(description="CSV export of a Gene2Phenotype panel, plain or gzip")
    out: str = Field(description="directory of the dataset")
    rendering: Literal["flat", "genename", "context"] = Field(
        "flat", description="text of a thread: 15 fields; these and the gene's full name; or a line per known thing"
    )
    layout: Literal["auto", "2025-01", "2021"] = Field(
        "auto", description="layout of the export; those without G2P ids are mapped only when named here"
    )
    float_fields: CommaList = Field(
        ("gene_mim",), description="fields that end in .0, since pandas reads their columns as floats"
    )
    genes: str | None = Field(None, description="gene table of HGNC or NCBI, for --rendering genename")
    hpo: str | None = Field(None, description="hp.obo, for --rendering context: names of phenotypes")
    mondo: str | None = Field(None, description="mondo.obo, for --rendering context: synonyms and definitions")

    @model_validator(mode="after")
    def _has_what_it_renders(self) -> Self:
        from biomodels.schemas import THREAD_FIELDS

        needed = {"flat": set(), "genename": {"genes"}, "context": {"hpo", "mondo"}}[self.rendering]
        given = {role for role in ("genes", "hpo", "mondo") if getattr(self, role)}
        if needed != given:
            shown = " and ".join(f"--{role}" for role in sorted(needed)) or "none of --genes, --hpo, --mondo"
            raise ValueError(f"--rendering {self.rendering} needs {shown}")
        if unknown := set(self.float_fields) - set(THREAD_FIELDS):
            raise ValueError(f"--float-fields: there is no field {', '.join(sorted(unknown))}")
        return self


def main(config: Config) -> Artifact:
    """Read a Gene2Phenotype export and render its entries.

    A column that is missing or has another name stops the job, and so does an id that occurs twice: a thread is the
    same bytes in training and in use, or its renderer has another digest. The rendering is written down in
    renderer.json.
    """
    import pyarrow as pa

    from biomodels.literature.g2p import read_g2p

    out = storage.absolute(config.out)
    roles = [role for role in ("g2p", "genes", "hpo", "mondo") if getattr(config, role)]
    inputs = {role: _digest(getattr(config, role), role) for role in roles}
    builder = ArtifactBuilder.begin(
        out, "threads", config=config.byte_config(), inputs=inputs, schema_version=SCHEMA_VERSION
    )
    if builder.finished is None:
        entries = read_g2p(config.g2p, config.layout)
        renderer = _renderer(config, inputs)
        knowledge = _knowledge(config)
        rows = [_row(entry, renderer, knowledge) for entry in entries]
        builder.publish_table("part-00000.parquet", pa.Table.from_pylist(rows, schema=THREADS))
        builder.publish(RENDERER_FILE, lambda local: _write(local, canonical_json(renderer.model_dump(mode="json"))))
        builder.commit(
            {
                "threads": len(entries),
                "genes": len({entry.values["hgnc_id"] for entry in entries}),
                "without_gene": sum(entry.values["hgnc_id"] is None for entry in entries),
                "renderer": renderer.digest,
                "rendering": config.rendering,
                "unreadable_publications": sum(entry.unreadable_publications for entry in entries),
            }
        )
    threads = Artifact.open(out, "threads")
    print(_summary(threads))
    return threads


def _digest(uri: str, role: str) -> str:
    try:
        return storage.sha256(uri)
    except OSError as error:
        raise InputError.at(uri, None, f"cannot be read ({error})", f"check --{role}") from error


def _renderer(config: Config, inputs: dict[str, str]) -> Renderer:
    from biomodels.literature.threads import Renderer

    sources = {role: digest for role, digest in inputs.items() if role != "g2p"}
    return Renderer(rendering=config.rendering, float_fields=config.float_fields, sources=sources)


def _knowledge(config: Config) -> Knowledge:
    """Read what the rendering needs beyond the export."""
    from biomodels.literature import ontology
    from biomodels.literature.genes import read_genes
    from biomodels.literature.threads import Knowledge

    genes = read_genes([config.genes]) if config.genes else {}
    return Knowledge(
        gene_names={hgnc_id: gene.name for hgnc_id, gene in genes.items()},
        phenotype_names=ontology.labels(config.hpo) if config.hpo else {},
        disease_synonyms=ontology.exact_synonyms(config.mondo) if config.mondo else {},
        disease_definitions=ontology.definitions(config.mondo) if config.mondo else {},
    )


def _row(entry: Entry, renderer: Renderer, knowledge: Knowledge) -> dict[str, object]:
    text = renderer.render(entry, knowledge)
    return {
        **entry.values,
        "text": text,
        "renderer": renderer.digest,
        "text_digest": digest_bytes(text.encode()),
        "phenotypes": entry.phenotypes,
        "publications": entry.publications,
        "panels": entry.panels,
    }


def _write(local: str, content: bytes) -> None:
    with open(local, "wb") as sink:
        sink.write(content)


def _summary(threads: Artifact) -> str:
    """Return what was made, for people."""
    facts = threads.facts
    return (
        f"threads {facts['threads']:>8,}   of {facts['genes']:,} genes, rendered {facts['rendering']}, "
        f"renderer {facts['renderer']}"
    )
