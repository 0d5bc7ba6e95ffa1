"""Layers of a scheduler. Each takes the scheduler's parts and returns them wrapped by one elective.

A `CacheLayer` changes which blocks are found; it wraps the prefix cache before phase 2 receives it. A `Layer` wraps any
parts, including phase 1's functions. A different release of vLLM's scheduler is a `Layer`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mini_vllm.assembly.elective_parts import Electives
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import hash_block_for
from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.scheduler_parts import SchedulerParts
from mini_vllm.electives.gates.connector import KVConnector
from mini_vllm.electives.gates.encoder_gate import EncoderGate
from mini_vllm.electives.gates.gate import Gate, GrammarGate
from mini_vllm.electives.gates.gated import AdmissionGates
from mini_vllm.electives.gates.kv_transfers import KVTransfers
from mini_vllm.electives.policy.policy_step import PolicyScheduling
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.electives.prefix_caches import DelayedCommits, ImagesInHashes, ObservedPrefixCache, SkippablePrefixCache
from mini_vllm.electives.tokens_ahead import TokensAhead

CacheLayer = Callable[[PrefixCache], PrefixCache]
Layer = Callable[[SchedulerParts], SchedulerParts]


@dataclass(frozen=True, slots=True)
class SchedulerLayers:
    """The layers of one scheduler. `build_scheduler` explains the fields."""

    config: EngineConfig
    lineup: Lineup
    electives: Electives
    on_evict: Callable[[int], object] | None
    make_connector: Callable[[], KVConnector] | None
    policy: SchedulingPolicy | None
    clock: Callable[[], float]
    images_have_places: bool

    @property
    def caches(self) -> bool:
        """Whether phase 4 is present and enabled."""
        return self.config.enable_prefix_caching and self.lineup.prefix_cache != "absent"

    def around_prefix_cache(self) -> Sequence[CacheLayer]:
        """Return the layers around phase 4, innermost first. Unneeded layers are omitted and cost nothing."""
        asked: list[tuple[bool, CacheLayer]] = [
            (self.caches and self.electives.admission is not None, self._with_images),
            (self.caches, SkippablePrefixCache),
            (self.on_evict is not None, self._observed),
            (self.make_connector is not None, DelayedCommits),
        ]
        return [layer for is_asked, layer in asked if is_asked]

    def around_parts(self) -> Sequence[Layer]:
        """Return the layers around phases 1 to 5, innermost first. Unneeded layers are omitted and cost nothing."""
        electives, has_grammars = self.electives, self.lineup.structured_output != "absent"
        plans_ahead = electives.speculation is not None or electives.async_scheduling is not None
        has_gates = electives.admission is not None or self.make_connector is not None or has_grammars
        asked: list[tuple[bool, Layer]] = [
            (self.policy is not None, self._under_policy),
            (plans_ahead, self._with_tokens_ahead),
            (has_gates, self._with_gates),
        ]
        return [layer for is_asked, layer in asked if is_asked]

    def _with_images(self, inner: PrefixCache) -> PrefixCache:
        admission, hash_block = self.electives.admission, hash_block_for(self.lineup.prefix_cache)
        assert admission is not None
        assert hash_block is not None
        return ImagesInHashes(
            inner, hash_block, admission.extra_keys, self.config.block_size, has_places=self.images_have_places
        )

    def _observed(self, inner: PrefixCache) -> PrefixCache:
        assert self.on_evict is not None
        return ObservedPrefixCache(inner, self.on_evict)

    def _under_policy(self, parts: SchedulerParts) -> SchedulerParts:
        """Let the policy order the queue and the victims, and limit shares."""
        assert self.policy is not None
        policed = PolicyScheduling(self.policy, parts.functions, self.clock)
        functions, preemption = policed.functions, policed.preemption(parts.preemption)
        return replace(parts, functions=functions, preemption=preemption, waiting=policed.new_queue())

    def _with_tokens_ahead(self, parts: SchedulerParts) -> SchedulerParts:
        """Add phases 7 and 8, which plan steps with tokens that are not known yet."""
        ahead = TokensAhead(
            self.electives.make_speculation(),
            self.electives.make_async_scheduling(),
            self.config.sizes[0],
            chunks=parts.chunks,
            kv=parts.kv,
            prefix_cache=parts.prefix_cache,
        )
        return replace(parts, ahead=ahead, chunks=ahead.chunks, kv=ahead.kv)

    def _with_gates(self, parts: SchedulerParts) -> SchedulerParts:
        """Add phases 9 to 11, which let a request wait for its grammar, adapter, images or transferred KV."""
        transfers = None
        if self.make_connector is not None:
            assert isinstance(parts.prefix_cache, DelayedCommits), "with a connector it is the outermost cache layer"
            transfers = KVTransfers(self.make_connector(), parts.kv, parts.prefix_cache)
        kinds = [GrammarGate(), *self._gates_of_phase_11()]
        gates = AdmissionGates(kinds, transfers, waiting=parts.waiting, chunks=parts.chunks, kv=parts.kv)
        return replace(parts, gates=gates, waiting=gates.waiting, chunks=gates.chunks, kv=gates.kv)

    def _gates_of_phase_11(self) -> list[Gate]:
        gates, config, admission = list[Gate](), self.config, self.electives.admission
        if admission is not None and config.max_loras is not None:
            gates.append(admission.make_adapter_gate(config.max_loras))
        if admission is not None and config.max_num_encoder_input_tokens and config.encoder_cache_size:
            cache = admission.make_encoder_cache(config.encoder_cache_size)
            gates.append(EncoderGate(config.max_num_encoder_input_tokens, cache, admission.schedule_encoder_inputs))
        return gates
