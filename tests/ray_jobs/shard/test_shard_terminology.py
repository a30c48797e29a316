"""The job on Ray: equal bytes however the work is cut, resume, held-out synonyms, rejects, and every format."""

import collections
import gzip
import itertools
import json
import random
from pathlib import Path

import pytest

from biomodels import storage
from biomodels.artifacts import Artifact
from biomodels.errors import ArtifactError, InputError, RejectRateError, UsageError
from biomodels.terminology.names import fold
from biomodels.terminology.normalise import name_id
from ray_jobs.command import load, user_error
from ray_jobs.shard import name_parts, pair_parts, source_blocks
from ray_jobs.shard.terminology import Config, main

pytestmark = pytest.mark.ray

CONCEPTS = 400


def rows(seed=0):
    """Lines of a made-up MRCONSO.RRF: homonyms, languages, names out of use or in two cases, one large concept."""
    rng = random.Random(seed)
    lines = []
    for number in range(CONCEPTS):
        cui = f"C{number:07d}"
        for name in range(60 if number == 0 else 1 + number % 6):
            language = "ENG" if name % 3 == 0 else rng.choice(["ENG", "GER", "FRE"])
            text = f"Common {name}" if rng.random() < 0.1 else f"Name {name} of {number}"
            status = ("P", "PF", "Y") if name == 0 else (rng.choice("PS"), rng.choice(["PF", "VO"]), "N")
            suppress = "O" if rng.random() < 0.05 else "N"
            ids = f"{cui}|{language}|{status[0]}|L1|{status[1]}|S1|{status[2]}|A1"
            lines.append(f"{ids}||||SAB{name % 2}|PT|X|{text}|0|{suppress}||")
            if number % 9 == name == 0:
                lines.append(f"{ids}||||SAB3|PT|X|{text.upper()}|0|N||")
    return lines + lines[:5]


@pytest.fixture(scope="module")
def meta(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("META")
    (folder / "MRCONSO.RRF").write_text("\n".join(rows()) + "\n", encoding="utf-8")
    (folder / "MRSTY.RRF").write_text(
        "".join(f"C{number:07d}|T{number % 7:03d}|A|B|AT||\n" for number in range(CONCEPTS)), encoding="utf-8"
    )
    return folder


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(name_parts, "ROWS_PER_PART", 400)
    monkeypatch.setattr(pair_parts, "ROWS_PER_PART", 500)


def shard(out, **options):
    return main(load(Config, None, {"out": str(out), **{key: str(value) for key, value in options.items()}}))


def bad_input(kind, match, out, **options):
    with pytest.raises(Exception) as caught:  # Ray wraps what a task raises
        shard(out, **options)
    error = user_error(caught.value)
    assert isinstance(error, kind), caught.value
    assert match in str(error)


def table(artifact):
    return [row for entry in artifact.files("part-") for row in artifact.read_table(entry).to_pylist()]


def test_same_bytes_for_other_blocks_and_another_row_order(ray_session, meta, tmp_path, small_parts, capsys):
    shuffled = tmp_path / "shuffled.RRF"
    lines = rows()
    random.Random(7).shuffle(lines)
    shuffled.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sty = meta / "MRSTY.RRF"
    texts = {"export_dictionary": "dictionary.txt", "export_pairs": "pairs.txt"}
    options = {"mrsty": sty, "hold_out": 30, "equal_names": "repeated"}
    one, two = (
        shard(tmp_path / out, mrconso=conso, block_size=size, **options, **paths)
        for out, conso, size, paths in [
            ("one", meta / "MRCONSO.RRF", 8, {key: tmp_path / "one" / name for key, name in texts.items()}),
            ("two", shuffled, 0.01, {key: tmp_path / "two" / name for key, name in texts.items()}),
        ]
    )
    for role in ("names", "pairs", "held_out"):
        assert getattr(one, role).manifest.files == getattr(two, role).manifest.files, role
    assert one.names.facts == two.names.facts and one.pairs.facts == two.pairs.facts
    for name in texts.values():
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert len(one.names.files("part-")) == 4 and len(one.pairs.files("part-")) > 1
    assert not storage.exists(str(tmp_path / "two" / "names" / "_work"))

    names, pairs = table(one.names), table(one.pairs)
    assert len(names) == one.names.facts["names"] and len(pairs) == one.pairs.facts["pairs"]
    concepts = {row["concept_id"] for row in names}
    assert sum(row["preferred"] for row in names) == len(concepts) == one.names.facts["concepts"]
    assert all(row["semantic_types"] == [f"T{int(row['concept_id'][1:]) % 7:03d}"] for row in names)
    removed = one.names.facts["removed"]
    assert one.names.facts["rows"] == {"mrconso": len(lines), "mrsty": CONCEPTS}
    assert len(lines) - removed["suppressed"] - removed["obsolete"] - removed["duplicate"] - removed["held_out"] == len(
        names
    )
    assert removed["obsolete"] > 0 and removed["duplicate"] == 5
    large = [row for row in pairs if row["concept_id"] == "C0000000" and row["name_1"] != row["name_2"]]
    assert len(large) == 50

    queries = Path(storage.join(one.held_out.uri, "queries.txt")).read_text(encoding="utf-8").splitlines()
    held_out = {fold(line.split("||")[1]) for line in queries}
    assert queries == sorted(queries) and len(held_out) == len(queries) == 30
    assert {line.split("||")[0] for line in queries} <= concepts
    dictionary = (tmp_path / "one" / "dictionary.txt").read_text(encoding="utf-8").splitlines()
    exported = (tmp_path / "one" / "pairs.txt").read_text(encoding="utf-8").splitlines()
    assert exported == ["||".join(row[key] for key in ("concept_id", "name_1", "name_2")) for row in pairs]
    kept = [row["name"] for row in names] + [row[side] for row in pairs for side in ("name_1", "name_2")]
    assert not held_out & {fold(text) for text in kept + [line.split("||")[1] for line in dictionary]}
    entries = {(row["concept_id"], row["name_id"]) for row in names}
    assert len(dictionary) == len(entries) == one.names.facts["entries"]
    shown = capsys.readouterr().out
    assert f"dictionary: {len(dictionary):,} lines" in shown and f"{removed['obsolete']:,}  removed: obsolete" in shown

    owners: dict[int, set[str]] = {}
    for concept, name in entries:
        owners.setdefault(name, set()).add(concept)
    homonyms = [json.loads(line) for line in (tmp_path / "one" / "names" / "homonyms.jsonl").open(encoding="utf-8")]
    assert {(name_id(row["name"]), tuple(row["concepts"])) for row in homonyms} == {
        (name, tuple(sorted(concepts))) for name, concepts in owners.items() if len(concepts) > 1
    }
    assert one.names.facts["homonyms"]["strings"] == len(homonyms) > 3

    facts, strings = one.pairs.facts, collections.Counter(concept for concept, _ in entries)
    assert facts["strings"] == len(entries) and facts["concepts"] == len(strings)
    assert facts["single"] == sum(size == 1 for size in strings.values())
    assert facts["combinations"] == sum(size * (size - 1) // 2 for size in strings.values())
    rows_of = collections.Counter((row["concept_id"], row["name_id"]) for row in names)
    equal = {(row["concept_id"], name_id(row["name_1"])) for row in pairs if row["name_1"] == row["name_2"]}
    assert equal == {key for key, count in rows_of.items() if count > 1} and len(equal) == facts["equal"] > 0
    assert facts["capped"] == 1


class KilledError(Exception):
    """Stands for the end of the driver at a chosen moment."""


def interrupted_after(count, original):
    """Wrap a generator function so that it stops after `count` results, counted over all calls."""
    left = iter(range(count - 1, -1, -1))

    def stopping(*args, **options):
        for result in original(*args, **options):
            yield result
            if next(left) == 0:
                raise KilledError

    return stopping


def stamps(folder, pattern):
    return {path: path.stat().st_mtime_ns for path in folder.rglob(pattern)}


def test_interrupted_runs_go_on_and_keep_what_is_finished(ray_session, meta, tmp_path, small_parts, monkeypatch):
    options = {"mrconso": meta / "MRCONSO.RRF", "block_size": 0.02}
    whole = shard(tmp_path / "whole", **options)
    out = tmp_path / "out"
    moments = [
        (source_blocks, "fan_out_streams", 2, "0-*.json"),
        (name_parts, "fan_out", 1, "names/part-*.parquet"),
        (pair_parts, "fan_out", 1, "finished.json"),
        (pair_parts, "fan_out", 2, "pairs/part-*.parquet"),
    ]
    done = {}
    for module, function, count, files in moments:
        if files == "finished.json":  # else the tasks that made the names have chosen all pairs
            lost = sorted(out.glob("pairs/_work/spill/*/finished.json"))[0]
            lost.unlink()
        with monkeypatch.context() as patch, pytest.raises(KilledError):
            patch.setattr(module, function, interrupted_after(count, getattr(module, function)))
            shard(out, **options)
        assert done.items() <= stamps(out, "*").items()  # what an earlier run finished was not made again
        done = stamps(out, files)
        assert done
    result = shard(out, **options)
    assert done.items() <= stamps(out, "*").items()
    assert result.names.manifest == whole.names.manifest and result.pairs.manifest == whole.pairs.manifest
    result.names.verify()
    result.pairs.verify()
    before = stamps(out, "*.parquet")
    assert shard(out, **options).pairs.digest == whole.pairs.digest
    assert stamps(out, "*.parquet") == before
    bad_input(ArtifactError, "config.languages", out, **options, languages="ENG")


def test_rejects_are_published_with_file_line_and_reason(ray_session, meta, tmp_path):
    lines = rows()
    lines[100] = lines[100].replace("|PT|", "|PT|extra|")
    lines[700] = lines[700].replace("Name", "").split("|0|")[0]
    path = tmp_path / "bad.RRF"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    result = shard(tmp_path / "out", mrconso=path, block_size=0.01)
    rejects = result.names.read_table(result.names.files("rejects/")[0]).to_pylist()
    assert [(row["file"], row["line"]) for row in rejects] == [("bad.RRF", 101), ("bad.RRF", 701)]
    assert result.names.facts["rejects"] == 2
    assert "19 columns" in rejects[0]["reason"] and rejects[0]["content"] == lines[100][:200]
    bad_input(RejectRateError, "2 of ", tmp_path / "strict", mrconso=path, max_reject_rate=0.001)
    bad_input(RejectRateError, "bad.RRF:101", tmp_path / "strict", mrconso=path, max_reject_rate=0.001)


def test_obo_and_tsv(ray_session, tmp_path):
    obo = tmp_path / "x.obo"
    obo.write_text(
        'ontology: x\n\n[Term]\nid: X:1\nname: First\nsynonym: "Eins" EXACT []\nsynonym: "Odd" BROAD []\n\n'
        "[Term]\nid: X:2\nname: Gone\nis_obsolete: true\n",
        encoding="utf-8",
    )
    result = shard(tmp_path / "obo", obo=obo, term_types="LABEL,EXACT")
    assert [(row["concept_id"], row["name"], row["preferred"]) for row in table(result.names)] == [
        ("X:1", "Eins", False),
        ("X:1", "First", True),
    ]
    assert {row["name_1"] for row in table(result.pairs)} | {row["name_2"] for row in table(result.pairs)} == {
        "eins",
        "first",
    }
    tsv = tmp_path / "x.tsv"
    tsv.write_text("concept_id\tname\tsemantic_types\nA\tx\tT1\nA\ty\tT2|T1\nB\tz\t\n", encoding="utf-8")
    result = shard(tmp_path / "tsv", tsv=tsv)
    assert [row["semantic_types"] for row in table(result.names)] == [["T1", "T2"], ["T1", "T2"], []]
    assert len(table(result.pairs)) == 1


def test_fine_tuning_set_of_concept_name_lines(ray_session, tmp_path):
    source = tmp_path / "mine.txt"
    names = {"A": [f"Name {n}" for n in range(12)], "B": ["x", "y", "X"], "C": ["alone"]}
    source.write_text("".join(f"{c}||{name}\n" for c, group in names.items() for name in group), encoding="utf-8")
    result = shard(tmp_path / "out", dictionary=source, max_pairs=0, lowercase="false")
    expected = {(c, frozenset(pair)) for c, group in names.items() for pair in itertools.combinations(group, 2)}
    rows = table(result.pairs)
    assert {(row["concept_id"], frozenset((row["name_1"], row["name_2"]))) for row in rows} == expected
    assert len(rows) == len(expected) == 66 + 3


REFERENCE = {"keep_suppressed": True, "keep_obsolete": True, "languages": ("ENG",), "tidy": False, "max_pairs": 50}


def test_preset_is_a_set_of_options_that_given_ones_override():
    config = load(Config, None, {"out": "o", "mrconso": "m", "preset": "sapbert-2020aa"})
    assert {key: getattr(config, key) for key in REFERENCE} == REFERENCE
    assert load(Config, None, {"out": "o", "mrconso": "m", **REFERENCE}).byte_config() == config.byte_config()
    other = load(Config, None, {"out": "o", "mrconso": "m", "preset": "sapbert-2020aa", "languages": "ENG,GER"})
    assert other.languages == ("ENG", "GER") and other.keep_obsolete
    with pytest.raises(UsageError, match="--preset"):
        load(Config, None, {"out": "o", "mrconso": "m", "preset": "sapbert"})


def reference_names(conso, mrrel=None, languages=("ENG",)):
    """The published recipe, from its description: distinct lower-cased names by concept, then the last trade name."""
    names: dict[str, set[str]] = {}
    for line in conso:
        fields = line.split("|")
        if fields[1] in languages:
            names.setdefault(fields[0], set()).add(fields[14].lower())
    before = {concept: set(group) for concept, group in names.items()}
    borrowed = {}
    for line in mrrel or []:
        head, tail = line.split("|")[0], line.split("|")[4]
        if ("has_tradename" in line or "tradename_of" in line) and tail in before:
            borrowed[head] = before[tail]
    for head, group in borrowed.items():
        names.setdefault(head, set()).update(group)
    return names


def check_against_reference(result, names):
    """Compare pairs with all combinations where the cap leaves all, and with their number and kind where not."""
    found: dict[str, list[frozenset[str]]] = {}
    for row in table(result.pairs):
        found.setdefault(row["concept_id"], []).append(frozenset((row["name_1"], row["name_2"])))
    expected = {}
    for concept, group in names.items():
        combinations = len(group) * (len(group) - 1) // 2
        if combinations:
            expected[concept] = min(50, combinations)
            assert len(set(found[concept])) == len(found[concept]) == expected[concept]
            assert all(len(pair) == 2 and pair <= group for pair in found[concept])
    assert found.keys() == expected.keys()
    assert result.pairs.facts["pairs"] == sum(expected.values())
    assert result.pairs.facts["strings"] == sum(map(len, names.values()))


def test_reference_preset_with_trade_names_equals_its_recipe(ray_session, meta, tmp_path, small_parts):
    rng = random.Random(3)
    conso = [line.replace("Name 1", "Name  1") for line in rows()]  # white space is not folded
    (tmp_path / "MRCONSO.RRF").write_text("\n".join(conso) + "\n", encoding="utf-8")
    concepts = [f"C{number:07d}" for number in range(CONCEPTS + 20)]  # some have no names
    mrrel = [
        f"{rng.choice(concepts)}|A|AUI|RO|{rng.choice(concepts)}|A|AUI|{relation}|R||S|S|||N||"
        for relation in rng.choices(["has_tradename", "tradename_of", "isa", ""], k=600)
    ]
    path = tmp_path / "MRREL.RRF"
    path.write_text("\n".join([*mrrel, "broken"]) + "\n", encoding="utf-8")
    options = {"mrconso": tmp_path / "MRCONSO.RRF", "preset": "sapbert-2020aa", "mrrel": path, "tradenames": "last"}
    result = shard(tmp_path / "one", **options)
    check_against_reference(result, reference_names(conso, mrrel))
    assert result.pairs.facts["tradenames"]["relations"] == sum("tradename" in line for line in mrrel)
    assert [entry.rows for entry in result.pairs.files("rejects/")] == [1]
    other = shard(tmp_path / "two", **options, block_size=0.005)
    assert other.pairs.manifest == result.pairs.manifest
    names = reference_names(conso)
    plain = shard(tmp_path / "plain", mrconso=tmp_path / "MRCONSO.RRF", preset="sapbert-2020aa")
    check_against_reference(plain, names)
    assert plain.names.manifest == result.names.manifest  # trade names are for the pairs alone
    everything = shard(tmp_path / "all", **options | {"tradenames": "all"})
    tails: dict[str, set[str]] = {}
    for line in mrrel:
        if "tradename" in line:
            tails.setdefault(line.split("|")[0], set()).add(line.split("|")[4])
    concepts_with_names = dict(names)
    for head, others in tails.items():
        if group := set().union(names.get(head, set()), *(names.get(tail, set()) for tail in others)):
            concepts_with_names[head] = group
    check_against_reference(everything, concepts_with_names)


def test_bad_input(ray_session, meta, tmp_path):
    empty = tmp_path / "empty.obo"
    empty.write_text("[Typedef]\nid: part_of\n", encoding="utf-8")
    conso = meta / "MRCONSO.RRF"
    bad_input(InputError, "holds no usable row", tmp_path / "a", obo=empty)
    bad_input(InputError, "no name passes the filters", tmp_path / "b", mrconso=conso, languages="SPA")
    bad_input(UsageError, "only", tmp_path / "c", mrconso=conso, hold_out=100_000)
    bad_input(InputError, "check --mrconso", tmp_path / "d", mrconso=tmp_path / "none")
    bad_input(UsageError, "exactly one of --mrconso, --obo, --tsv, --dictionary", tmp_path / "e")
    bad_input(UsageError, "--mrrel and --tradenames go together", tmp_path / "e", mrconso=conso, tradenames="all")
    bad_input(UsageError, "--max-length", tmp_path / "e", mrconso=conso, min_length=3, max_length=2)
    bad_input(UsageError, "exactly one of", tmp_path / "f", mrconso=conso, obo=empty)
    bad_input(UsageError, "--mrsty goes with --mrconso", tmp_path / "g", obo=empty, mrsty=conso)
    bad_input(UsageError, "--languages", tmp_path / "h", mrconso=conso, languages="english")
    damaged = tmp_path / "cut.gz"
    damaged.write_bytes(b"\x1f\x8b\x08\x00garbage")
    bad_input(InputError, "damaged gzip", tmp_path / "i", mrconso=damaged)


@pytest.mark.slow
def test_reference_preset_equals_its_recipe_on_the_real_file(ray_session, shared_data, tmp_path):
    source = shared_data / "terminology" / "MRCONSO.RRF.gz"
    with gzip.open(source, "rt", encoding="utf-8", newline="\n") as lines:
        conso = list(lines)
    check_against_reference(
        shard(tmp_path / "english", mrconso=source, preset="sapbert-2020aa"), reference_names(conso)
    )
    check_dictionary_of_medmentions(tmp_path / "all", source, conso)


def check_dictionary_of_medmentions(out, source, conso):
    """All sources and languages, distinct (CUI, lower-cased name)."""
    dictionary = out.with_suffix(".txt")
    result = shard(out, mrconso=source, preset="medmentions-2017aa", export_dictionary=dictionary)
    expected = {f"{fields[0]}||{fields[14].lower()}" for fields in (line.split("|") for line in conso)}
    with dictionary.open(encoding="utf-8", newline="\n") as stream:
        lines = [line.removesuffix("\n") for line in stream]
    assert len(lines) == len(expected) == result.names.facts["entries"] and set(lines) == expected


def test_real_sample(ray_session, shared_data, tmp_path):
    sample = shared_data / "terminology" / "sample"
    result = shard(tmp_path, mrconso=sample / "MRCONSO.RRF", mrsty=sample / "MRSTY.RRF", languages="ENG,GER")
    conso = sample.joinpath("MRCONSO.RRF").read_bytes().decode("utf-8").split("\n")[:-1]
    published = shard(tmp_path / "published", mrconso=sample / "MRCONSO.RRF", preset="sapbert-2020aa")
    check_against_reference(published, reference_names(conso))
    check_dictionary_of_medmentions(tmp_path / "all", sample / "MRCONSO.RRF", conso)
    assert result.names.facts["concepts"] == 2000 and set(result.names.facts["languages"]) == {"en", "de"}
    assert Artifact.open(str(tmp_path / "pairs"), "pairs").facts["pairs"] > 20_000
