"""The command line made from configuration models."""

import errno
import os
from pathlib import Path
from typing import Literal

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from biomodels.errors import InputError, UsageError
from ray_jobs.command import add_job, load, user_error
from ray_jobs.config import CommaList, JobConfig


class Config(JobConfig):
    out: str = Field(description="where it goes")
    steps: int = Field(default=10, ge=1, description="how many")
    rate: float | None = Field(default=None, description="how fast")
    kind: Literal["a", "b"] = Field(default="a", description="which")
    languages: CommaList = Field(default=(), description="several")
    loud: bool = Field(default=False, description="or not")
    mentions: tuple[str, ...] = Field(default=(), description="texts", json_schema_extra={"positional": True})


seen: list[Config] = []


def main(config: Config) -> None:
    """Do what the test wants."""
    if config.out == "bad":
        raise InputError.at("file.txt", 7, "two\nlines", "mend it")
    if config.out == "full":
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/disk/part")
    if config.out == "bug":
        raise ValueError("a defect")
    seen.append(config)


@pytest.fixture
def invoke():
    app = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode="markdown")
    app.callback()(lambda: None)
    add_job(app, "work", Config, main, example="python -m ray_jobs work --out x")
    return lambda *arguments: CliRunner().invoke(app, ["work", *arguments])


def test_options_become_the_configuration(invoke):
    arguments = "--out x --steps 3 --rate 0.5 --kind b --languages en,de --loud"
    result = invoke(*arguments.split(), "m, n")
    assert result.exit_code == 0, result.output
    assert seen[-1] == Config(
        out="x", steps=3, rate=0.5, kind="b", languages=("en", "de"), loud=True, mentions=("m, n",)
    )


def test_the_command_line_wins_over_yaml_and_yaml_over_defaults(invoke, tmp_path: Path):
    file = tmp_path / "c.yaml"
    file.write_text("out: y\nsteps: 5\nloud: true\nlanguages: [en, fr]\n")
    assert invoke("--config", str(file), "--steps", "6", "--no-loud").exit_code == 0
    assert seen[-1] == Config(out="y", steps=6, loud=False, languages=("en", "fr"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "error: --out is required"),
        (("--out", "x", "--steps", "0"), "error: --steps: Input should be greater than or equal to 1 (given: '0')"),
        (("--out", "x", "--steps", "many"), "error: --steps: "),
        (("--out", "x", "--kind", "c"), "error: --kind: Input should be 'a' or 'b'"),
        (("--out", "x", "--config", "missing.yaml"), "error: --config missing.yaml: cannot be read"),
        (("--out", ""), "error: --out: String should have at least 1 character"),
        (("--out", "x", "--rate", "nan"), "error: --rate: Input should be a finite number"),
        (("--out", "full"), "error: /disk/part: No space left on device; make room and run the same command again"),
        (("--out", "bad"), "error: file.txt:7: two lines; mend it"),
    ],
)
def test_a_user_error_is_one_line_and_exit_code_2(invoke, arguments, message: str):
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def test_a_defect_keeps_its_traceback(invoke):
    assert isinstance(invoke("--out", "bug").exception, ValueError)


@pytest.mark.parametrize("content", ["- a\n", "steps: [", "unknown: 1\nout: x\n"])
def test_bad_yaml_is_named(tmp_path: Path, content: str):
    file = tmp_path / "c.yaml"
    file.write_text(content)
    with pytest.raises(UsageError, match=r"unknown|config"):
        load(Config, file, {})


def test_help_shows_text_default_and_example(invoke):
    output = " ".join(invoke("--help").output.replace("│", " ").split())
    for text in (
        "Do what the test wants.",
        "how many [default: 10]",
        "ray_jobs work --out x",
        "--no-loud",
        "[required]",
    ):
        assert text in output


def test_a_user_error_is_found_under_what_wraps_it():
    try:
        try:
            raise InputError("inner")
        except InputError as error:
            raise RuntimeError("task failed") from error
    except RuntimeError as wrapped:
        assert str(user_error(wrapped)) == "inner"
    assert user_error(RuntimeError("nothing of ours")) is None


def test_the_byte_config_leaves_placement_out():
    one, other = Config(out="x", num_cpus=1), Config(out="y", num_cpus=8)
    assert one.byte_config() == other.byte_config()
    assert Config(out="x", steps=3).byte_config() != one.byte_config()
