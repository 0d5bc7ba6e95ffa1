"""The proxies by kind, and the methods that the peer may call."""

from classroom.worker.proxy import Proxy
from classroom.worker.remote_memory import RemoteKVCacheManager, RemotePool, RemotePrefixCache
from classroom.worker.remote_scheduling import (
    RemoteChunkPolicy,
    RemoteClamp,
    RemotePreemption,
    RemoteRequestQueue,
    RemoteSchedulerStep,
)


class RemoteFile(Proxy):
    """The learner's file in the worker: see `inside.LearnersFile`."""


PROXIES: dict[str, type[Proxy]] = {
    "kv": RemoteKVCacheManager,
    "queue": RemoteRequestQueue,
    "pool": RemotePool,
    "preemption": RemotePreemption,
    "prefix cache": RemotePrefixCache,
    "chunks": RemoteChunkPolicy,
    "clamp": RemoteClamp,
    "scheduler step": RemoteSchedulerStep,
    "file": RemoteFile,
}
FILE_METHODS = frozenset({"load", "make", "drive"})


def methods(kind: str) -> frozenset[str]:
    """Return the methods that the peer may call on an object of this kind."""
    if kind == "file":
        return FILE_METHODS
    return frozenset(name for name in vars(PROXIES[kind]) if name not in ("__module__", "__doc__"))
