"""KV transfer with a prefill process that has one fault, and with stores that lose blocks at any moment."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from shutil import rmtree
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from mini_vllm import LLM, EngineConfig
from mini_vllm.runner.kv_transfer.prefill_client import PrefillClient
from tests.model.false_prefill import FAULTS
from tests.model.test_kv_transfer import GREEDY, PROMPTS, ROOMY, SETTINGS, TIGHT, engine, texts

TIMEOUT = 5.0
SOON = 1.0  # for faults after which the client waits until its timeout


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder with the correct blocks of all prompts."""
    path = tmp_path_factory.mktemp("blocks")
    texts(engine(ROOMY, kv_connector="disk", shared_storage_path=str(path)))
    return next(path.iterdir())


@pytest.fixture(scope="module")
def plain() -> list[str]:
    return texts(engine(ROOMY))


def with_false_prefill(
    config: EngineConfig, fault: str, folder: Path, timeout: float
) -> tuple[LLM, Any, PrefillClient]:
    """Return an engine with a faulty prefill process, its connector and the connector's client."""
    llm = engine(config, kv_connector="prefill", prefill_timeout=timeout)
    gates: Any = llm.engine.scheduler.gates
    connector = gates.transfers.connector
    right = connector.prefill
    right.close()
    opening = f"{fault};{folder}\n".encode()
    connector.prefill = PrefillClient("tests.model.false_prefill", opening, right.store, right.like, timeout)
    return llm, connector, connector.prefill


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_prefill_process_changes_no_text(plain: list[str], folder: Path, fault: str) -> None:
    waits = fault in ("is never ready", "does not answer", "stops between two blocks")
    llm, _, client = with_false_prefill(TIGHT, fault, folder, SOON if waits else TIMEOUT)
    while fault not in FAULTS[:2] and not client._rendezvous.check(["ready"]):
        time.sleep(0.05)
    if fault in (FAULTS[0], "ends while it connects"):
        client.process.wait()
        assert client.is_lost, "noticed at once, and not after the timeout"
    assert [texts(llm), texts(llm)] == [plain, plain]
    assert client.is_lost == (fault not in ("is never ready", "sends nothing at all"))
    client.close()


@pytest.mark.parametrize("fault", ["killed", "hangs", "wrong shape"])
@pytest.mark.parametrize("is_late", [False, True])
def test_a_prefill_process_that_is_lost_after_a_prompt_changes_no_text(
    plain: list[str], folder: Path, fault: str, is_late: bool
) -> None:
    llm, connector, client = with_false_prefill(replace(TIGHT, async_scheduling=is_late), "none", folder, 60.0)
    first = llm.generate(PROMPTS[3], GREEDY)[0]
    assert (first.metrics.num_cached_tokens, first.outputs[0].text) == (48, plain[3])
    match fault:
        case "killed":
            client.process.kill()
        case "hangs":
            client.process.send_signal(signal.SIGSTOP)
            connector.timeout = 0.2
        case "wrong shape":
            client.like = client.like[:1]
    assert [texts(llm), texts(llm)] == [plain, plain]
    client.close()


DECODE_ENGINE = """
import os, sys
from tests.model.test_kv_transfer import TIGHT, engine
llm = engine(TIGHT, kv_connector="prefill")
client = llm.engine.scheduler.gates.transfers.connector.prefill
while sys.argv[1] == "ready" and not client._rendezvous.check(["ready"]):
    pass
print(client.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="looks into /proc")
@pytest.mark.parametrize("moment", ["starting", "ready"])
def test_the_prefill_process_ends_with_its_parent(moment: str) -> None:
    command = [sys.executable, "-c", DECODE_ENGINE, moment]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as decode:
        assert decode.stdout is not None
        pid = int(decode.stdout.readline())
    end, state = time.monotonic() + 20, Path(f"/proc/{pid}/stat")
    while time.monotonic() < end and state.exists() and " Z " not in state.read_text():
        time.sleep(0.1)
    if state.exists() and " Z " not in state.read_text():
        os.kill(pid, signal.SIGKILL)
        pytest.fail("it still runs")


class Forgetful:
    """A store that loses a third of its blocks, even between finding and loading a block."""

    def __init__(self, inner: Any) -> None:
        self.inner, self.rng, self.lost, self.num_lost = inner, Random(7), set[bytes](), 0

    def lookup(self, block_hashes: list[bytes]) -> int:
        known = next((n for n, one in enumerate(block_hashes) if one in self.lost), len(block_hashes))
        return int(self.inner.lookup(block_hashes[:known]))

    def get(self, block_hash: bytes) -> Any:
        if self.rng.random() < 1 / 3:
            self.lost.add(block_hash)
            self.num_lost += 1
        return None if block_hash in self.lost else self.inner.get(block_hash)

    def put(self, block_hash: bytes, block: Any) -> None:
        self.lost.discard(block_hash)
        self.inner.put(block_hash, block)


@pytest.mark.parametrize(("connector", "settings"), [("swap", {}), *(("host", settings) for settings in SETTINGS)])
def test_blocks_that_are_lost_between_plan_and_load_are_computed(
    plain: list[str], connector: str, settings: dict[str, Any]
) -> None:
    llm = engine(replace(TIGHT, **settings), kv_connector=connector)
    assert llm.engine.transfers is not None
    store: Any = llm.engine.transfers.store
    store.inner = forgetful = Forgetful(store.inner)
    assert [texts(llm), texts(llm)] == [plain, plain]
    assert forgetful.num_lost


def as_a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def with_a_scalar(path: Path) -> None:
    save_file({"kv": torch.tensor(1.0)}, path)


def without_kv(path: Path) -> None:
    save_file({"k": torch.ones(2)}, path)


@pytest.mark.parametrize("damage", [as_a_folder, with_a_scalar, without_kv])
def test_files_of_any_kind_under_a_blocks_name_are_computed_again(
    plain: list[str], tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    disk = {"kv_connector": "disk", "shared_storage_path": str(tmp_path)}
    llm = engine(TIGHT, **disk)
    assert texts(llm) == plain
    for path in sorted(next(tmp_path.iterdir()).iterdir())[::3]:
        damage(path)
    assert [texts(llm), texts(engine(TIGHT, **disk))] == [plain, plain]


@pytest.mark.parametrize("is_file", [False, True])
def test_a_folder_that_is_taken_away_is_computed_again(plain: list[str], tmp_path: Path, is_file: bool) -> None:
    llm = engine(TIGHT, kv_connector="disk", shared_storage_path=str(tmp_path))
    assert texts(llm) == plain
    (folder,) = tmp_path.iterdir()
    rmtree(folder)
    if is_file:
        folder.write_bytes(b"a file in its place")
    assert [texts(llm), texts(llm)] == [plain, plain]
