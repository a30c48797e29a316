from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from biomodels.errors import UsageError
from serving.__main__ import main, read_settings, require_free_port
from serving.config import Settings, resolved

CONFIGS = sorted((Path(__file__).parents[2] / "serving/configs").glob("*.yaml"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_the_config_files_are_what_serve_deploy_takes(path):
    from ray.serve.schema import ServeDeploySchema

    schema = ServeDeploySchema.model_validate(yaml.safe_load(path.read_text()))
    (application,) = schema.applications
    assert application.import_path == "serving.app:build"
    assert Settings.model_validate(application.args).index
    assert {deployment.name for deployment in application.deployments} <= {"encoder", "linker"}


def test_options_come_from_the_command_line_over_yaml(tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("index: from/file\nmax-batch: 7\nport: 9000\n")
    settings = read_settings(["--config", str(file), "--port", "9001", "--layout", "per-shard"])
    assert (settings.index, settings.max_batch, settings.port, settings.layout) == ("from/file", 7, 9001, "per-shard")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--index is required"),
        (["--index", "x", "--port", "0"], "--port: "),
        (["--index", "x", "--port", "many"], "--port: "),
        (["--index", "x", "--layout", "none"], "--layout: "),
        (["--index", "x", "--config", "no/such/file"], "--config no/such/file: cannot be read"),
        (["--index", "no/such/index"], "no/such/index: is no artifact"),
    ],
)
def test_bad_options_are_one_line_and_exit_code_2(arguments, message, capsys):
    assert main(arguments) == 2
    stderr = capsys.readouterr().err
    assert stderr.startswith("error: ")
    assert message in stderr
    assert stderr.count("\n") == 1


def test_unknown_options_in_yaml_are_named(tmp_path):
    file = tmp_path / "options.yaml"
    file.write_text("index: x\nprot: 9000\n")
    with pytest.raises(UsageError, match="--prot: there is no such option"):
        read_settings(["--config", str(file)])


def test_an_index_of_another_model_is_refused_before_anything_starts(small_index, tiny_bert, capsys):
    assert main(["--index", small_index, "--model", tiny_bert]) == 2
    assert "the index was made by model" in capsys.readouterr().err


def test_a_model_directory_without_a_tokenizer_is_refused(small_index, tiny_bert, tmp_path, capsys):
    bare = tmp_path / "bare"
    shutil.copytree(tiny_bert, bare, ignore=shutil.ignore_patterns("tokenizer*", "vocab*"))
    assert main(["--index", small_index, "--model", str(bare)]) == 2
    assert "has no tokenizer" in capsys.readouterr().err


def test_a_port_in_use_is_refused_before_anything_starts(small_index, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["--index", small_index, "--port", str(port)]) == 2
    assert f"--port {port}: cannot listen on 127.0.0.1:{port} (Address already in use)" in capsys.readouterr().err
    require_free_port("127.0.0.1", port)


def test_an_address_of_another_machine_is_refused():
    with pytest.raises(UsageError, match="cannot listen on 192\\.0\\.2\\.1"):
        require_free_port("192.0.2.1", 8000)


def test_the_model_is_found_beside_the_index(small_index, minilm):
    assert resolved(Settings(index=small_index)).model == str(Path(minilm).resolve())


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, "does not record where its model is"),
        ("no/such/model", "cannot be used now"),
        ("other", "has changed since"),
    ],
)
def test_a_model_that_is_not_beside_the_index_must_be_given(small_index, tiny_bert, tmp_path, model, message):
    copy = tmp_path / "index"
    shutil.copytree(small_index, copy)
    run = json.loads((copy / "run.json").read_text())
    run.pop("model")
    if model is not None:
        run["model"] = tiny_bert if model == "other" else model
    (copy / "run.json").write_text(json.dumps(run))
    with pytest.raises(UsageError, match=rf"{message}.*give --model, the model with digest"):
        resolved(Settings(index=str(copy)))


@pytest.fixture
def damaged_index(small_index, tmp_path) -> Path:
    copy = Path(shutil.copytree(small_index, tmp_path / "damaged"))
    file = copy / "concepts/bucket-001.arrow"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 64
    file.write_bytes(content)
    return copy


def test_a_damaged_index_is_refused_before_anything_starts(damaged_index, capsys):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    assert main(["--index", str(damaged_index), "--port", str(port)]) == 2
    stderr = capsys.readouterr().err
    assert "concepts/bucket-001.arrow: content differs from the manifest" in stderr
    assert stderr.count("\n") == 1


def test_verification_can_be_left_out(damaged_index):
    from serving.app import build

    settings = read_settings(["--index", str(damaged_index), "--no-verify"])
    assert not settings.verify
    assert read_settings(["--index", "x"]).verify
    assert build(Settings(index=str(damaged_index), verify=False))


def test_a_manifest_edited_by_hand_is_refused(damaged_index, capsys):
    manifest = json.loads((damaged_index / "manifest.json").read_text())
    manifest["facts"]["spec"] = None
    (damaged_index / "manifest.json").write_text(json.dumps(manifest))
    assert main(["--index", str(damaged_index)]) == 2
    assert "facts.spec: " in capsys.readouterr().err


def test_an_empty_model_is_no_default(small_index, capsys):
    assert main(["--index", small_index, "--model", ""]) == 2
    assert "model: is empty" in capsys.readouterr().err


def test_only_the_encoder_loads_torch():
    """Shards and linkers start faster and stay small."""
    code = "import serving.app, serving.deployments, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0
