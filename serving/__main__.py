"""`python -m serving`: run the linker over HTTP until Ctrl-C."""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import ValidationError

from biomodels.errors import BiomodelsError, UsageError
from serving.config import ServerSettings, Settings, resolved

EXIT_BAD_INPUT = 2
EXIT_INTERRUPTED = 130
EXAMPLE = "example: python -m serving --index data/hpo/index --model models/m1 --port 8000"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the service; return the exit code."""
    try:
        settings = resolved(read_settings(arguments))
        if not os.environ.get("RAY_ADDRESS"):
            require_free_port(settings.host, settings.port)
        serve_until_stopped(settings)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BiomodelsError as error:
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
        return EXIT_BAD_INPUT
    return 0


def read_settings(arguments: Sequence[str] | None = None) -> ServerSettings:
    """Read the command line, over a YAML file of the same options if `--config` names one.

    Raises:
        UsageError: the file cannot be read, or an option is unknown, missing or wrong.
    """
    parser = argparse.ArgumentParser("python -m serving", description=__doc__, epilog=EXAMPLE, allow_abbrev=False)
    parser.add_argument("--config", metavar="YAML", help="file of options; the command line wins over it")
    for name, field in ServerSettings.model_fields.items():
        default = "" if field.is_required() or field.default is None else f" [default: {field.default}]"
        option = "--" + name.replace("_", "-")
        text = f"{field.description}{default}".replace("%", "%%")
        if field.annotation is bool:
            action = argparse.BooleanOptionalAction
            parser.add_argument(option, action=action, default=argparse.SUPPRESS, help=text)
            continue
        metavar = "|".join(get_args(field.annotation)) if name == "layout" else name.upper()
        parser.add_argument(option, metavar=metavar, default=argparse.SUPPRESS, help=text)
    given = vars(parser.parse_args(arguments))
    file = given.pop("config")
    try:
        return ServerSettings.model_validate(_read_yaml(file) | given)
    except ValidationError as error:
        raise UsageError("; ".join(map(_problem, error.errors()))) from error


def _read_yaml(file: str | None) -> dict[str, Any]:
    if file is None:
        return {}
    try:
        values = yaml.safe_load(Path(file).read_text(encoding="utf-8")) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise UsageError(f"--config {file}: cannot be read as YAML ({error})") from error
    if not isinstance(values, dict):
        raise UsageError(f"--config {file}: must be a mapping of options to values")
    return {str(name).replace("-", "_"): value for name, value in values.items()}


def _problem(item: Any) -> str:
    if not item["loc"]:
        return str(item["msg"]).removeprefix("Value error, ")
    option = "--" + ".".join(map(str, item["loc"])).replace("_", "-")
    if item["type"] == "missing":
        return f"{option} is required"
    if item["type"] == "extra_forbidden":
        return f"{option}: there is no such option"
    return f"{option}: {item['msg']} (given: {item['input']!r})"


def require_free_port(host: str, port: int) -> None:
    """Refuse an address that cannot be listened on, before anything is started.

    Raises:
        UsageError: another process has the port, or this machine lacks the address.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        raise UsageError(f"--port {port}: cannot listen on {host}:{port} ({error.strerror}); choose another") from error


def serve_until_stopped(settings: ServerSettings) -> None:
    """Deploy on a Ray of our own, or on the cluster of `RAY_ADDRESS`; wait for SIGINT or SIGTERM; take all down."""
    from ray import serve
    from ray.serve.exceptions import RayServeException
    from ray.serve.schema import LoggingConfig

    from serving.app import NAME, build

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    application = build(Settings(**settings.model_dump(include=set(Settings.model_fields))))
    with _ray(_logical_cpus(settings)) as own:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)
        try:
            serve.start(
                proxy_location="HeadOnly" if own else "EveryNode",
                http_options={"host": settings.host, "port": settings.port},
                logging_config=LoggingConfig(log_level="WARNING", enable_access_log=False),
            )
            serve.run(application, name=NAME, route_prefix="/")
            name, place = ("linker", "") if settings.index else ("sentence search", "/search")
            print(f"the {name} is ready: {_url(settings)}{place}  (Ctrl-C stops it)", flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                while True:
                    signal.pause()
        finally:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_IGN)
            with contextlib.suppress(RayServeException):  # stopped before Serve ran
                serve.delete(NAME)  # and no serve.shutdown: of our own Ray nothing stays, and it reports its own end


def _logical_cpus(settings: Settings) -> int:
    """CPUs of our own Ray: more than all deployments ask for, so that none waits for a place."""
    return max(4, 2 * len(os.sched_getaffinity(0)), 8 * settings.replicas)


@contextlib.contextmanager
def _ray(num_cpus: int) -> Iterator[bool]:
    """Connect to `RAY_ADDRESS`, else start a Ray of our own; yield whether it is our own."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import ray

    own = not os.environ.get("RAY_ADDRESS")
    options: dict[str, Any] = {"address": "local", "num_cpus": num_cpus, "include_dashboard": False} if own else {}
    ray.init(logging_level=logging.WARNING, log_to_driver=False, **options)
    try:
        yield own
    finally:
        ray.shutdown()


def _url(settings: ServerSettings) -> str:
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.host, settings.host)
    return f"http://[{host}]:{settings.port}" if ":" in host else f"http://{host}:{settings.port}"


if __name__ == "__main__":
    sys.exit(main())
