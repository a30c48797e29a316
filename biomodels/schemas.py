"""The Arrow schemas of every dataset, by kind.

Identities are the same everywhere. `name_id` is `terminology.normalise.name_id` of the normalised string. Languages
are ISO 639-1 (639-3 where there is none); semantic types are TUIs; spans count Unicode code points, end exclusive;
PMIDs are int64; `text_digest` is the BLAKE2b-128 of the text that a model will read.
"""

from __future__ import annotations

import pyarrow as pa

SCHEMA_VERSION = 1

_STRINGS = pa.list_(pa.string())
_SPANS = pa.list_(pa.struct([("start", pa.int32()), ("end", pa.int32())]))

NAMES = pa.schema(
    [
        ("concept_id", pa.string()),
        ("name_id", pa.int64()),
        ("name", pa.string()),
        ("language", pa.string()),
        ("source", pa.string()),
        ("term_type", pa.string()),
        ("preferred", pa.bool_()),
        ("semantic_types", _STRINGS),
    ]
)
STRINGS = pa.schema([("name_id", pa.int64()), ("text", pa.string())])
PAIRS = pa.schema(
    [
        ("concept_id", pa.string()),
        ("name_1", pa.string()),
        ("name_2", pa.string()),
        ("language_1", pa.string()),
        ("language_2", pa.string()),
        ("source", pa.string()),
        ("weight", pa.float32()),
    ]
)
MENTIONS = pa.schema(
    [
        ("mention_id", pa.string()),
        ("document_id", pa.string()),
        ("mention", pa.string()),
        ("context", pa.string()),
        ("start", pa.int32()),
        ("end", pa.int32()),
        ("language", pa.string()),
        ("gold", pa.list_(_STRINGS)),
    ]
)
ARTICLES = pa.schema(
    [
        ("pmid", pa.int64()),
        ("version", pa.int32()),
        ("title", pa.string()),
        ("abstract", pa.string()),
        ("sections", pa.list_(pa.struct([("label", pa.string()), ("text", pa.string())]))),
        ("year", pa.int32()),
        ("languages", _STRINGS),
        ("publication_types", _STRINGS),
        ("status", pa.string()),
        ("retracted", pa.bool_()),
        ("source_file", pa.string()),
        ("text_digest", pa.string()),
        # Beyond what a model reads.
        ("retracted_by", _STRINGS),
        ("translated_title", pa.string()),
        ("vernacular_title", pa.string()),
        ("plain_language_summary", pa.string()),
        ("book", pa.bool_()),
    ]
)
"""One row per PMID, its latest version, sorted by hash. A text is `""` where it is missing; what a source does not say
(year, status, a JSONL's languages) is null. `sections` is empty for an abstract in one piece; those of a structured
one, joined by spaces as `LABEL: text`, are the abstract. `text_digest` is of `f"{title} {abstract}".strip()`."""

DELETED = pa.schema([("pmid", pa.int64()), ("source_file", pa.string())])
"""PMIDs that the distribution deleted and did not bring back, beside the articles."""

THREAD_FIELDS = (
    "g2p_id",
    "gene_symbol",
    "gene_mim",
    "hgnc_id",
    "previous_gene_symbols",
    "disease_name",
    "disease_mim",
    "disease_mondo",
    "allelic_requirement",
    "cross_cutting_modifier",
    "confidence",
    "variant_consequence",
    "variant_types",
    "molecular_mechanism",
    "molecular_mechanism_support",
)
"""The fields of a thread, in the order of its flat rendering; the export's strings, null where a cell is blank."""
THREADS = pa.schema(
    [
        *((field, pa.string()) for field in THREAD_FIELDS),
        ("text", pa.string()),
        ("renderer", pa.string()),
        ("text_digest", pa.string()),
        # Beyond what a model reads.
        ("phenotypes", _STRINGS),
        ("publications", pa.list_(pa.int64())),
        ("panels", _STRINGS),
    ]
)
"""One row per G2P entry, sorted by `g2p_id`. `hgnc_id` always bears its prefix `HGNC:`."""

CANDIDATES = pa.schema(
    [("pmid", pa.int64()), ("g2p_ids", _STRINGS), ("sources", _STRINGS), ("text_digest", pa.string())]
)
"""One row per PMID of the articles, in their order. `sources` names the gate's tiers that found something, sorted."""

LABELLED_PAIRS = pa.schema(
    [
        ("text_a", pa.string()),
        ("text_b", pa.string()),
        ("label", pa.float32()),
        ("group", pa.string()),
        ("list_id", pa.string()),
        ("split", pa.string()),
        ("fold", pa.int32()),
        ("provenance", pa.string()),
        # Where the texts come from, to join scores by; null for pairs of another kind.
        ("pmid", pa.int64()),
        ("g2p_id", pa.string()),
    ]
)
"""One row per pair, a list's rows together. `group` is what a split does not cut, `list_id` what is ranked together,
`fold` is null outside the training split, `provenance` is one of PROVENANCES."""

PROVENANCES = ("annotated", "curated", "silver", "corpus", "sibling", "mined")
"""Who says so: annotators, curators, a model; or made negatives: of the corpus at large, of one gene, the nearest."""

SCORES = pa.schema(
    [("pmid", pa.int64()), ("text_digest", pa.string()), ("g2p_ids", _STRINGS), ("scores", pa.list_(pa.float32()))]
)
"""One row per PMID, also one without candidates; a score lies between 0 and 1."""

RELATIONS = pa.schema(
    [
        ("document_id", pa.string()),
        ("sentence_id", pa.string()),
        ("pair_id", pa.string()),
        ("text", pa.string()),
        ("spans_1", _SPANS),
        ("spans_2", _SPANS),
        ("entity_1", pa.string()),
        ("entity_2", pa.string()),
        ("type_1", pa.string()),
        ("type_2", pa.string()),
        ("label", pa.bool_()),
        ("relation_type", pa.string()),
        ("others", pa.list_(pa.struct([("type", pa.string()), ("spans", _SPANS)]))),
    ]
)
SENTENCES = pa.schema([("sentence_1", pa.string()), ("sentence_2", pa.string()), ("hard_negatives", _STRINGS)])
PREDICTIONS = pa.schema(
    [
        ("mention_id", pa.string()),
        ("part", pa.int32()),
        ("rank", pa.int32()),
        ("concept_id", pa.string()),
        ("name_id", pa.int64()),
        ("score", pa.float32()),
    ]
)
REJECTS = pa.schema([("file", pa.string()), ("line", pa.int64()), ("reason", pa.string()), ("content", pa.string())])

SCHEMAS: dict[str, pa.Schema] = {
    "names": NAMES,
    "strings": STRINGS,
    "pairs": PAIRS,
    "mentions": MENTIONS,
    "articles": ARTICLES,
    "threads": THREADS,
    "candidates": CANDIDATES,
    "labelled_pairs": LABELLED_PAIRS,
    "scores": SCORES,
    "relations": RELATIONS,
    "sentences": SENTENCES,
    "predictions": PREDICTIONS,
    "rejects": REJECTS,
}


def embeddings_schema(dimension: int, storage: str = "float16") -> pa.Schema:
    """Return the schema of an embeddings part.

    Args:
        dimension: number of columns of each vector.
        storage: "float16" or "float32".
    """
    value = {"float16": pa.float16(), "float32": pa.float32()}[storage]
    return pa.schema([("name_id", pa.int64()), ("embedding", pa.list_(value, dimension))])
