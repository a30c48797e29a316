from __future__ import annotations

import json
import shutil

import pytest

from biomodels.errors import ArtifactError, CompatibilityError, InputError, UsageError
from biomodels.index.sharded import ShardedIndex
from biomodels.inference.text_encoder import TextEncoder
from biomodels.linking.linker import Linker
from ray_jobs import link
from ray_jobs.command import load


@pytest.fixture
def run(small_index, minilm, capsys):
    def call(*mentions, **options):
        count = link.main(link.Config(**{"mentions": mentions, "index": small_index, "model": minilm} | options))
        return count, capsys.readouterr().out

    return call


def test_json_lines_are_the_linkers_answers(run, small_index, minilm):
    mentions = ["mole", "heart attack"]
    count, out = run(*mentions, k=3, as_json=True)
    answers = Linker(TextEncoder(minilm), ShardedIndex.open(small_index)).link(mentions, 3)
    assert count == 2
    assert [json.loads(line) for line in out.splitlines()] == [
        {"mention": mention, "candidates": [candidate.as_dict() for candidate in answer]}
        for mention, answer in zip(mentions, answers, strict=True)
    ]


def test_a_long_file_gives_the_same_answers_as_single_mentions(run, tmp_path, monkeypatch):
    mentions = [f"{word} {i}" for i in range(9) for word in ("syndrome", "heart", "É mole")]
    file = tmp_path / "mentions.txt"
    file.write_text("\n\n" + "\r\n".join(mentions), encoding="utf-8")
    monkeypatch.setattr(link, "CHUNK", 7)
    count, out = run("first", file=str(file), k=2, as_json=True)
    answers = [json.loads(line) for line in out.splitlines()]
    assert count == len(answers) == 28
    assert [answer["mention"] for answer in answers] == ["first", *mentions]
    _, alone = run(mentions[5], k=2, as_json=True)
    assert json.loads(alone) == answers[6]


def test_the_table_shows_both_homonyms_and_no_markup(run, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    _, out = run("mole", "[red]rash[/red]", k=2)
    assert {"C02", "C03", "1.00000"} <= set(out.replace("│", " ").split())
    assert "[red]rash[/red]" in out


@pytest.mark.parametrize(
    ("mentions", "options", "error", "message"),
    [
        ((), {}, UsageError, "mentions: give at least one"),
        (("mole",), {"languages": "de"}, UsageError, "no name of the index has .de."),
        (("mole",), {"k": 0}, UsageError, "k: must be between 1 and 50"),
        (("mole",), {"k": 51}, UsageError, "k: must be between 1 and 50.*given: 51"),
        (("mole", " "), {}, InputError, "mention 2: is empty or blank"),
        (("x" * 100_000,), {}, InputError, "mention 1: has 100,000 characters"),
        ((), {"file": "no/such/file"}, InputError, "no/such/file: cannot be read"),
        (("mole",), {"index": "no/such/index"}, ArtifactError, "no/such/index: is no artifact"),
        (("mole",), {"model": "no/such/model/at/all"}, InputError, "there is no such directory"),
    ],
)
def test_bad_input(run, mentions, options, error, message):
    with pytest.raises(error, match=message):
        run(*mentions, **options)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"mole\n\n" + b"x" * 2000 + b"\n", "mentions.txt:3: has 2,000 characters"),
        (b"mole\ncaf\xe9\n", "mentions.txt:2: not UTF-8"),
        (b"\n \n", "mentions.txt: has no mention"),
    ],
)
def test_bad_lines_are_named(run, tmp_path, content, message):
    (tmp_path / "mentions.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        run(file=str(tmp_path / "mentions.txt"))


def test_a_damaged_index_is_refused_unless_told_otherwise(run, small_index, tmp_path):
    copy = tmp_path / "index"
    shutil.copytree(small_index, copy)
    file = copy / "shards/shard-000.faiss"
    content = bytearray(file.read_bytes())
    content[-5] ^= 1  # in the last id or vector; faiss reads it all the same
    file.write_bytes(content)
    with pytest.raises(ArtifactError, match=r"shard-000\.faiss: content differs"):
        run("mole", index=str(copy))
    assert run("mole", index=str(copy), verify=False)[0] == 1


def test_an_index_of_another_model_is_refused(run, tiny_bert):
    with pytest.raises(CompatibilityError, match="index was made by model"):
        run("mole", model=tiny_bert)


def test_the_flag_is_called_json(small_index, minilm, capsys):
    from ray_jobs.__main__ import build_app

    command = ["link", "mole", "--index", small_index, "--model", minilm, "--json", "--k", "1"]
    build_app()(command, standalone_mode=False)
    assert json.loads(capsys.readouterr().out)["mention"] == "mole"


def test_options_are_checked():
    with pytest.raises(UsageError, match="--index is required; --model is required"):
        load(link.Config, None, {"mentions": ["mole"]})
