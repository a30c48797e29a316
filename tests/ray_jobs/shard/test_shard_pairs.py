"""The job that mixes pairs of several sources by weight."""

import random
from collections import Counter
from pathlib import Path

import pytest

from biomodels.errors import InputError, RejectRateError, UsageError
from biomodels.terminology.pairs_import import import_pairs_text
from ray_jobs.command import load
from ray_jobs.shard import pair_parts, pairs
from ray_jobs.shard.pairs import Config, main

pytestmark = pytest.mark.ray

UMLS, WORDS = 900, 400


def mix(out, **options):
    return main(load(Config, None, {"out": str(out), **{key: str(value) for key, value in options.items()}}))


def rows(artifact):
    return [row for entry in artifact.files("part-") for row in artifact.read_table(entry).to_pylist()]


@pytest.fixture(scope="module")
def sources(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    umls = [f"C{n // 3:04d}||Name {n}||other {n}\n" for n in range(UMLS)]
    words = [f"word{n // 4} Wort{n}\n" for n in range(WORDS)] + ["utc utc\n", "three words here\n"]
    for name, lines in (("umls.txt", umls), ("muse.txt", words), ("wiki.tsv", ["Heart attack\tCrise cardiaque\n"])):
        (folder / name).write_text("".join(lines), encoding="utf-8")
        random.Random(1).shuffle(lines)
        (folder / f"shuffled-{name}").write_text("".join(lines), encoding="utf-8")
    import_pairs_text(str(folder / "umls.txt"), str(folder / "umls"))
    return folder


def test_weights_mix_sources_and_the_bytes_do_not_depend_on_the_cut(ray_session, sources, tmp_path, monkeypatch):
    monkeypatch.setattr(pair_parts, "ROWS_PER_PART", 500)
    text = {"titles": f"en-de:{sources}/muse.txt@2.5,eng-FRE:{sources}/wiki.tsv"}
    one = mix(tmp_path / "one", pairs=f"{sources}/umls@0.5", **text, export_pairs=tmp_path / "one.txt")
    found = rows(one)
    counts = Counter((row["concept_id"], row["name_1"], row["name_2"]) for row in found)
    umls, muse = ({key: n for key, n in counts.items() if key[0].startswith(start)} for start in ("C", "en-de:"))
    assert set(umls.values()) == {1} and abs(len(umls) - UMLS / 2) < 5 * (UMLS / 4) ** 0.5
    assert len(muse) == WORDS and set(muse.values()) == {2, 3}
    assert abs(sum(muse.values()) - 2.5 * WORDS) < 5 * (WORDS / 4) ** 0.5
    assert len(counts) - len(umls) - len(muse) == 1
    assert {row["concept_id"] for row in found if "wort9" in (row["name_1"], row["name_2"])} == {"en-de:word2"}
    assert all((row["language_1"], row["language_2"]) in {("und",) * 2, ("en", "de"), ("de", "en"), ("en", "fr"),
                                                          ("fr", "en")} for row in found)  # fmt: skip
    facts = one.facts
    drawn = [len(umls), sum(muse.values()), 1]
    assert [source["drawn"] for source in facts["sources"]] == drawn and facts["pairs"] == len(found) == sum(drawn)
    assert facts["dropped"] == {"identical": 1, "duplicate": 0} and facts["rejects"] == 1
    assert len((tmp_path / "one.txt").read_text(encoding="utf-8").splitlines()) == len(found)
    half = [row["concept_id"].startswith("C") for row in found[: len(found) // 2]]
    assert abs(sum(half) - len(umls) / 2) < 5 * (len(umls) / 4) ** 0.5  # sources lie among each other

    again = mix(
        tmp_path / "two",
        pairs=f"{sources}/shuffled-umls.txt@.5",
        titles=f"en-de:{sources}/shuffled-muse.txt@2.5,en-fr:{sources}/wiki.tsv@1",
        block_size=0.001,
    )
    data = [artifact.files("part-") for artifact in (one, again)]
    assert data[0] == data[1] and len(data[0]) > 1


def test_an_interrupted_mix_goes_on(ray_session, sources, tmp_path, monkeypatch):
    options = {"pairs": f"{sources}/umls", "titles": f"en-de:{sources}/muse.txt", "block_size": 0.002}
    whole = mix(tmp_path / "whole", **options)

    def stopped(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(pairs, "shuffle_pairs", stopped)
        mix(tmp_path / "out", **options)
    stamps = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.arrow")}
    assert len(stamps) > 2
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(ArtifactBuilderOfMix, "commit", stopped)
        mix(tmp_path / "out", **options)
    assert stamps == {path: path.stat().st_mtime_ns for path in (tmp_path / "out").rglob("*.arrow")}
    assert mix(tmp_path / "out", **options).manifest == whole.manifest
    assert mix(tmp_path / "out", **options).digest == whole.digest  # finished: nothing to do


ArtifactBuilderOfMix = pairs.ArtifactBuilder


def test_options_of_the_reference_files(ray_session, sources, tmp_path):
    found = rows(
        mix(
            *(tmp_path / "out",),
            titles=f"en-de:{sources}/muse.txt",
            title_concepts="line",
            equal_names=True,
            lowercase=False,
        )
    )
    assert len(found) == WORDS + 1 == len({row["concept_id"] for row in found})
    assert {row["name_2"] for row in found if row["name_1"] == "utc"} == {"utc"}
    assert any("Wort" in row["name_1"] for row in found)


def test_a_pair_in_two_sources_counts_with_the_larger_weight(ray_session, sources, tmp_path):
    out = mix(tmp_path / "out", pairs=f"{sources}/umls@0.3,{sources}/umls.txt@2")
    assert out.facts["pairs"] == 2 * UMLS and out.facts["dropped"]["duplicate"] == out.facts["sources"][0]["drawn"] > 0


def test_bad_sources(ray_session, sources, tmp_path):
    def bad(kind, match, **options):
        with pytest.raises(kind, match=match):
            mix(tmp_path / "bad", **options)

    bad(UsageError, "give --pairs, --titles or both")
    for weight in ("0", "1001"):
        bad(UsageError, "weight above 0", pairs=f"{sources}/umls@{weight}")
    bad(UsageError, "is not of the form FILE@WEIGHT", pairs=f"en-de:{sources}/umls")
    bad(UsageError, "no language code", titles=f"en-x9:{sources}/muse.txt".replace("x9", "qq"))
    bad(UsageError, "its names are nfc-ws-lower", pairs=f"{sources}/umls", lowercase=False)
    bad(InputError, "is not there; check --titles", titles=f"{sources}/none.txt")
    bad(RejectRateError, "umls.txt:1: has 3 words and no tab", titles=f"{sources}/umls.txt")
    (tmp_path / "same.txt").write_text("utc utc\n", encoding="utf-8")
    bad(InputError, "holds no pair", titles=tmp_path / "same.txt")
    bad(InputError, "no pair is left", titles=f"{sources}/wiki.tsv@0.0001")
