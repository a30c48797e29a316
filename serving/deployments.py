"""What the replicas of each deployment do: encode, search a shard, link over HTTP."""

from __future__ import annotations

import asyncio
import itertools
import platform
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from typing import Any, TypeVar

import numpy as np
from fastapi import FastAPI
from numpy.typing import NDArray
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError, DeploymentUnavailableError
from ray.serve.handle import DeploymentHandle

from biomodels import storage
from biomodels.index.filters import NameFilter
from biomodels.index.manifest import open_index
from biomodels.index.names import NameRow
from biomodels.index.sharded import ShardedIndex, merge_topk, shard_of
from biomodels.linking.linker import Candidate, Linker, encoder_options
from biomodels.terminology.normalise import Normaliser
from serving.api import create_app
from serving.config import Settings
from serving.problems import UnavailableError
from serving.search import RemoteSearcher

CONCURRENT_REQUESTS = 128  # per linker replica; more wait in the proxy
HEALTH_TIMEOUT_S = 20.0
TopK = tuple[NDArray[np.float32], NDArray[np.int64]]
T = TypeVar("T")


def texts_in(requests: Sequence[Sequence[str]]) -> int:
    """Return the size of a batch of requests: their texts.

    A request on its own always fits, however large: Serve fails one that is larger than the limit. It never raises
    for lists: an exception here would stop Serve's batching for good.
    """
    return 1 if len(requests) == 1 else sum(len(texts) for texts in requests)


def open_for_search(settings: Settings, only: Sequence[int] | None = None) -> ShardedIndex:
    """Open the index in a replica.

    Files that all processes share were verified by `build`; copies in a node's cache are verified here.
    """
    verify = settings.verify and not storage.is_local(settings.index)
    return ShardedIndex.open(settings.index, only=only, verify=verify)


class EncoderReplica:
    """The model. Requests that arrive together are encoded together."""

    def __init__(self, settings: Settings) -> None:
        from biomodels.inference.text_encoder import TextEncoder  # torch: the other replicas do without

        options = encoder_options(open_index(settings.index)[0].facts)
        self._encoder = TextEncoder(str(settings.model), threads=settings.threads, **options)
        self.encode.set_max_batch_size(settings.max_batch)
        self.encode.set_batch_wait_timeout_s(settings.batch_wait_ms / 1000)
        self._encoder.encode(["warm up"])

    async def describe(self) -> dict[str, Any]:
        """Return the model's digest and spec."""
        spec = self._encoder.spec.model_dump()
        return {"digest": self._encoder.digest, "dimension": self._encoder.dimension, **spec}

    @serve.batch(batch_size_fn=texts_in)  # type: ignore[untyped-decorator]  # Serve's decorator is untyped
    async def encode(self, requests: list[list[str]]) -> list[NDArray[np.float32]]:
        """Encode the texts of each request, all at once; the forward pass leaves the event loop free."""
        texts = list(itertools.chain.from_iterable(requests))
        E_ND = await asyncio.to_thread(self._encoder.encode, texts)
        return np.split(E_ND, np.cumsum([len(request) for request in requests])[:-1])

    async def check_health(self) -> None:
        """Encode a word; Serve replaces the replica if that fails or hangs."""
        await asyncio.wait_for(asyncio.to_thread(self._encoder.encode, ["health"]), HEALTH_TIMEOUT_S)


class ShardReplica:
    """One shard of the index."""

    def __init__(self, settings: Settings, number: int) -> None:
        self._index = open_for_search(settings, only=[number])

    async def search(self, E_ND: NDArray[np.float32], k: int, nprobe: int | None, where: NameFilter | None) -> TopK:
        """Search this shard; see `ShardedIndex.search`."""
        return await asyncio.to_thread(self._index.search, E_ND, k, nprobe=nprobe, where=where)

    async def matching(self, where: NameFilter) -> int:
        """Return how many strings of this shard may answer."""
        return await asyncio.to_thread(self._index.matching, where)

    async def rows_of(self, name_ids: list[int], where: NameFilter | None) -> dict[int, list[NameRow]]:
        """Return the rows of strings of this shard; see `ShardedIndex.rows_of`."""
        return await asyncio.to_thread(self._index.rows_of, name_ids, where)


class Bridge:
    """Lets a worker thread call deployments, whose handles belong to the replica's event loop."""

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._timeout_s = timeout_s

    def gather(self, calls: Iterable[Callable[[], Awaitable[T]]]) -> list[T]:
        """Start all calls and wait for them.

        Raises:
            TimeoutError: one takes too long.
            UnavailableError: a deployment has no replica that answers, or too many requests wait for it.
        """

        async def run() -> list[T]:
            async with asyncio.timeout(self._timeout_s):
                return list(await asyncio.gather(*(call() for call in calls)))

        try:
            return asyncio.run_coroutine_threadsafe(run(), self._loop).result()
        except (RayActorError, BackPressureError, DeploymentUnavailableError) as error:
            raise UnavailableError(
                "the model or a shard is restarting or overloaded; try again in some seconds"
            ) from error


class RemoteEncoder:
    """The encoder deployment, as the linker sees it."""

    def __init__(self, handle: DeploymentHandle, digest: str, bridge: Bridge) -> None:
        self.digest = digest
        self._handle = handle
        self._bridge = bridge

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts; call it from a worker thread."""
        E_ND: NDArray[np.float32] = self._bridge.gather([partial(self._handle.encode.remote, list(texts))])[0]
        return E_ND


class RemoteShards:
    """The shard deployments, as the linker sees them: one index."""

    def __init__(self, handles: Sequence[DeploymentHandle], facts: Mapping[str, Any], bridge: Bridge) -> None:
        self.facts = facts
        self.model_digest = str(facts["model_digest"])
        self.normaliser = Normaliser.from_name(str(facts["normaliser"]))
        self.nprobe = int(facts["nprobe"])
        self._handles = handles
        self._bridge = bridge

    def search(
        self, E_ND: NDArray[np.float32], k: int, *, nprobe: int | None = None, where: NameFilter | None = None
    ) -> TopK:
        """Search all shards at once; see `ShardedIndex.search`."""
        calls = [partial(handle.search.remote, E_ND, k, nprobe, where) for handle in self._handles]
        return merge_topk(self._bridge.gather(calls), k)

    def matching(self, where: NameFilter | None) -> int:
        """Return how many strings may answer; see `ShardedIndex.matching`."""
        if where is None:
            return int(self.facts["strings"])
        return sum(self._bridge.gather([partial(handle.matching.remote, where) for handle in self._handles]))

    def rows_of(self, name_ids: Iterable[int], where: NameFilter | None = None) -> dict[int, list[NameRow]]:
        """Ask each shard for the strings that lie in it."""
        by_shard: dict[int, list[int]] = {}
        for name_id in name_ids:
            if name_id >= 0:
                by_shard.setdefault(shard_of(name_id, len(self._handles)), []).append(name_id)
        calls = [partial(self._handles[shard].rows_of.remote, ids, where) for shard, ids in by_shard.items()]
        return dict(itertools.chain.from_iterable(rows.items() for rows in self._bridge.gather(calls)))


class LinkerReplica:
    """The HTTP interface and the linker.

    Linking runs in worker threads, so that the event loop stays free to take requests.
    """

    async def __init__(  # type: ignore[misc] # Serve awaits it
        self,
        settings: Settings,
        encoder: DeploymentHandle,
        shards: Sequence[DeploymentHandle] = (),
        searcher: DeploymentHandle | None = None,
    ) -> None:
        self._settings = settings
        self._searcher = None if searcher is None else RemoteSearcher(searcher)
        bridge = Bridge(settings.timeout_s)
        self._model = await encoder.describe.remote()
        artifact, _ = open_index(settings.index)
        index = RemoteShards(shards, artifact.facts, bridge) if shards else open_for_search(settings)
        self._index_info = {"digest": artifact.digest, **artifact.facts}
        self._linker = Linker(
            RemoteEncoder(encoder, self._model["digest"], bridge), index, max_characters=settings.max_characters
        )
        self._threads = ThreadPoolExecutor(CONCURRENT_REQUESTS, thread_name_prefix="link")

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Return the HTTP application; `serve.ingress` calls this after the constructor."""
        return create_app(self, self._settings, self._searcher)

    async def link(self, mentions: list[str], k: int, where: NameFilter | None) -> list[list[Candidate]]:
        """Link mentions; see `Linker.link`."""
        work = partial(self._linker.link, mentions, k, where=where)
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def info(self) -> dict[str, Any]:
        """Return what `/v1/info` shows."""
        limits = ("max_mentions", "max_characters", "max_k", "max_body_bytes", "timeout_s")
        packages = ("biomodels", "ray", "torch", "transformers", "tokenizers", "numpy")
        return {
            "model": self._model,
            "index": self._index_info,
            "limits": self._settings.model_dump(include=set(limits)),
            "layout": self._settings.layout,
            "search": self._searcher is not None,
            "versions": {"python": platform.python_version(), **{name: version(name) for name in packages}},
        }


class SearchIngress:
    """The HTTP interface of the sentence search without a linker."""

    def __init__(self, settings: Settings, searcher: DeploymentHandle) -> None:
        self._settings = settings
        self._searcher = RemoteSearcher(searcher)

    def __serve_build_asgi_app__(self) -> FastAPI:
        """Return the HTTP application."""
        return create_app(None, self._settings, self._searcher)
