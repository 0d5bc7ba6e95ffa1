"""KV transfer on the embedded model does not change texts, whatever else the engine does."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from mini_vllm import LLM, EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import KVTransferConfig, SpeculativeConfig
from mini_vllm.core.invariants import check_drained
from mini_vllm.core.step import KVConnectorOutput
from mini_vllm.electives.gates.connector import KVConnectorMetadata
from mini_vllm.engine.errors import StalledError
from mini_vllm.runner.kv_transfer import disk_store
from mini_vllm.runner.kv_transfer.disk_store import DiskBlockStore
from solutions.phase10_kv_transfer import BlockStoreWorker, HostBlockStore

ROOMY = EngineConfig(num_gpu_blocks=300, check_invariants=True)
TIGHT = replace(ROOMY, num_gpu_blocks=30, max_num_batched_tokens=64)
BYTES_OF_A_BLOCK = 2 * 4 * 16 * 2 * 32 * 4
PROMPTS = ["Once upon a time there was a girl named Mina. " * times + f"One day {times}" for times in range(1, 9)]
GREEDY = SamplingParams(60, 0.0)
SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"async_scheduling": True},
    {"policy": "priority", "long_prefill_token_threshold": 20},
    {"speculative_config": SpeculativeConfig("ngram")},
    {"speculative_config": SpeculativeConfig("draft_model"), "async_scheduling": True},
    {"enable_chunked_prefill": False, "max_num_batched_tokens": 2048},
)


def engine(config: EngineConfig, **transfer: Any) -> LLM:
    transferring = replace(config, kv_transfer_config=KVTransferConfig(**transfer)) if transfer else config
    return LLM(config=transferring, lineup=parse_lineup("solution:1-10"))


def texts(llm: LLM) -> list[str]:
    found = [output.outputs[0].text for output in llm.generate(PROMPTS, GREEDY)]
    check_drained(llm.engine.scheduler)
    return found


@pytest.fixture(scope="module")
def plain() -> list[str]:
    return texts(engine(ROOMY))


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("connector", ["host", "swap", "disk", "tiny host"])
def test_texts_equal_those_without_kv_transfer(
    plain: list[str], tmp_path: Path, connector: str, settings: dict[str, Any]
) -> None:
    name, size = connector.split()[-1], 12 * BYTES_OF_A_BLOCK if "tiny" in connector else 1 << 30
    path = str(tmp_path) if name == "disk" else None
    llm = engine(replace(TIGHT, **settings), kv_connector=name, kv_buffer_size=size, shared_storage_path=path)
    assert [texts(llm), texts(llm)] == [plain, plain]


def first_to_save(worker: BlockStoreWorker, metadata: KVConnectorMetadata) -> KVConnectorOutput:
    """Report only requests that save a block that no earlier request saves."""
    found, seen, sent = send(worker, metadata), set[bytes](), list[str]()
    for name, transfers in metadata.saves.items():
        hashes = {block_hash for block_hash, _ in transfers}
        sent += [name] if hashes - seen else []
        seen |= hashes
    return replace(found, finished_sending=sent)


def none_sent(worker: BlockStoreWorker, metadata: KVConnectorMetadata) -> KVConnectorOutput:
    return replace(send(worker, metadata), finished_sending=[])


send = BlockStoreWorker.start_step


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("mistake", [first_to_save, none_sent])
def test_blocks_that_are_never_reported_as_sent_are_an_error_that_names_them(
    monkeypatch: pytest.MonkeyPatch, mistake: Callable[..., KVConnectorOutput], is_late: bool
) -> None:
    monkeypatch.setattr(BlockStoreWorker, "start_step", mistake)
    llm = engine(replace(ROOMY, async_scheduling=is_late), kv_connector="host")
    with pytest.raises(StalledError, match=r"KV blocks of [23] ended requests are held.*finished_sending.*\(.*: \d+, "):
        llm.generate([PROMPTS[3]] * 3, GREEDY)
    check_drained(llm.engine.scheduler)


class Failing:
    """A runner in which every tenth step fails, after its forward pass."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.vocab_size, self.num_steps = inner, inner.vocab_size, 0

    def execute_model(self, batch: Any) -> Any:
        self.num_steps += 1
        output = self.inner.execute_model(batch)
        if self.num_steps % 10 == 0:
            raise ConnectionError("the forward pass has failed")
        return output


@pytest.mark.parametrize("settings", SETTINGS)
def test_aborts_and_steps_that_fail_leave_no_block_and_no_wrong_text(
    plain: list[str], settings: dict[str, Any]
) -> None:
    llm = engine(replace(TIGHT, **settings), kv_connector="host")
    transfers, ended = llm.engine.transfers, dict[str, str]()
    assert transfers is not None
    inner = transfers.inner
    transfers.inner = failing = Failing(inner)
    for number, prompt in enumerate(PROMPTS * 2):
        llm.engine.add_request(f"{number}", prompt, GREEDY)
    while llm.engine.has_unfinished_requests():
        with suppress(ConnectionError):
            outputs = llm.engine.step()
            ended |= {output.request_id: output.outputs[0].text for output in outputs if output.finished}
            llm.engine.abort_request(f"{failing.num_steps // 7 + len(PROMPTS)}")
    assert [ended[f"{number}"] for number in range(len(PROMPTS))] == plain
    assert failing.num_steps > 20
    transfers.inner = inner
    assert texts(llm) == plain, "nothing that a failed step has computed was saved"


def test_a_conversation_survives_a_restart_of_the_engine(tmp_path: Path) -> None:
    prompt, disk = PROMPTS[5], {"kv_connector": "disk", "shared_storage_path": str(tmp_path)}
    first = engine(ROOMY, **disk).generate(prompt, GREEDY)[0]
    question = prompt + first.outputs[0].text + " What did she do then?"
    (without,), (after,) = (one.generate(question, GREEDY) for one in (engine(ROOMY), engine(ROOMY, **disk)))
    num_computed = len(first.prompt_token_ids) + len(first.outputs[0].token_ids) - 1
    assert after.metrics.num_cached_tokens == num_computed // 16 * 16 > 0 == without.metrics.num_cached_tokens
    assert after.outputs[0].text == without.outputs[0].text


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-50] ^= 1
    path.write_bytes(content)


def reshape(path: Path) -> None:
    path.unlink()
    DiskBlockStore(path.parent, 1 << 30, torch.empty(2, device="meta")).put(bytes.fromhex(path.stem), torch.ones(2))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


@pytest.mark.parametrize("damage", [cut, flip, reshape, Path.unlink])
@pytest.mark.parametrize("is_late", [False, True])
def test_damaged_files_are_computed_again(
    plain: list[str], tmp_path: Path, damage: Callable[[Path], object], is_late: bool
) -> None:
    config, disk = (
        replace(TIGHT, async_scheduling=is_late),
        {"kv_connector": "disk", "shared_storage_path": str(tmp_path)},
    )
    assert texts(engine(config, **disk)) == plain
    (folder,) = tmp_path.iterdir()
    crashed, not_ours = folder / f"{'0' * 64}.12ab34cd.tmp", folder / "thesis.tmp"
    for path in (crashed, not_ours):
        path.write_bytes(b"a crash in the middle of a write")
        os.utime(path, (0, 0))
    llm = engine(config, **disk)
    for path in sorted(folder.glob("*.safetensors"))[::3]:
        damage(path)
    assert [texts(llm), texts(llm)] == [plain, plain]
    assert list(folder.glob("*.tmp")) == [not_ours]


def test_stores_keep_to_their_bytes_and_a_full_disk_is_a_line_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    block = torch.ones(1000)
    disk, host = DiskBlockStore(tmp_path, 20_000, block.to("meta")), HostBlockStore(20_000)
    for number in range(12):
        for store in (disk, host):
            store.lookup([bytes([0]) * 32])
            store.put(bytes([number]) * 32, block * number)
    for store in (disk, host):
        kept = [number for number in range(12) if store.lookup([bytes([number]) * 32])]
        assert kept in ([0, 9, 10, 11], [0, 8, 9, 10, 11])
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000
    again = DiskBlockStore(tmp_path, 9_000, block.to("meta"))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 9_000, "also where it was larger before"
    monkeypatch.setattr(os, "replace", lambda *paths: (_ for _ in ()).throw(OSError("no space left on device")))
    for name in (b"full" * 8, b"full" * 8):
        again.put(name, block)
        assert not again.lookup([name])
    assert [record.message.partition("because of ")[2] for record in caplog.records] == [
        "no space left on device: later prompts compute theirs"
    ]
    assert not list(tmp_path.glob("*.tmp"))


def test_a_folder_may_hold_anything_else_and_none_of_it_is_deleted_or_taken_for_a_block(tmp_path: Path) -> None:
    block, names = torch.ones(1000), [bytes([number]) * 32 for number in range(9)]
    others = {"thesis.tmp": b"mine", "model.safetensors": bytes(30_000), "abc.safetensors": b""}
    for other, content in others.items():
        (tmp_path / other).write_bytes(content)
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "gone.safetensors").symlink_to("nowhere")
    (tmp_path / f"{names[0].hex()}.ab.tmp").mkdir()
    (tmp_path / f"{names[1].hex()}.safetensors").mkdir()
    store = DiskBlockStore(tmp_path, 20_000, block.to("meta"))
    for name in names:
        store.put(name, block)
    assert {other: (tmp_path / other).read_bytes() for other in others} == others
    assert sum(path.is_symlink() or path.is_dir() for path in tmp_path.iterdir()) == 4
    assert store.get(names[8]) is not None
    os.replace(tmp_path / f"{names[8].hex()}.safetensors", tmp_path / f"{names[7].hex()}.safetensors")
    assert store.get(names[7]) is None, "it has the block of another name"


def test_a_block_that_was_read_outlives_its_file(tmp_path: Path) -> None:
    store = DiskBlockStore(tmp_path, 20_000, torch.empty(1000, device="meta"))
    store.put(bytes(32), torch.ones(1000))
    block = store.get(bytes(32))
    os.truncate(tmp_path / f"{bytes(32).hex()}.safetensors", 0)
    assert block is not None
    assert block.equal(torch.ones(1000)), "a file that is mapped and cut ends its reader with SIGBUS"


def test_engines_that_share_a_folder_keep_its_bound_and_find_each_others_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_store, "SECONDS_BETWEEN_LOOKS", 0.0)
    block, names = torch.ones(1000), [bytes([number]) * 32 for number in range(40)]
    stores = [DiskBlockStore(tmp_path, 20_000, block.to("meta")) for _ in range(2)]
    for number, name in enumerate(names):
        stores[number % 2].put(name, block * number)
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000
    assert stores[1].lookup([names[38]]), "the other one has stored it"
    found = stores[1].get(names[38])
    assert found is not None
    assert found.equal(block * 38)


@pytest.mark.parametrize(
    ("lineup", "settings", "message"),
    [
        ("solution:1-5,solution:10", {"dense": True}, "needs phase 6"),
        ("solution:1-6", {}, "needs phase 10"),
        ("solution:1-3,solution:5-6,solution:10", {}, "needs phase 4"),
        ("solution:1-10", {"enable_prefix_caching": False}, "enable_prefix_caching=True"),
        ("solution:1-10", {"kv_connector": "disk"}, "shared_storage_path"),
        ("solution:1-10", {"kv_connector": "tape"}, "host, swap, disk"),
        ("solution:1-10", {"kv_buffer_size": 0}, "kv_buffer_size must be an integer of at least 1, got 0"),
    ],
)
def test_impossible_connector_settings_are_refused(lineup: str, settings: dict[str, Any], message: str) -> None:
    caching = {name: settings.pop(name) for name in list(settings) if name == "enable_prefix_caching"}
    dense = settings.pop("dense", False)
    with pytest.raises(ValueError, match=message):
        LLM(
            config=EngineConfig(kv_transfer_config=KVTransferConfig(**settings), **caching),
            lineup=parse_lineup(lineup),
            dense=dense,
        )


@pytest.mark.parametrize("is_late", [False, True])
def test_prompts_come_from_a_prefill_process(plain: list[str], is_late: bool) -> None:
    """test_lost_blocks.py tests what happens if the blocks do not arrive."""
    llm = engine(replace(TIGHT, async_scheduling=is_late), kv_connector="prefill", prefill_timeout=60.0)
    gates: Any = llm.engine.scheduler.gates
    client = gates.transfers.connector.prefill
    first = llm.generate(PROMPTS[3], GREEDY)[0]
    assert (first.metrics.num_cached_tokens, first.outputs[0].text) == (48, plain[3])
    assert [texts(llm), texts(llm)] == [plain, plain]
    assert not client.is_lost
    client.close()
