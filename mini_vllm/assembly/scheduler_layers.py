"""Layers of a scheduler. Each layer receives the scheduler's parts and returns them wrapped in one elective.

A `CacheLayer` changes which blocks are found; it wraps the prefix cache before phase 2 receives it. A `Layer` wraps any
parts, including phase 1's functions. A different release of vLLM's scheduler is also a `Layer`.

`newer_release` is imported where it is used, because the default rules (0.13.0) need none of its ten modules.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mini_vllm.assembly.cache_layers import CacheLayer
from mini_vllm.assembly.elective_parts import Electives
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import hash_block_for
from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import PrefixCache
from mini_vllm.core.scheduler_parts import SchedulerParts
from mini_vllm.electives.gates.connector import KVConnector
from mini_vllm.electives.gates.encoder_gate import EncoderGate
from mini_vllm.electives.gates.gate import Gate, GrammarGate, LookaheadGate
from mini_vllm.electives.gates.gated import AdmissionGates, ChangedGates
from mini_vllm.electives.gates.kv_transfers import KVTransfers
from mini_vllm.electives.policy.policy_step import PolicyScheduling
from mini_vllm.electives.policy.scheduling_policy import SchedulingPolicy
from mini_vllm.electives.prefix_caches import (
    CheckedPrefixCache,
    DelayedCommits,
    ImagesInHashes,
    ObservedPrefixCache,
    SkippablePrefixCache,
)
from mini_vllm.electives.tokens_ahead import TokensAhead
from mini_vllm.electives.windows.grouped_prefix_cache import GroupedPrefixCache
from mini_vllm.release_rules import RELEASES, rules_of

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
        """Return the layers around phase 4, innermost first.

        Layers that are not needed are omitted, and cost nothing.
        """
        asked: list[tuple[bool, CacheLayer]] = [
            (self.caches, _with_checked_hits),
            (self.caches and self.electives.admission is not None, self._with_images),
            (self.on_evict is not None, self._observed),
            (self._hash_lookahead > 0, self._with_lookahead_hashes),
            (self.config.vllm != RELEASES[0], _with_counted_entries),
            (self.make_connector is not None, DelayedCommits),
        ]
        return [layer for is_asked, layer in asked if is_asked]

    def around_parts(self) -> Sequence[Layer]:
        """Return the layers around phases 1 to 5, innermost first.

        Layers that are not needed are omitted, and cost nothing.
        """
        electives, has_grammars = self.electives, self.lineup.structured_output != "absent"
        plans_ahead = electives.speculation is not None or electives.async_scheduling is not None
        has_gates = electives.admission is not None or self.make_connector is not None or has_grammars
        has_gates |= self._prefill_lookahead > 1
        asked: list[tuple[bool, Layer]] = [
            (self.policy is not None, self._under_policy),
            (plans_ahead, self._with_tokens_ahead),
            (self.config.vllm != RELEASES[0], _with_newer_chunks),
            (has_gates, self._with_gates),
            (self.config.vllm != RELEASES[0], _with_newer_steps),
        ]
        return [layer for is_asked, layer in asked if is_asked]

    def _with_images(self, inner: PrefixCache) -> PrefixCache:
        admission, hash_block = self.electives.admission, hash_block_for(self.lineup.prefix_cache)
        assert admission is not None
        assert hash_block is not None
        return ImagesInHashes(
            inner, hash_block, admission.extra_keys, self.config.block_size, has_places=self.images_have_places
        )

    @property
    def _prefill_lookahead(self) -> int:
        """How many tokens past the end of a chunk the drafter reads; 0 if the release ignores them."""
        speculative, rules = self.config.speculative_config, rules_of(self.config.vllm)
        return speculative.prefill_lookahead if speculative is not None and rules.prefill_lookahead else 0

    @property
    def _hash_lookahead(self) -> int:
        """How many tokens past the end of a block its hash covers."""
        speculative = self.config.speculative_config
        if speculative is None or speculative.disable_lookahead_block_hashes or not self.caches:
            return 0
        return speculative.prefill_lookahead if rules_of(self.config.vllm).hash_covers_next_token else 0

    def _with_lookahead_hashes(self, inner: PrefixCache) -> PrefixCache:
        from mini_vllm.electives.releases.entries import LookaheadHashes

        hash_block = hash_block_for(self.lineup.prefix_cache)
        assert hash_block is not None
        return LookaheadHashes(inner, hash_block, self.config.block_size, self._hash_lookahead)

    def _observed(self, inner: PrefixCache) -> PrefixCache:
        assert self.on_evict is not None
        return ObservedPrefixCache(inner, self.on_evict)

    def _under_policy(self, parts: SchedulerParts) -> SchedulerParts:
        """Let the policy order the queue and the victims, and limit each request's tokens."""
        assert self.policy is not None
        policed = PolicyScheduling(self.policy, parts.functions, self.clock)
        functions, preemption = policed.functions, policed.preemption(parts.preemption)
        return replace(parts, functions=functions, preemption=preemption, waiting=policed.new_queue())

    def _with_tokens_ahead(self, parts: SchedulerParts) -> SchedulerParts:
        """Add phases 7 and 8, which plan steps that include tokens not yet known."""
        speculation, async_scheduling = self.electives.make_speculation(), self.electives.make_async_scheduling()
        if parts.release is not None:
            from mini_vllm.assembly.newer_release import newer_tokens_ahead

            ahead: TokensAhead = newer_tokens_ahead(parts, speculation, async_scheduling)
        else:
            ahead = TokensAhead(
                speculation,
                async_scheduling,
                self.config.sizes[0],
                chunks=parts.chunks,
                kv=parts.kv,
                prefix_cache=parts.prefix_cache,
            )
        return replace(parts, ahead=ahead, chunks=ahead.chunks, kv=ahead.kv)

    def _with_gates(self, parts: SchedulerParts) -> SchedulerParts:
        """Add phases 9 to 11, which make a request wait for its grammar, adapter, images or transferred KV."""
        transfers = None
        if self.make_connector is not None:
            assert isinstance(parts.prefix_cache, DelayedCommits), "with a connector it is the outermost cache layer"
            stays = rules_of(self.config.vllm).blocks_in_flight_stay
            transfers = KVTransfers(self.make_connector(), parts.kv, parts.prefix_cache, keeps_loads=stays)
        kinds = [GrammarGate(), *self._gates_of_phase_11()]
        if self._prefill_lookahead > 1:
            kinds.append(LookaheadGate(self._prefill_lookahead))
        changed: ChangedGates = {}
        if parts.release is not None:
            from mini_vllm.assembly.newer_release import newer_waiting, use_step_state

            parts, changed = newer_waiting(parts, self.lineup, has_transfers=transfers is not None)
        gates = AdmissionGates(kinds, transfers, waiting=parts.waiting, chunks=parts.chunks, kv=parts.kv, **changed)
        if parts.release is not None:
            use_step_state(gates, parts)
        return replace(parts, gates=gates, waiting=gates.waiting, chunks=gates.chunks, kv=gates.kv)

    def _gates_of_phase_11(self) -> list[Gate]:
        gates, config, admission = list[Gate](), self.config, self.electives.admission
        if admission is not None and config.max_loras is not None:
            gates.append(admission.make_adapter_gate(config.max_loras))
        if admission is not None and config.max_num_encoder_input_tokens and config.encoder_cache_size:
            cache = admission.make_encoder_cache(config.encoder_cache_size)
            leaves_in_update = rules_of(config.vllm).images_leave_in_update
            schedule, budget = admission.schedule_encoder_inputs, config.max_num_encoder_input_tokens
            gates.append(EncoderGate(budget, cache, schedule, leaves_in_update=leaves_in_update))
        return gates


def _with_checked_hits(inner: PrefixCache) -> PrefixCache:
    """Support skipping and checking hits; a cache with several groups of layers checks each group's hits itself."""
    return SkippablePrefixCache(inner) if isinstance(inner, GroupedPrefixCache) else CheckedPrefixCache(inner)


def _with_counted_entries(inner: PrefixCache) -> PrefixCache:
    from mini_vllm.electives.releases.entries import CountedEntries

    return CountedEntries(inner)


def _with_newer_chunks(parts: SchedulerParts) -> SchedulerParts:
    from mini_vllm.assembly.newer_release import with_newer_chunks

    return with_newer_chunks(parts)


def _with_newer_steps(parts: SchedulerParts) -> SchedulerParts:
    from mini_vllm.assembly.newer_release import with_newer_steps

    return with_newer_steps(parts)
