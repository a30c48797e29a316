"""Ray for one job: the cluster that `RAY_ADDRESS` names, else a Ray of our own on this machine."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor


def default_cpus() -> int:
    """Logical CPUs of a local Ray.

    More than the cores: Ray Data's actors and Ray Train's workers hold CPUs while they wait for the tasks that feed
    them, and with few CPUs nothing would be left for those. Threads are limited by the jobs themselves.
    """
    return max(4, 2 * len(os.sched_getaffinity(0)))


@contextlib.contextmanager
def session(num_cpus: int | None = None) -> Iterator[None]:
    """Connect to Ray, and disconnect at the end; a Ray that is already connected is used and left as it is."""
    os.environ.setdefault("RAY_DEDUP_LOGS", "1")
    # Ray Train asks the dashboard once a second; without a dashboard it says so once a second.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "Failed to query Ray Train Controller actor state")
    os.environ.setdefault("RAY_TRAIN_HEALTH_CHECK_INTERVAL_S", "0.5")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    # A busy machine may need more than Ray's half minute to start its node; a slow start is better than none.
    os.environ.setdefault("RAY_agent_register_timeout_ms", "180000")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    import ray

    if ray.is_initialized():
        yield
        return
    # That a token protects the local Ray, as it should, is no warning.
    logging.getLogger("ray._private.authentication.authentication_token_setup").setLevel(logging.ERROR)
    with ThreadPoolExecutor(1) as beside:  # loading Ray Data takes a second, which Ray's start leaves to us
        loading = beside.submit(_quiet_ray_data)
        if os.environ.get("RAY_ADDRESS"):
            ray.init(log_to_driver=True, logging_level=logging.WARNING)
        else:
            ray.init(
                address="local",
                num_cpus=num_cpus or default_cpus(),
                include_dashboard=False,
                logging_level=logging.WARNING,
                log_to_driver=True,
            )
        loading.result()
    try:
        yield
    finally:
        ray.shutdown()


def _quiet_ray_data() -> None:
    """Our own progress bars speak for the job; Ray Data's would mix with them."""
    from ray.data import DataContext

    context = DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    for name in ("ray.data", "ray.data._internal.progress"):  # the second warns that the bars are off
        logging.getLogger(name).setLevel(logging.ERROR)
