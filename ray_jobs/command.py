"""Turn a job's configuration model into its command: one option per field, YAML beneath, one-line errors."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

import typer
import yaml
from pydantic import ByteSize, ValidationError
from pydantic.fields import FieldInfo

from biomodels.errors import BiomodelsError, UsageError, storage_error
from ray_jobs.config import JobConfig

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130

WIDEST_CHOICES = 24
"""Longer lists of choices go into the help text: beside it they would push the names of options off the screen."""

C = TypeVar("C", bound=JobConfig)


def add_job(
    app: typer.Typer, name: str | None, config_type: type[C], main: Callable[[C], object], *, example: str
) -> None:
    """Register `name` on `app`.

    Args:
        app: the command group.
        name: the job's name on the command line; None for a group that is a job itself where no job of it is named.
        config_type: its fields become options; a field with `json_schema_extra={"positional": True}` an argument.
            A bool whose name is not its flag says `json_schema_extra={"flags": "--json/--no-json"}`.
        main: the job. Its docstring is the command's help.
        example: a command line that works, shown by `--help`.
    """

    def command(**given: Any) -> None:
        context = given.pop("context", None)
        if context is not None and context.invoked_subcommand:
            return
        run(main, lambda: load(config_type, given.pop("config"), given))

    parameters = [
        inspect.Parameter(field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_option(field, info))
        for field, info in sorted(config_type.model_fields.items(), key=lambda item: item[0] in JobConfig.model_fields)
    ]
    yaml_option = Annotated[Path | None, typer.Option(help="YAML file of options; the command line wins over it")]
    parameters.append(inspect.Parameter("config", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=yaml_option))
    if name is None:
        parameters.append(inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context))
    # how inspect finds a made signature
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__doc__ = f"{inspect.getdoc(main)}\n\nExample:\n\n    {example}"
    if name is None:
        app.callback(invoke_without_command=True, no_args_is_help=True)(command)
    else:
        app.command(name)(command)


def load(config_type: type[C], file: Path | None, given: dict[str, Any]) -> C:
    """Build a configuration from a YAML file and options given over it.

    Raises:
        UsageError: the file cannot be read, or a value is unknown, missing or wrong; the message names all of them.
    """
    values: dict[str, Any] = {}
    if file is not None:
        try:
            values = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
            raise UsageError(f"--config {file}: cannot be read as YAML ({error})") from error
        if not isinstance(values, dict):
            raise UsageError(f"--config {file}: must be a mapping of options to values")
        values = {str(key).replace("-", "_"): value for key, value in values.items()}
    values |= {key: value for key, value in given.items() if value is not None}
    try:
        return config_type.model_validate(values)
    except ValidationError as error:
        raise UsageError("; ".join(_problem(item) for item in error.errors())) from error


def run(main: Callable[[C], object], configure: Callable[[], C]) -> None:
    """Run a job; a user's error becomes one line on stderr and exit code 2."""
    try:
        main(configure())
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None
    except Exception as error:
        ours = user_error(error)
        if ours is None:
            raise
        print("error: " + " ".join(str(ours).split()), file=sys.stderr)
        raise SystemExit(EXIT_BAD_INPUT) from None


def user_error(error: BaseException | None) -> BiomodelsError | None:
    """Find the user's error inside what Ray wraps around an exception of a task, an actor or a training worker."""
    seen: set[int] = set()
    queue = [error]
    while queue:
        current = queue.pop(0)
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        if isinstance(current, BiomodelsError) and type(current).__module__ == BiomodelsError.__module__:
            return current
        if isinstance(current, OSError) and (found := storage_error(current)):
            return found
        queue += [getattr(current, "cause", None), current.__cause__, current.__context__]
        failures = getattr(current, "worker_failures", None)
        if isinstance(failures, dict):
            queue += failures.values()
    return None


def _option(name: str, info: FieldInfo) -> Any:
    """Return the typer annotation of a field. Values stay text: pydantic alone converts and judges them."""
    kind = _plain(info.annotation)
    extra = info.json_schema_extra
    if isinstance(extra, dict) and extra.get("positional"):
        return Annotated[list[str] | None, typer.Argument(help=info.description, show_default=False)]
    text = info.description or ""
    if info.is_required():
        text += " [required]"
    elif info.default not in (None, (), ""):
        shown = info.default if not isinstance(info.default, tuple) else ",".join(map(str, info.default))
        text += f" [default: {shown}]"
    if kind is bool:
        flags = [str(extra["flags"])] if isinstance(extra, dict) and "flags" in extra else []
        return Annotated[bool | None, typer.Option(*flags, help=text, show_default=False)]
    if get_origin(kind) is Literal:
        names = [str(choice) for choice in get_args(kind)]
        metavar = "|".join(names)
        if len(metavar) > WIDEST_CHOICES:
            metavar = "NAME"
            text += "" if all(name in text for name in names) else f" [one of: {', '.join(names)}]"
    else:
        metavar = {int: "INTEGER", float: "NUMBER", str: "TEXT", ByteSize: "SIZE"}.get(kind, "A,B,…")
    return Annotated[str | None, typer.Option(help=text, metavar=metavar, show_default=False)]


def _plain(annotation: Any) -> Any:
    """Strip `| None` from an annotation."""
    if get_origin(annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
        return kinds[0] if len(kinds) == 1 else str
    return annotation


def _problem(item: Any) -> str:
    option = "--" + ".".join(map(str, item["loc"])).replace("_", "-") if item["loc"] else "options"
    if item["type"] == "missing":
        return f"{option} is required"
    if item["type"] == "extra_forbidden":
        return f"{option}: there is no such option"
    shown = f" (given: {item['input']!r})" if item["loc"] else ""
    return f"{option}: {item['msg'].removeprefix('Value error, ')}{shown}"
