"""Job `shard relations`: a relation corpus becomes the dataset `relations`, with a report of its irregularities."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from biomodels import storage
from biomodels.artifacts import Artifact, ArtifactBuilder, digest_json
from biomodels.errors import InputError
from biomodels.schemas import SCHEMA_VERSION
from ray_jobs.config import JobConfig

EXAMPLE = "python -m ray_jobs shard relations --format ddi2013 DDICorpus/Train --out data/ddi_train"

Format = Literal["ddi2013", "ppi-xml", "bnl-json"]


class Config(JobConfig):
    """Options of `shard relations`."""

    placement: ClassVar[frozenset[str]] = JobConfig.placement | {
        *("paths", "documents", "without_documents", "allow_one_class", "max_reject_rate"),
    }

    paths: tuple[str, ...] = Field(
        min_length=1,
        description="files of the corpus, or directories that are searched for them",
        json_schema_extra={"positional": True},
    )
    format: Format = Field(
        description="ddi2013: DDIExtraction-2013 XML; ppi-xml: the unified XML of AIMed, BioInfer, HPRD50, IEPA and "
        "LLL; bnl-json: JSON lines of BNL's and BLURB's relation sets"
    )
    out: str = Field(description="directory of the dataset")
    documents: str | None = Field(None, description="file of document ids, one a line: only these are kept")
    without_documents: str | None = Field(None, description="file of document ids, one a line: these are left out")
    drop_self_interactions: bool = Field(
        False, description="leave out pairs whose two mentions are the same stretch of text, and count them"
    )
    drop_same_name: bool = Field(
        False,
        description="leave out pairs of two mentions of one name, case ignored, and count them; an evaluation counts "
        "the positive ones as missed",
    )
    allow_one_class: bool = Field(False, description="accept a corpus whose pairs are all negative or all positive")
    max_reject_rate: float = Field(0.0, ge=0, le=1, description="share of unusable pairs above which the job fails")

    @model_validator(mode="after")
    def _one_list(self) -> Self:
        if self.documents and self.without_documents:
            raise ValueError("give one of --documents, --without-documents")
        return self


def main(config: Config) -> Artifact:
    """Read a relation corpus into a dataset of entity pairs.

    How a file writes offsets is found out from its mentions. Everything odd is kept, counted and listed in
    OUT/irregularities.tsv; what cannot be used goes to OUT/rejects.
    """
    from ray_jobs.shard.relation_parts import Plan, corpus_files, make_parts

    files = corpus_files(config.paths, config.format)
    listed = _document_ids(config.documents or config.without_documents)
    plan = Plan(
        config.format,
        wanted=listed if config.documents else None,
        unwanted=listed if config.without_documents else None,
        drop_self=config.drop_self_interactions,
        drop_same_name=config.drop_same_name,
    )
    inputs = {"files": digest_json([[file.name, file.sha256] for file in files])}
    if listed is not None:
        inputs["documents" if config.documents else "without_documents"] = digest_json(sorted(listed))
    builder = ArtifactBuilder.begin(
        storage.absolute(config.out),
        "relations",
        config=config.byte_config(),
        inputs=inputs,
        schema_version=SCHEMA_VERSION,
    )
    if builder.finished is None:
        from ray_jobs.session import session

        with session(config.num_cpus):
            make_parts(
                builder, plan, files, allow_one_class=config.allow_one_class, max_reject_rate=config.max_reject_rate
            )
    result = Artifact.open(builder.uri, "relations")
    print(_summary(result.facts))
    return result


def _document_ids(uri: str | None) -> frozenset[str] | None:
    """Read a file of ids."""
    if uri is None:
        return None
    try:
        ids = frozenset(storage.read_bytes(uri).decode("utf-8-sig").split())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError.at(
            uri, None, f"cannot be read ({error})", "give a file of document ids, one a line"
        ) from error
    if not ids:
        raise InputError.at(uri, None, "holds no document id")
    return ids


def _summary(facts: dict[str, Any]) -> str:
    """Return what was made, for people."""
    types = ", ".join(f"{count:,} {name}" for name, count in facts["relation_types"].items())
    odd = ", ".join(f"{count:,} {name}" for name, count in facts["irregularities"].items()) or "none"
    filtered = ", ".join(
        f"{counts['pairs']:,} {name} ({counts['positives']:,} positive)" for name, counts in facts["filtered"].items()
    )
    rules = facts["triples"]
    uncovered = f"{rules['uncovered_positive']:,} positive and {rules['uncovered_negative']:,} negative"
    lines = [
        f"pairs      {facts['pairs']:>9,}   {facts['positives']:,} positive" + (f" ({types})" if types else ""),
        f"sentences  {facts['sentences']:>9,}   {facts['sentences_with_pairs']:,} with pairs; "
        f"in {facts['documents']:,} documents; {facts['entities']:,} mentions",
        f"offsets    {'':>9}   " + "; ".join(f"{name} ({count:,} files)" for name, count in facts["offsets"].items()),
        f"irregular  {sum(facts['irregularities'].values()):>9,}   {odd} (irregularities.tsv)",
        f"anchors    {rules['rule_1'] + rules['rule_2'] + rules['rule_3']:>9,}   rule 1 {rules['rule_1']:,}, "
        f"rule 2 {rules['rule_2']:,}, rule 3 {rules['rule_3']:,}; uncovered {uncovered}",
    ]
    if filtered:
        lines.append(f"left out   {'':>9}   {filtered}")
    if facts["rejects"]:
        lines.append(f"rejects    {facts['rejects']:>9,}   (rejects/)")
    return "\n".join(lines)
