"""The engine in one file: it decides what its sources decide, and runs without them."""

import sys
from collections.abc import Callable, Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from subprocess import run
from types import ModuleType

import pytest
from typer.testing import CliRunner

from classroom.one_file import compose as composed
from classroom.one_file.sections import Section
from cli.main import app
from course.parity import replay, scenario
from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm.assembly.lineup import Lineup
from mini_vllm.core import invariants
from mini_vllm.core.scheduler import Scheduler
from mini_vllm.engine import trace_recorder

TRACES = sorted(scenario.PUBLIC_TRACES.glob("*.jsonl*"))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one") / "file"
    result = CliRunner().invoke(app, ["one-file", str(folder)])
    assert result.exit_code == 0, result.output
    return folder / composed.FILE_NAME


@pytest.fixture(scope="module")
def module(path: Path) -> Iterator[ModuleType]:
    spec = spec_from_file_location("mini_vllm_one_file", path)
    assert spec is not None
    assert spec.loader is not None
    loaded = module_from_spec(spec)
    sys.modules["mini_vllm_one_file"] = loaded
    spec.loader.exec_module(loaded)
    yield loaded
    del sys.modules["mini_vllm_one_file"]


@pytest.mark.parametrize("file", TRACES, ids=lambda file: file.name)
def test_its_decisions_are_those_of_the_public_traces(
    module: ModuleType, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in (replay, invariants, trace_recorder):
        monkeypatch.setattr(user, "RequestStatus", module.RequestStatus)
    monkeypatch.setattr(scenario, "Request", module.Request)

    def build_scheduler(config: EngineConfig, lineup: Lineup, on_evict: Callable[[int], None]) -> Scheduler:
        scheduler: Scheduler = module.build_scheduler(config)
        evict = scheduler.prefix_cache.evict

        def noted(block_id: int) -> bool:
            was_cached = evict(block_id)
            if was_cached:
                on_evict(block_id)
            return was_cached

        monkeypatch.setattr(scheduler.prefix_cache, "evict", noted)
        return scheduler

    monkeypatch.setattr(replay, "build_scheduler", build_scheduler)
    compared = 0
    for recorded in scenario.read_scenarios(file):
        if not recorded.electives and not recorded.defects:
            assert replay.compare(recorded, parse_lineup("solution:1-5")) is None, recorded.name
            compared += 1
    assert compared > 20


def test_it_runs_alone_and_generates_what_the_engine_generates(path: Path) -> None:
    prompts = ["Once upon a time", "One day, a girl", "Once upon a hill"]
    program = f"""import runpy, sys
sys.argv = ["x", *{prompts!r}, "--max-tokens", "20"]
runpy.run_path({str(path)!r}, run_name="__main__")
assert not {{"mini_vllm", "solutions", "course", "cli", "labs"}} & set(sys.modules), "it imports its sources"
"""
    done = run([sys.executable, "-P", "-c", program], cwd=path.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    llm = LLM(config=EngineConfig(num_gpu_blocks=64), lineup=parse_lineup("solution"))
    outputs = llm.generate(prompts, SamplingParams(max_tokens=20))
    expected = [prompt + output.outputs[0].text for prompt, output in zip(prompts, outputs, strict=True)]
    assert done.stdout == "".join(f"{text}\n" for text in expected)


def test_its_title_counts_its_lines(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith(f'"""A vLLM in {len(text.splitlines()):,} lines')


def test_a_name_with_two_definitions_or_none_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    twice = (Section("mini_vllm/core/cdiv.py"), Section("mini_vllm/core/cdiv.py"))
    with pytest.raises(ValueError, match="defined by several parts: cdiv"):
        composed.require_unique([composed.Part(section) for section in twice])
    with pytest.raises(ValueError, match=r"cdiv\.py has no ceil: mend sections\.py"):
        composed.Part(Section("mini_vllm/core/cdiv.py", without=("ceil",)))


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = CliRunner().invoke(app, ["one-file", str(tmp_path)])
    assert result.exit_code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
