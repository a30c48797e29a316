"""The command `convert simcse`, on a model without and with a record of its pooler."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from biomodels.errors import InputError
from biomodels.models.spec import read_spec
from ray_jobs.__main__ import build_app
from ray_jobs.convert import simcse


def run(*arguments):
    return CliRunner().invoke(build_app(), ["convert", "simcse", *map(str, arguments)])


def test_the_pooler_is_asked_for_once_and_then_recorded(tiny_bert, tmp_path):
    refused = run(tiny_bert, "--to", "sentence-transformers", "--out", tmp_path / "a")
    assert refused.exit_code == 2 and "give --pooler" in refused.stderr and refused.stderr.count("\n") == 1
    done = run(
        tiny_bert, "--to", "sentence-transformers", "--out", tmp_path / "a", "--pooler", "avg", "--max-length", 40
    )
    assert done.exit_code == 0, done.output
    assert "huggingface → sentence-transformers" in done.stdout and "pooler avg" in done.stdout
    assert (read_spec(tmp_path / "a").pooling, read_spec(tmp_path / "a").max_length) == ("mean", 40)
    assert run(tmp_path / "a", "--to", "simcse", "--out", tmp_path / "b").exit_code == 0
    assert "is there already" in run(tmp_path / "a", "--to", "simcse", "--out", tmp_path / "b").stderr


def test_a_missing_directory(tmp_path):
    with pytest.raises(InputError, match="there is no such directory"):
        simcse.main(simcse.Config(checkpoint=(str(tmp_path / "x"),), to="simcse", out=str(tmp_path / "y")))
