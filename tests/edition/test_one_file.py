"""The engine in one file: its parts, whether its decisions match vLLM's, and whether its texts match our engine's."""

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from subprocess import run
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

from mini_vllm import LLM, EngineConfig, SamplingParams, parse_lineup
from mini_vllm_labs.classroom.one_file import compose as composed
from mini_vllm_labs.cli.main import app
from mini_vllm_labs.runs.parity.scenario import PUBLIC_FILES, Scenario, read_scenarios
from tests.edition.conftest import module_at

STORY = "Once upon a time"
PROMPTS = [STORY, "One day, a girl", f"{STORY}, there was a", "The", f"{STORY}, there was a dog"]
# The file does not contain any of these, so its text must not mention them.
ABSENT = re.compile(
    "phase [78]|draft|specul|async|placeholder|penal|logprob|observer|recover|roll.?back|restart|parallel"
    "|starter|elective|absent|build.py|lineup|seam"
)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("one") / "file"
    result = CliRunner().invoke(app, ["one-file", str(folder)])
    assert result.exit_code == 0, result.output
    return folder / composed.FILE_NAME


@pytest.fixture(scope="module")
def module(path: Path) -> ModuleType:
    return module_at(path, "one_file")


def test_it_has_at_most_1200_lines_and_its_title_counts_them(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    num_lines = len(text.splitlines())
    assert num_lines <= 1200
    assert text.startswith(f'"""A vLLM in {num_lines:,} lines')


def test_each_name_is_defined_once_and_no_text_names_what_is_not_there(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for body in (tree.body, *(node.body for node in classes)):
        names = [node.name for node in body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        assert len(names) == len(set(names))
    assert not ABSENT.findall(text.lower())
    used = {name for node in ast.walk(tree) for name in names_of(node)}
    quoted = {word.rpartition(".")[2] for word in re.findall(r"`([a-zA-Z_.]+)`", text) if not word.endswith(".py")}
    assert quoted - used <= {"save_pretrained", "continue", "hash"}


def names_of(node: ast.AST) -> Iterator[str]:
    for attribute in ("id", "attr", "arg", "name", "value"):
        value = getattr(node, attribute, None)
        if isinstance(value, str):
            yield value


def test_its_decisions_are_those_of_the_public_traces_whatever_the_settings(module: ModuleType) -> None:
    used: dict[str, set[object]] = {}
    for file in PUBLIC_FILES[:3]:
        num_plain = 0
        for scenario in read_scenarios(file):
            if not scenario.electives and not scenario.defects:
                num_plain += 1
                for name, value in replay(module, scenario).items():
                    used.setdefault(name, set()).add(value)
        assert num_plain > 40
    assert set(module.EngineConfig.__slots__) == used.keys() | {"admission_guard", "seed", "dtype"}
    assert [name for name, values in used.items() if len(values) == 1] == [], "settings that no trace changes"


def replay(module: ModuleType, scenario: Scenario) -> dict[str, object]:
    settings = dict(scenario.line["config"])
    eos_token_ids = frozenset([settings.pop("eos_token_id")])
    del settings["async_scheduling"], settings["spec"]
    scheduler = module.Scheduler(module.EngineConfig(**settings))
    evicted: list[int] = []

    def evict(block_id: int) -> None:
        evicted.extend([block_id] * scheduler.prefix_cache.evict(block_id))

    scheduler.kv.block_pool.prefix_cache = SimpleNamespace(evict=evict)
    requests: dict[str, Any] = {}
    num_preemptions: Counter[str] = Counter()
    num_sampled: Counter[str] = Counter()

    def apply_events(number: int, before_update: bool) -> None:
        for action, name in scenario.events(number, before_update):
            if action == "abort":
                scheduler.finish_request(name)
                continue
            of = scenario.line["requests"][name]
            ends = {setting: of[setting] for setting in ("max_tokens", "stop_token_ids", "ignore_eos")}
            order = {"priority": of["priority"], "arrival_time": of["arrival_time"]}
            requests[name] = module.Request(
                name, scenario.prompt(name), module.SamplingParams(**ends), eos_token_ids, **order
            )
            scheduler.add_request(requests[name])

    for number, recorded in enumerate(scenario.steps):
        at = f"{scenario.name}, step {number}"
        apply_events(number, before_update=False)
        evicted.clear()
        plan = scheduler.schedule()
        batch = scheduler.batch(plan)
        shares = [(s.request.request_id, s.num_computed_tokens, s.num_scheduled_tokens, s.block_ids) for s in batch]
        assert shares == [(s["id"], s["computed"], s["n"], s["blocks"]) for s in recorded["scheduled"]], at
        assert [list(one) for one in plan.preempted] == recorded["preempted"], at
        assert evicted == recorded["evicted"], at
        num_preemptions.update(one.victim_id for one in plan.preempted)
        names = [share.request.request_id for share in batch if share.needs_token]
        sampled = {name: [scenario.output(name, num_sampled[name])] for name in names}
        num_sampled.update(names)
        apply_events(number, before_update=True)
        kept = scheduler.update_from_output(plan, sampled)
        assert [list(one) for one in kept.items()] == recorded["output"], at
        finished = [(name, requests[name].status.value) for name in kept if requests[name].is_finished]
        assert finished == [(name, reason) for name, reason, _ in recorded["finished"]], at
        assert scheduler.kv.num_free_blocks == recorded["free_after_update"], at
        running = [[one.request_id, one.num_tokens, one.num_computed_tokens, 0] for one in scheduler.running]
        assert running == recorded["running_after"], at
        queue = scheduler.waiting
        waiting = queue if settings["policy"] == "fcfs" else [entry[-1] for entry in sorted(queue._heap)]
        assert [one.request_id for one in waiting] == recorded["waiting_after"], at
    for name, ended in scenario.line["trace"]["requests"].items():
        request = requests[name]
        assert (request.num_output_tokens, num_preemptions[name], request.num_cached_tokens) == (
            ended["output_len"],
            ended["preemptions"],
            ended["first_hit"],
        ), f"{scenario.name}, {name}"
    return settings


def test_it_runs_alone_and_completes_prompts_as_the_engine_does(path: Path) -> None:
    program = f"""import runpy, sys
sys.argv = ["x", *{PROMPTS[:3]!r}, "--max-tokens", "20"]
runpy.run_path({str(path)!r}, run_name="__main__")
assert not {{"mini_vllm", "mini_vllm_labs", "solutions", "labs"}} & set(sys.modules), "it imports its sources"
"""
    done = run([sys.executable, "-P", "-c", program], cwd=path.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    texts = engine_texts(PROMPTS[:3], SamplingParams(max_tokens=20))
    assert done.stdout.splitlines()[:-1] == [prompt + text for prompt, text in zip(PROMPTS, texts, strict=False)]


def engine_texts(prompts: list[str], params: SamplingParams) -> list[str]:
    llm = LLM(config=EngineConfig(num_gpu_blocks=64), lineup=parse_lineup("solution"))
    return [output.outputs[0].text for output in llm.generate(prompts, params)]


@pytest.mark.parametrize(
    ("settings", "happens"),
    [
        ({}, lambda llm, _: llm.num_steps == 24),
        ({"num_gpu_blocks": 8, "block_size": 8}, lambda llm, preempted: preempted),
        ({"num_gpu_blocks": 13, "block_size": 4, "policy": "priority"}, lambda llm, _: llm.num_steps > 24),
        ({"block_size": 4, "max_num_seqs": 2}, lambda llm, _: llm.scheduler.prefix_cache.hit_rate() > 0.1),
        ({"max_num_batched_tokens": 6}, lambda llm, _: llm.num_steps > 24),
        ({"long_prefill_token_threshold": 2, "block_size": 1}, lambda llm, _: llm.num_steps > 24),
    ],
    ids=["plain", "preemption", "priority", "prefix hits", "budget", "threshold"],
)
def test_its_greedy_texts_are_the_engines(
    module: ModuleType, settings: dict[str, Any], happens: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    preempted: list[str] = []
    preempt = module.preempt

    def noted(request: Any, *parts: object) -> None:
        preempted.append(request.request_id)
        preempt(request, *parts)

    monkeypatch.setattr(module, "preempt", noted)
    llm = module.LLM(**settings)
    texts = llm.generate(PROMPTS, module.SamplingParams(max_tokens=24))
    assert texts == engine_texts(PROMPTS, SamplingParams(max_tokens=24))
    assert happens(llm, preempted)
    assert not llm.scheduler.requests
    assert llm.scheduler.kv.num_free_blocks == llm.scheduler.kv.num_usable_blocks


@pytest.mark.parametrize("cuts", [{}, {"top_k": 30}, {"top_p": 0.95}, {"top_k": 30, "top_p": 0.95}], ids=str)
def test_its_sampled_texts_are_the_engines(module: ModuleType, cuts: dict[str, float]) -> None:
    sampling = {"max_tokens": 24, "temperature": 0.9, "seed": 7, **cuts}
    texts = module.LLM().generate(PROMPTS, module.SamplingParams(**sampling))
    assert texts == engine_texts(PROMPTS, SamplingParams(**sampling))  # type: ignore[arg-type]


def test_the_admission_guard_changes_the_plans(module: ModuleType) -> None:
    def plans(*, admission_guard: bool) -> list[dict[str, int]]:
        config = module.EngineConfig(
            max_model_len=40, block_size=4, num_gpu_blocks=11, max_num_batched_tokens=8, admission_guard=admission_guard
        )
        scheduler = module.Scheduler(config)
        for name, length, max_tokens in (("A", 8, 12), ("B", 8, 12), ("long", 30, 2)):
            prompt, params = list(range(100 * length, 101 * length)), module.SamplingParams(max_tokens=max_tokens)
            scheduler.add_request(module.Request(name, prompt, params, frozenset()))
        found = []
        while scheduler.requests:
            plan = scheduler.schedule()
            found.append(dict(plan.num_scheduled_tokens))
            names = [share.request.request_id for share in scheduler.batch(plan) if share.needs_token]
            scheduler.update_from_output(plan, {name: [5] for name in names})
        return found

    assert plans(admission_guard=True) != plans(admission_guard=False)


def test_seed_and_dtype_change_the_tokens_and_the_cache(module: ModuleType) -> None:
    params = module.SamplingParams(temperature=1.0)
    first, again, other = (module.LLM(seed=seed).generate(PROMPTS, params) for seed in (1, 1, 2))
    assert first == again != other
    assert module.LLM(dtype="bfloat16").runner.key_caches.dtype is torch.bfloat16


def test_each_sampling_setting_changes_the_text(module: ModuleType) -> None:
    llm = module.LLM()
    [greedy] = llm.generate(PROMPTS[:1], module.SamplingParams(max_tokens=12))
    tokens = llm.runner.tokenizer.encode(PROMPTS[0] + greedy)
    llm.runner.eos_token_ids = frozenset(tokens[-3:-2])
    drawn: dict[str, object] = {"max_tokens": 12, "temperature": 1.5, "seed": 3}
    bases: dict[str, tuple[dict[str, object], object]] = {
        "max_tokens": ({}, 3),
        "temperature": ({"seed": 3}, 1.5),
        "seed": (drawn, 4),
        "top_k": (drawn, 1),
        "top_p": (drawn, 0.1),
        "stop_token_ids": ({"max_tokens": 12}, tuple(tokens[-6:-5])),
        "ignore_eos": ({"max_tokens": 12}, True),
    }
    assert bases.keys() == set(module.SamplingParams.__slots__)
    for name, (base, value) in bases.items():
        one, other = ({**base, **change} for change in ({}, {name: value}))
        texts = [llm.generate(PROMPTS[:1], module.SamplingParams(**settings)) for settings in (one, other)]
        assert texts[0] != texts[1], name


def test_salt_and_adapter_keep_blocks_apart(module: ModuleType) -> None:
    llm = module.LLM()
    for options, num_hit in [({}, 0), ({}, 32), ({"cache_salt": "a"}, 0), ({"adapter_id": "a"}, 0)]:
        request = llm.make_request(list(range(3, 40)), module.SamplingParams(max_tokens=1), **options)
        llm.scheduler.add_request(request)
        llm.step()
        assert request.num_cached_tokens == num_hit


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"speculative_config": 4}, "speculative_config must be left out: the settings are max_num_seqs, .*, got 4"),
        ({"max_num_seqs": 0}, "max_num_seqs must be an integer of at least 1, got 0"),
        ({"num_gpu_blocks": "64"}, "num_gpu_blocks must be an integer of at least 2, got '64'"),
        ({"enable_prefix_caching": "no"}, "enable_prefix_caching must be True or False, got 'no'"),
        ({"policy": "lifo"}, "policy must be 'fcfs' or 'priority', got 'lifo'"),
        ({"dtype": "int8"}, "dtype must be 'float32' or 'bfloat16', got 'int8'"),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 8},
            "max_num_batched_tokens must be at least 2048",
        ),
        ({"max_model_len": 4096}, "max_model_len must be at most 2048 for .*, got 4096"),
        ({"model": "/no/such/model"}, "model must be a directory or a name on the hub, got '/no/such/model'"),
    ],
)
def test_unknown_and_illegal_settings_are_refused(module: ModuleType, settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        module.LLM(**settings)


def test_requests_that_could_never_be_served_are_refused_before_any_is_queued(module: ModuleType) -> None:
    llm = module.LLM(num_gpu_blocks=4, max_model_len=64)
    for prompt, message in [
        ([], "length of the prompt must be 1 to 63 tokens, got 0"),
        ([1537], "token id must be at most 1536, got 1537"),
        ([-1], "token id must be at least 0, got -1"),
        ([5] * 40, "blocks for prompt and max_tokens must be at most 3, got 4"),
    ]:
        with pytest.raises(ValueError, match=message):
            llm.generate([PROMPTS[0], prompt])
    assert not llm.scheduler.requests
    for illegal in ({"max_tokens": 0}, {"temperature": -1.0}, {"top_p": 0.0}, {"top_k": -1}):
        with pytest.raises(ValueError, match=f"{next(iter(illegal))} must be .*, got {next(iter(illegal.values()))}"):
            module.SamplingParams(**illegal)


def test_a_name_that_a_solution_no_longer_has_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"phase4_prefix_cache\.py does not define forget: correct mini_vllm\.py\.in"):
        composed.compose("#> solutions/phase4_prefix_cache.py without forget")


def test_a_folder_with_something_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    result = CliRunner().invoke(app, ["one-file", str(tmp_path)])
    assert result.exit_code == 2
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]
