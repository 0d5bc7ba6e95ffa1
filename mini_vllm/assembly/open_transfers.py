"""KV transfer: a store, and phase 10 on both sides of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mini_vllm.assembly.lineup import Lineup
from mini_vllm.assembly.parts import kv_transfer_functions_for
from mini_vllm.config import EngineConfig
from mini_vllm.core.gates.connector import BlockStore, KVConnector, KVTransferFunctions
from mini_vllm.core.gates.shared_store import SharedStore
from mini_vllm.core.gates.transferring_runner import TransferringRunner
from mini_vllm.core.interfaces import ModelRunner


@dataclass(frozen=True, slots=True)
class Transfers:
    """The parts of one engine's KV transfer."""

    config: EngineConfig
    functions: KVTransferFunctions
    store: BlockStore

    def make_connector(self) -> KVConnector:
        """Return a new scheduler side over the same store."""
        assert self.config.kv_transfer_config is not None
        saves_ended = self.config.kv_transfer_config.kv_connector != "swap"
        return self.functions.make_connector(self.store, self.config.block_size, saves_ended)

    def around(self, runner: ModelRunner, paged: Any) -> TransferringRunner:
        """Return `runner` with the worker side; `paged` is the runner inside it that has a KV cache."""
        worker = self.functions.make_worker(self.store, paged.model.kv_caches)
        return TransferringRunner(runner, worker, results_are_late=self.config.async_scheduling)


def transfers_for(
    lineup: Lineup, config: EngineConfig, disk_store: Callable[[str, int, int], BlockStore] | None
) -> Transfers | None:
    """Return what a config asks for; `disk_store` opens the blocks of this model on disk.

    Raises `ValueError` if a phase that it needs is absent.
    """
    functions, transfer = kv_transfer_functions_for(lineup.kv_transfer, config), config.kv_transfer_config
    if functions is None or transfer is None:
        return None
    for phase, name in ((4, "prefix cache"), (6, "GPU runner")):
        if lineup[phase] == "absent":
            raise ValueError(f"kv_transfer_config needs phase {phase} ({name}); the lineup is {lineup}")
    if transfer.shared_storage_path is None or disk_store is None:
        store = functions.make_host_store(transfer.kv_buffer_size)
    else:
        store = disk_store(transfer.shared_storage_path, transfer.kv_buffer_size, config.block_size)
    return Transfers(config, functions, SharedStore(store))
