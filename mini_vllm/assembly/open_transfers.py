"""Builds the parts of KV transfer: a store, and phase 10 on the scheduler side and the worker side."""

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mini_vllm.assembly.elective_parts import Electives
from mini_vllm.assembly.open_runner import OpenedRunner
from mini_vllm.config import EngineConfig
from mini_vllm.core.interfaces import ModelRunner
from mini_vllm.electives.gates.connector import BlockStore, KVConnector, KVTransferFunctions, SharedStore
from mini_vllm.electives.gates.prefill_connector import Prefill, PrefillConnector
from mini_vllm.electives.gates.transferring_runner import TransferringRunner


@dataclass(frozen=True, slots=True)
class Transfers:
    """The parts of one engine's KV transfer."""

    config: EngineConfig
    functions: KVTransferFunctions
    kv_caches: Callable[[Any], Sequence[Any]]
    store: BlockStore
    prefill: Prefill | None = None

    def make_connector(self) -> KVConnector:
        """Return a new connector, the scheduler side, for the same store."""
        assert self.config.kv_transfer_config is not None
        block_size, transfer = self.config.block_size, self.config.kv_transfer_config
        connector = self.functions.make_connector(self.store, block_size, transfer.kv_connector in ("host", "disk"))
        if self.prefill is None:
            return connector
        return PrefillConnector(connector, self.prefill, block_size, transfer.prefill_timeout)

    def around(self, runner: ModelRunner, cached: Any) -> TransferringRunner:
        """Wrap `runner` with the worker side; `cached` is the inner runner that has the KV cache."""
        worker = self.functions.make_worker(self.store, self.kv_caches(cached))
        return TransferringRunner(runner, worker, self.store, results_are_late=self.config.async_scheduling)


def transfers_for(
    electives: Electives, config: EngineConfig, opened: OpenedRunner, model: str | None
) -> Transfers | None:
    """Return the parts of KV transfer for a resolved config, or None if KV transfer is off.

    Raises `ValueError` if a required phase is absent or the model has sliding windows.
    """
    functions, transfer, lineup = electives.kv_transfer, config.kv_transfer_config, electives.lineup
    if functions is None or transfer is None:
        return None
    if lineup[4] == "absent":
        raise ValueError(f"kv_transfer_config needs phase 4 (prefix cache); the lineup is {lineup}")
    if opened.kv_caches is None:
        raise ValueError(f"kv_transfer_config needs phase 6 (GPU runner) or the fake model; the lineup is {lineup}")
    if opened.windows != (None,):
        raise ValueError(
            "kv_transfer_config needs a model without sliding windows, because blocks outside a window cannot be saved"
        )
    assert opened.disk_store is not None
    assert opened.block_like is not None
    if transfer.shared_storage_path is not None:
        store = opened.disk_store(transfer.shared_storage_path, transfer.kv_buffer_size, config.block_size)
        return Transfers(config, functions, opened.kv_caches, SharedStore(store))
    shared = SharedStore(functions.make_host_store(transfer.kv_buffer_size))
    if transfer.kv_connector != "prefill":
        return Transfers(config, functions, opened.kv_caches, shared)
    from mini_vllm.runner.kv_transfer.prefill_client import PrefillClient

    opening, like = pickle.dumps((config, lineup, model)), opened.block_like(config.block_size)
    client = PrefillClient("mini_vllm.assembly.prefill_process", opening, shared, like, transfer.prefill_timeout)
    return Transfers(config, functions, opened.kv_caches, shared, client)
