"""The application builder: one import path, `serving.app:build`, for one machine and for a cluster."""

from __future__ import annotations

from typing import Any

from ray import serve
from ray.serve import Application

from serving.config import Settings, resolved

NAME = "linker"


def build(args: Settings) -> Application:
    """Return the Serve application.

    Raises:
        BiomodelsError: the index or the model cannot be used, or they do not belong together.
    """
    from biomodels import storage
    from biomodels.index.manifest import open_index
    from biomodels.index.sharded import ShardedIndex
    from serving.deployments import CONCURRENT_REQUESTS, EncoderReplica, LinkerReplica, SearchIngress, ShardReplica
    from serving.search import SearchReplica

    settings = resolved(args)
    if settings.index and settings.verify and storage.is_local(settings.index):
        ShardedIndex.open(settings.index, verify=True)

    def deploy(
        replica: type[Any], name: str, num_cpus: float, max_ongoing_requests: int, *arguments: Any
    ) -> Application:
        deployment = serve.deployment(
            replica,
            name=name,
            num_replicas=settings.replicas,
            max_ongoing_requests=max_ongoing_requests,
            max_constructor_retry_count=2,
            ray_actor_options={"num_cpus": num_cpus},
        )
        return deployment.bind(settings, *arguments)

    searcher = None
    if settings.sentence_model is not None:
        searcher = serve.deployment(  # one replica: it holds the corpora that people load
            SearchReplica,
            name="search",
            max_ongoing_requests=CONCURRENT_REQUESTS,
            max_constructor_retry_count=2,
            ray_actor_options={"num_cpus": 1},
        ).bind(settings)
    if not settings.index:
        return deploy(serve.ingress()(SearchIngress), "linker", 0.2, CONCURRENT_REQUESTS, searcher)
    inner_requests = 4 * CONCURRENT_REQUESTS  # several linkers ask one encoder or shard
    shards = open_index(settings.index)[1].shards if settings.layout == "per-shard" else 0
    encoder = deploy(EncoderReplica, "encoder", 1, inner_requests)
    searchers = [deploy(ShardReplica, f"shard-{number}", 0.2, inner_requests, number) for number in range(shards)]
    return deploy(serve.ingress()(LinkerReplica), "linker", 0.5, CONCURRENT_REQUESTS, encoder, searchers, searcher)
