"""Readers of benchmarks: their quirks on small files, their counts on the shared ones."""

from __future__ import annotations

import pytest

from biomodels.errors import InputError
from biomodels.sentences.benchmarks import (
    STS_PARTS,
    USUAL_ROWS,
    Files,
    MissingBenchmarkError,
    read_probe,
    read_sts,
    read_transfer,
)


def put(folder, **files):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name.replace("__", "-").replace("_dot_", ".")).write_bytes(
            content if isinstance(content, bytes) else content.encode()
        )


def write_year(folder, task, gold="3.5\n\n1\n"):
    folder.mkdir(parents=True)
    for part in STS_PARTS[task]:
        (folder / f"STS.input.{part}.txt").write_text("a  man\ta dog\nno gold\there\nx\u2028y\tz\n", encoding="utf-8")
        (folder / f"STS.gs.{part}.txt").write_text(gold)


@pytest.mark.parametrize("where", ["STS12-en-test", "downstream/STS/STS12-en-test", "a/b/c/STS12"])
def test_a_year_is_found_at_any_depth_and_empty_gold_lines_do_not_count(tmp_path, where):
    write_year(tmp_path / where, "STS12")
    files = Files(tmp_path)
    parts = read_sts(files, "STS12", "test")
    assert tuple(parts) == STS_PARTS["STS12"]
    assert parts["MSRpar"].first == ["a man", "x y"] and parts["MSRpar"].gold == [3.5, 1.0]
    assert len(files.digests()) == 10 and f"{where}/STS.gs.MSRpar.txt" in files.digests()
    with pytest.raises(MissingBenchmarkError):
        read_sts(files, "STS12", "dev")
    with pytest.raises(MissingBenchmarkError, match="STS13-en-test or STS13"):
        read_sts(files, "STS13", "test")


def test_gold_of_another_length_is_told(tmp_path):
    write_year(tmp_path / "STS14", "STS14", gold="1\n2\n3\n4\n")
    with pytest.raises(InputError, match=r"STS\.gs\.deft-forum\.txt: has 4 lines for 3 pairs"):
        read_sts(Files(tmp_path), "STS14", "test")


def test_sts_b_is_read_without_quoting_and_with_seven_or_nine_columns(tmp_path):
    rows = 'g\tf\ty\t1\t5.0\t"Open quote\tsecond"\nmain-forums\tf\ty\t2\t0.5\ta\tb\tsource\tsource\n'
    put(tmp_path / "STSBenchmark", **{"sts__test_dot_csv": rows})
    pairs = read_sts(Files(tmp_path), "STSBenchmark", "test")["test"]
    assert (pairs.first, pairs.second, pairs.gold) == (['"Open quote', "a"], ['second"', "b"], [5.0, 0.5])
    put(tmp_path / "STSBenchmark", **{"sts__test_dot_csv": rows + "short\tline\n"})
    with pytest.raises(InputError, match=r"sts-test\.csv:3: has 2 columns"):
        read_sts(Files(tmp_path), "STSBenchmark", "test")
    put(tmp_path / "STSBenchmark", **{"sts__test_dot_csv": rows.replace("5.0", "high")})
    with pytest.raises(InputError, match=r"sts-test\.csv:1: has the score 'high'"):
        read_sts(Files(tmp_path), "STSBenchmark", "test")


def test_other_languages_are_quoted_csv(tmp_path):
    put(tmp_path / "stsb_multi", **{"stsb__de__test_dot_csv": '"Ein Mann, der läuft",Ein Hund,2.5\r\n'})
    pairs = read_sts(Files(tmp_path), "STSBenchmark-de", "test")["test"]
    assert (pairs.first, pairs.gold) == (["Ein Mann, der läuft"], [2.5])


def test_transfer_sets(tmp_path):
    put(tmp_path / "MR", rt__polarity_dot_pos=b"fine caf\xe9 .\n", rt__polarity_dot_neg=b"bad\nworse\n")
    found = read_transfer(Files(tmp_path), "MR")["all"]
    assert (found.texts, found.labels) == (["fine café .", "bad", "worse"], [1, 0, 0])
    put(
        tmp_path / "TREC",
        train_5500_dot_label=b"NUM:dist How  far ?\nHUM:ind Who ?\n",
        TREC_10_dot_label=b"ABBR:exp What\x92s ?\n",
    )
    found = read_transfer(Files(tmp_path), "TREC")
    assert (found["train"].texts, found["train"].labels, found["test"].labels) == (["How far ?", "Who ?"], [5, 3], [0])
    head = "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n"
    put(
        tmp_path / "MRPC",
        msr_paraphrase_train_dot_txt=head + '1\t1\t2\tsaid " x\ty\r\n',
        msr_paraphrase_test_dot_txt=head,
    )
    found = read_transfer(Files(tmp_path), "MRPC")["train"]
    assert (found.texts, found.second, found.labels) == (['said " x'], ["y"], [1])
    put(
        tmp_path / "SST" / "binary",
        **{f"sentiment__{split}": "nice film\t1\nbad\t0\n" for split in ("train", "dev", "test")},
    )
    assert read_transfer(Files(tmp_path), "SST2")["dev"].labels == [1, 0]
    put(tmp_path / "SST" / "binary", sentiment__dev="no label\n")
    with pytest.raises(InputError, match=r"sentiment-dev:1: has no label"):
        read_transfer(Files(tmp_path), "SST2")
    with pytest.raises(MissingBenchmarkError):
        read_transfer(Files(tmp_path), "CR")


def test_the_shared_files_have_the_published_sizes(shared_data):
    files = Files(shared_data / "sentences")
    for task, split in (
        ("STSBenchmark", "dev"),
        ("STSBenchmark", "test"),
        ("SICKRelatedness", "dev"),
        ("SICKRelatedness", "test"),
        ("BIOSSES", "test"),
    ):
        assert len(read_sts(files, task, split)[split].gold) == USUAL_ROWS[task, split]
    assert sum(len(part.gold) for part in read_sts(files, "STS12", "test").values()) == 3108
    assert sum(len(part.gold) for part in read_sts(files, "STS13", "test").values()) == 1500
    for task in ("MR", "TREC", "MRPC"):
        for split, found in read_transfer(files, task).items():
            assert len(found.texts) == USUAL_ROWS[task, split]
    for language in ("de", "en", "zh"):
        assert len(read_sts(files, f"STSBenchmark-{language}", "test")["test"].gold) == 1379
    assert [len(read_probe(files, name).first) for name in ("negation", "antonym")] == [13, 7]
