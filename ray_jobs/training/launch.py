"""Start the workers with Ray Train, show their progress, and start them again when one dies."""

from __future__ import annotations

import os
import socket
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from biomodels.errors import BiomodelsError, UsageError
from ray_jobs.progress import bar, say
from ray_jobs.training.loop import Device, TrainPlan, train_worker

POLL_S = 0.5


class Board:
    """An actor on which the first worker writes how far it is. Plain numbers only; the driver reads them."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._step: int | None = None
        self._loss: float | None = None

    def start(self, step: int) -> None:
        """Note that workers have started, at this step."""
        self._starts.append(step)
        self._step = step

    def post(self, step: int, loss: float) -> None:
        """Note how many steps are done, and the loss of the last one."""
        self._step, self._loss = step, loss

    def read(self) -> tuple[list[int], int | None, float | None]:
        """Return all starts so far, steps done, and the last loss."""
        return self._starts, self._step, self._loss


def fit(plan: TrainPlan, *, workers: int, device: Device, storage_uri: str, max_failures: int) -> None:
    """Train to the last checkpoint.

    Args:
        plan: what to do.
        workers: how many processes, one CPU (or one GPU) each.
        device: of every worker.
        storage_uri: where Ray Train may write its own records; nothing of ours depends on them.
        max_failures: how often dead workers are replaced; each time they go on from the last complete checkpoint.

    Raises:
        BiomodelsError: training met a condition that would come again.
    """
    import ray
    from ray.train import FailureConfig, LoggingConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    board = ray.remote(num_cpus=0)(Board).remote()
    on_gpu = device == "cuda"
    trainer = TorchTrainer(
        train_worker,
        train_loop_config={"plan": plan, "device": device, "board": board},
        torch_config=TorchConfig(backend="nccl" if on_gpu else "gloo"),
        scaling_config=ScalingConfig(num_workers=workers, use_gpu=on_gpu),
        run_config=RunConfig(
            # A new name each time: under a known one Ray would go on from its own record of an earlier attempt.
            name=f"train-{uuid.uuid4().hex[:12]}",
            storage_path=storage_uri,
            logging_config=LoggingConfig(log_level="WARNING"),
            failure_config=FailureConfig(max_failures=max_failures),
            worker_runtime_env={"env_vars": _worker_environment(device)},
        ),
    )
    with _shown_progress(board, plan.steps):
        stopped = trainer.fit().return_value
    if stopped:
        raise BiomodelsError(f"training stopped at {stopped}; lower --learning-rate, set --clip, or look at the data")


def choose_device(wanted: str, workers: int) -> Device:
    """Return the device of the workers: as wanted, or `cuda` if the cluster has a GPU for each of them.

    Raises:
        UsageError: GPUs are wanted, and the cluster has none.
    """
    import ray

    resources = ray.cluster_resources()
    gpus = int(resources.get("GPU", 0))
    if wanted == "auto":
        return "cuda" if gpus >= workers else "cpu"
    if wanted == "cuda" and gpus == 0:
        raise UsageError("--device cuda: the Ray cluster has no GPU; use --device cpu")
    return "cuda" if wanted == "cuda" else "cpu"


def _worker_environment(device: Device) -> dict[str, str]:
    variables = {"DS_ACCELERATOR": device, "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
    # Let malloc keep the memory of activations from step to step: giving it back and faulting it in again took a fifth
    # of a CPU worker's time.
    variables |= {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(1 << 32)}
    interface = _cluster_interface()
    if interface:
        for name in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"):
            variables[name] = os.environ.get(name, interface)
    return variables


def _cluster_interface() -> str | None:
    """Return the network interface that has this node's Ray address, or None on a single node.

    Without it gloo binds the loopback interface on many hosts, and the ranks do not find each other. Nodes are taken
    to name their interfaces alike; set GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME where they do not.
    """
    import ray

    addresses = {node["NodeManagerAddress"] for node in ray.nodes() if node["Alive"]}
    return interface_of(ray.util.get_node_ip_address()) if len(addresses) > 1 else None


def interface_of(address: str) -> str | None:
    """Return the name of the network interface that has an IPv4 address (Linux)."""
    import fcntl
    import struct

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), 0x8915, struct.pack("256s", name.encode()[:15]))  # SIOCGIFADDR
            except OSError:
                continue
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return None


@contextmanager
def _shown_progress(board: Any, steps: int) -> Iterator[None]:
    """Show the bar while the block runs, from a thread, for the block waits on Ray Train."""
    import ray

    ended = threading.Event()

    def show() -> None:
        seen = 0
        progress = None
        while not ended.wait(POLL_S):
            starts, step, loss = ray.get(board.read.remote())
            if len(starts) > seen:
                if progress is not None:
                    progress.close()
                if seen or starts[-1]:
                    say(f"resuming at step {starts[-1]} of {steps}: {starts[-1]} steps kept")
                progress = bar("train", steps, "steps", done=starts[-1])
                seen = len(starts)
            if progress is not None:
                progress.set_postfix(loss=f"{loss:.4f}" if loss is not None else "-", refresh=False)
                progress.update(step - progress.n)
        if progress is not None:
            progress.close()

    thread = threading.Thread(target=show, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(timeout=10)
