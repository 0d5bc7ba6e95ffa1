"""Returns a lineup's electives, phases 7 to 14. See `parts.py`."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import Impl, solutions_exist
from mini_vllm.config import EngineConfig
from mini_vllm.electives.async_scheduling import AsyncFunctions, AsyncScheduling
from mini_vllm.electives.gates.admission import AdmissionFunctions
from mini_vllm.electives.gates.connector import KVTransferFunctions
from mini_vllm.electives.grammar import StructuredOutputFunctions
from mini_vllm.electives.policy.scheduling_policy import PolicyClasses
from mini_vllm.electives.speculation import Speculation, SpeculationFunctions
from mini_vllm.electives.windows.window_functions import WindowFunctions
from mini_vllm.release_rules import RELEASES

if TYPE_CHECKING:
    from mini_vllm.electives.releases.release_functions import ReleaseFunctions


def needs(setting: str, phase: str, *phases: str) -> ValueError:
    """Return the error for a setting whose phase is absent; it suggests a lineup with that phase."""
    whose = "solution" if solutions_exist() else "starter"
    lineup = ",".join(f"{whose}:{one}" for one in phases)
    return ValueError(f"{setting} needs {phase}, as in LAB_IMPL={lineup}")


def speculation_functions_for(impl: Impl, config: EngineConfig) -> SpeculationFunctions | None:
    """Return phase 7, or None if speculative decoding is off. Raises `ValueError` if the phase is needed but absent."""
    if config.speculative_config is None:
        return None
    if impl == "absent":
        raise needs("speculative_config", "phase 7 (speculative decoding)", "1-7")
    if impl == "starter":
        from labs.phase7_speculative_decoding import starter as yours

        return SpeculationFunctions(
            yours.SpeculativeScheduling,
            yours.propose_by_lookup,
            yours.select_logits_rows,
            yours.accept_drafts,
            yours.rejection_sample,
        )
    from solutions import phase7_speculative_decoding as ours

    return SpeculationFunctions(
        ours.SpeculativeScheduling,
        ours.propose_by_lookup,
        ours.select_logits_rows,
        ours.accept_drafts,
        ours.rejection_sample,
    )


def async_functions_for(impl: Impl, config: EngineConfig) -> AsyncFunctions | None:
    """Return phase 8, or None if asynchronous scheduling is off. Raises `ValueError` if the phase is needed but
    absent."""
    if not config.async_scheduling:
        return None
    if impl == "absent":
        raise needs("async_scheduling", "phase 8 (asynchronous scheduling)", "1-8")
    if impl == "starter":
        from labs.phase8_async_scheduling import starter as yours

        return AsyncFunctions(yours.PlaceholderScheduling, yours.correct_share)
    from solutions import phase8_async_scheduling as ours

    return AsyncFunctions(ours.PlaceholderScheduling, ours.correct_share)


def structured_output_functions_for(impl: Impl) -> StructuredOutputFunctions | None:
    """Return phase 9, or None if it is absent; the engine then refuses requests that need it."""
    if impl == "absent":
        return None
    if impl == "starter":
        from labs.phase9_structured_output import starter as yours

        return StructuredOutputFunctions(
            yours.build_dfa, yours.RegexTokenMasks, yours.RegexGrammar, yours.apply_bitmask
        )
    from solutions import phase9_structured_output as ours

    return StructuredOutputFunctions(ours.build_dfa, ours.RegexTokenMasks, ours.RegexGrammar, ours.apply_bitmask)


def kv_transfer_functions_for(impl: Impl, config: EngineConfig) -> KVTransferFunctions | None:
    """Return phase 10, or None if KV transfer is off. Raises `ValueError` if the phase is needed but absent."""
    if config.kv_transfer_config is None:
        return None
    if impl == "absent":
        raise needs("kv_transfer_config", "phase 10 (KV transfer)", "1-10")
    if impl == "starter":
        from labs.phase10_kv_transfer import starter as yours

        return KVTransferFunctions(yours.HostBlockStore, yours.BlockStoreConnector, yours.BlockStoreWorker)
    from solutions import phase10_kv_transfer as ours

    return KVTransferFunctions(ours.HostBlockStore, ours.BlockStoreConnector, ours.BlockStoreWorker)


def admission_functions_for(impl: Impl, config: EngineConfig) -> AdmissionFunctions | None:
    """Return phase 11, or None if neither adapters nor images are enabled. Raises `ValueError` if the phase is needed
    but absent."""
    if config.max_loras is None and config.encoder_cache_size is None:
        return None
    if impl == "absent":
        asked = "encoder_cache_size" if config.max_loras is None else "max_loras"
        raise needs(asked, "phase 11 (admission gates)", "1-6", "11")
    if impl == "starter":
        from labs.phase11_admission_gates import starter as yours

        return AdmissionFunctions(
            yours.AdapterGate,
            yours.EncoderCacheManager,
            yours.schedule_encoder_inputs,
            yours.generate_block_hash_extra_keys,
            yours.bgmv,
        )
    from solutions import phase11_admission_gates as ours

    return AdmissionFunctions(
        ours.AdapterGate,
        ours.EncoderCacheManager,
        ours.schedule_encoder_inputs,
        ours.generate_block_hash_extra_keys,
        ours.bgmv,
    )


def policy_classes_for(impl: Impl) -> PolicyClasses | None:
    """Return phase 13, or None if it is absent."""
    if impl == "absent":
        return None
    if impl == "starter":
        from labs.phase13_scheduling_policies import starter as yours

        return PolicyClasses(yours.VirtualTokenCounter, yours.LeastSlackFirst)
    from solutions import phase13_scheduling_policies as ours

    return PolicyClasses(ours.VirtualTokenCounter, ours.LeastSlackFirst)


def window_functions_for(impl: Impl) -> WindowFunctions | None:
    """Return phase 12, or None if it is absent; the engine then refuses models with sliding windows."""
    if impl == "absent":
        return None
    if impl == "starter":
        from labs.phase12_sliding_windows import starter as yours

        return WindowFunctions(
            yours.free_outside_window, yours.allocate_groups, yours.find_common_hit, yours.sliding_attention
        )
    from solutions import phase12_sliding_windows as ours

    return WindowFunctions(ours.free_outside_window, ours.allocate_groups, ours.find_common_hit, ours.sliding_attention)


def release_functions_for(impl: Impl, config: EngineConfig) -> "ReleaseFunctions | None":
    """Return phase 14, or None if the engine follows the rules of 0.13.0. Raises `ValueError` if the phase is needed
    but absent."""
    if config.vllm == RELEASES[0]:
        return None
    if impl == "absent":
        raise needs(f"vllm={config.vllm!r}", "phase 14 (year of vLLM)", "1-6", "14")
    # 0.13.0's rules do not need this module
    from mini_vllm.electives.releases.release_functions import ReleaseFunctions

    if impl == "starter":
        from labs.phase14_year_of_vllm import starter as yours

        return ReleaseFunctions(
            yours.threshold_of_step,
            yours.order_freed,
            yours.has_room,
            yours.requests_left,
            yours.PrefillPacer,
            yours.reachable_blocks,
        )
    from solutions import phase14_year_of_vllm as ours

    return ReleaseFunctions(
        ours.threshold_of_step,
        ours.order_freed,
        ours.has_room,
        ours.requests_left,
        ours.PrefillPacer,
        ours.reachable_blocks,
    )


@dataclass(frozen=True)
class Electives:
    """Phases 7 to 14 of one engine. Each phase is imported on first use, and is None if the config does not need it."""

    lineup: Lineup
    config: EngineConfig

    @cached_property
    def speculation(self) -> SpeculationFunctions | None:
        return speculation_functions_for(self.lineup.speculation, self.config)

    @cached_property
    def async_scheduling(self) -> AsyncFunctions | None:
        return async_functions_for(self.lineup.async_scheduling, self.config)

    @cached_property
    def structured_output(self) -> StructuredOutputFunctions | None:
        return structured_output_functions_for(self.lineup.structured_output)

    @cached_property
    def kv_transfer(self) -> KVTransferFunctions | None:
        return kv_transfer_functions_for(self.lineup.kv_transfer, self.config)

    @cached_property
    def admission(self) -> AdmissionFunctions | None:
        return admission_functions_for(self.lineup.gates, self.config)

    @cached_property
    def windows(self) -> WindowFunctions | None:
        return window_functions_for(self.lineup.windows)

    @cached_property
    def releases(self) -> "ReleaseFunctions | None":
        return release_functions_for(self.lineup.year, self.config)

    def make_speculation(self) -> Speculation | None:
        """Return phase 7's part of a scheduler, or None if there are no drafts."""
        functions, speculative = self.speculation, self.config.speculative_config
        if functions is None or speculative is None:
            return None
        return functions.make_scheduling(speculative.num_speculative_tokens, speculative.drafter_has_kv_cache)

    def make_async_scheduling(self) -> AsyncScheduling | None:
        """Return phase 8's part of a scheduler, or None if asynchronous scheduling is off."""
        functions, speculative = self.async_scheduling, self.config.speculative_config
        num_drafts = speculative.num_speculative_tokens if speculative else 0
        return None if functions is None else functions.make_scheduling(num_drafts)
