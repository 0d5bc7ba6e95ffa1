"""Our router in the place where Ray Serve chooses a replica."""

from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from serving.ray_serve.asgi_call import PlainRequest
from serving.router.policies import PrefixAware
from serving.router.prompt_prefix import prefix_of_bytes


class PrefixAwareRequestRouter(RequestRouter):
    """The replica that knows the longest prefix of a prompt; of several the least loaded, by what was sent from here.

    (Ray's own for LLMs: `PrefixCacheAffinityRouter`.)
    """

    def initialize_state(self, **settings: int) -> None:
        """Called by Ray with `request_router_kwargs`: the settings of `PrefixAware`."""
        self.policy = PrefixAware(**settings)
        self.loads: dict[ReplicaID, int] = {}
        self.numbers: dict[ReplicaID, int] = {}

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Return the chosen replica, and behind it all others: they get the request if it is full or gone."""
        if not candidate_replicas:
            return []
        by_number = {self._number(replica.replica_id): replica for replica in candidate_replicas}
        loads = {number: self.loads.get(replica.replica_id, 0) for number, replica in by_number.items()}
        request = pending_request.args[0] if pending_request and pending_request.args else None
        prefix = prefix_of_bytes(request.body) if isinstance(request, PlainRequest) else []
        chosen = by_number.pop(self.policy.choose(prefix, loads))
        return [[chosen], list(by_number.values())] if by_number else [[chosen]]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        self.loads[replica_id] = self.loads.get(replica_id, 0) + 1

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        self.loads[replica_id] = max(0, self.loads.get(replica_id, 0) - 1)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        super().on_replica_actor_died(replica_id)
        self.policy.forget(self._number(replica_id))
        self.loads.pop(replica_id, None)

    def _number(self, replica_id: ReplicaID) -> int:
        return self.numbers.setdefault(replica_id, len(self.numbers))
