"""Grammars, adapters, images, transferred K and V, and windows together, under memory pressure, aborts and faults."""

import random
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event
from typing import Any

import pytest

from mini_vllm import EngineConfig, SamplingParams
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.core.invariants import check_drained
from mini_vllm.core.request import MultiModalFeatureSpec, Request, RequestStatus
from mini_vllm.core.step import KVConnectorOutput
from mini_vllm.core.step_record import StepRecord
from mini_vllm.electives.gates import kv_transfers
from mini_vllm.electives.gates.gated import encoder_of
from mini_vllm_labs.runs.parity.replay import ScenarioReplay
from mini_vllm_labs.runs.parity.scenario import Scenario
from tests.engine.gate_scenarios import gate_scenario
from tests.engine.workloads import drain, make_engine

REFERENCE = parse_lineup("solution:1-5,solution:8-9,solution:11-12")


class EndlessRunError(AssertionError):
    """Raised if requests remain after the last step of a scenario."""


class GateReplay(ScenarioReplay):
    """A replay that checks the gates' own limits, and occasionally makes a planned step fail."""

    def __init__(self, scenario: Scenario, fault_seed: int | None = None) -> None:
        super().__init__(scenario, REFERENCE)
        self._rng = None if fault_seed is None else random.Random(fault_seed)
        self.num_faults = 0

    def _run_step(self, number: int) -> StepRecord:
        if self._rng is not None and self._rng.random() < 0.1 and not self._in_flight:
            step = self.scheduler.schedule()
            if self._rng.random() < 0.5:
                self.scheduler.start_step(step)
            self.scheduler.recover()
            self.num_faults += 1
        record = super()._run_step(number)
        adapters = {self.requests[share["id"]].adapter_id for share in record["scheduled"]} - {None}
        assert len(adapters) <= (self.config.max_loras or len(adapters))
        if (gate := encoder_of(self.scheduler)) is not None:
            images = [self.requests[name].mm_features[i] for name, found in gate.scheduled.items() for i in found]
            assert sum(image.length for image in images) <= gate.budget
            assert gate.cache.num_free_slots >= 0
            if not self.config.async_scheduling:  # otherwise, the next step has already evicted the image
                assert self._contents_read(record) <= gate.cache.cached.keys()
        return record

    def _contents_read(self, record: StepRecord) -> set[str]:
        shares = [
            (self.requests[s["id"]].mm_features, s["computed"], s["computed"] + s["n"]) for s in record["scheduled"]
        ]
        return {i.identifier for images, first, end in shares for i in images if i.offset < end and first < i.end}

    def run(self) -> None:
        last_event = max(event["step"] for event in self.scenario.line["events"])
        for number in range(self.scenario.max_steps):
            self.run_step(number)
            if number >= last_event and self.is_drained:
                check_drained(self.scheduler)
                return
        raise EndlessRunError(f"{self.scenario.name} has not finished after {self.scenario.max_steps} steps")


@pytest.mark.parametrize("first", range(0, 120, 30))
def test_random_mixes_of_gates_end_with_every_block_free(first: int) -> None:
    for seed in range(first, first + 30):
        GateReplay(gate_scenario(seed)).run()


@pytest.mark.parametrize("first", range(200, 320, 30))
def test_steps_that_fail_lose_no_request_and_no_block(first: int) -> None:
    num_faults = 0
    for seed in range(first, first + 30):
        replay = GateReplay(gate_scenario(seed), fault_seed=seed)
        replay.run()
        num_faults += replay.num_faults
    assert num_faults > 30


def test_loads_in_little_memory_stall_if_the_rule_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kv_transfers, "MAX_STEPS_IN_VAIN", 10**9)
    stalled = 0
    for seed in range(120):
        try:
            GateReplay(gate_scenario(seed)).run()
        except EndlessRunError:
            stalled += 1
    assert stalled > 0, "no scenario shows what the rule is for"


def replay_of_loads(*names: str, is_async: bool) -> GateReplay:
    """Return a replay of identical 12-token requests, one per step; 8 tokens of the first request are stored
    elsewhere."""
    scenario = gate_scenario(0)
    for gate in ("grammar", "lora", "encoder", "window"):
        scenario.line["config"].pop(gate, None)
    scenario.line["config"] |= {
        **{"block_size": 4, "num_gpu_blocks": 9, "max_model_len": 20, "max_num_batched_tokens": 20, "max_num_seqs": 2},
        **{"enable_prefix_caching": True, "async_scheduling": False, "long_prefill_token_threshold": 0},
        "connector": {"async": is_async},
    }
    described = {"prompt": [{"seed": "A", "len": 12}], "max_tokens": 2, "priority": 0, "arrival_time": 0.0}
    described |= {"ignore_eos": True, "stop_token_ids": [], "planned": [], "load_steps": 1}
    stored = dict.fromkeys(names, 0) | {names[0]: 8}
    scenario.line["requests"] = {name: described | {"stored": stored[name]} for name in names}
    scenario.line["events"] = [{"step": step, "add": name} for step, name in enumerate(names)]
    return GateReplay(scenario)


def test_a_load_within_the_step_counts_as_computed_and_lost_blocks_are_computed_here() -> None:
    replay = replay_of_loads("A", is_async=False)
    scheduler = replay.scheduler
    replay._apply_events(0, before_update=False)
    plan = scheduler.schedule()
    assert plan.num_scheduled_tokens == {"A": 4}
    request = replay.requests["A"]
    assert (request.num_computed_tokens, request.num_cached_tokens) == (12, 8)
    lost = scheduler.kv.block_ids("A")[1]
    scheduler.start_step(plan)
    kept = scheduler.update_from_output(plan, {"A": [7]}, KVConnectorOutput(invalid_block_ids=frozenset({lost})))
    assert kept == {}
    assert (request.num_tokens, request.num_computed_tokens) == (12, 4)
    assert lost not in scheduler.prefix_cache.cached_blocks()
    assert scheduler.schedule().num_scheduled_tokens == {"A": 8}
    assert lost in scheduler.prefix_cache.cached_blocks()


def test_blocks_that_are_being_loaded_are_not_found_before_they_are_filled() -> None:
    replay = replay_of_loads("A", "B", is_async=True)
    replay.run_step(0)
    assert replay.requests["A"].status is RequestStatus.WAITING_FOR_REMOTE_KVS
    second = replay.run_step(1)
    assert [(share["id"], share["computed"]) for share in second["scheduled"]] == [("B", 0)]
    third = replay.run_step(2)
    assert [(share["id"], share["computed"]) for share in third["scheduled"]] == [("B", 12), ("A", 8)]


def engine_with(**settings: Any) -> Any:
    config = EngineConfig(max_model_len=64, num_gpu_blocks=40, block_size=4, check_invariants=True, **settings)
    return make_engine(config, "solution:1-5,solution:8,solution:11")


def test_an_engine_mixes_at_most_max_loras_adapters_in_one_step() -> None:
    engine = engine_with(max_loras=2)
    for number in range(6):
        engine.add_request(f"r{number}", [1, 2, 3], SamplingParams(max_tokens=4), adapter_id=f"adapter {number % 3}")
    largest = 0
    while engine.has_unfinished_requests():
        engine.step()
        largest = max(largest, len({request.adapter_id for request in engine.scheduler.running}))
    assert largest == 2


def test_a_request_may_skip_reading_the_prefix_cache() -> None:
    engine = engine_with()
    for name, skips in (("first", False), ("hits", False), ("skips", True)):
        params = SamplingParams(max_tokens=2, skip_reading_prefix_cache=skips)
        engine.add_request(name, list(range(1, 20)), params)
        assert drain(engine)[name].metrics.num_cached_tokens == {"first": 0, "hits": 16, "skips": 0}[name]


def add_with_grammar(engine: Any, grammar: Future[Any]) -> None:
    """Add a request whose grammar is still being compiled, and then another request."""
    engine.add_request("constrained", [1, 2, 3], SamplingParams(max_tokens=2))
    request: Request = engine.scheduler.requests["constrained"]
    request.grammar, request.status = grammar, RequestStatus.WAITING_FOR_FSM
    engine.add_request("free", [4, 5], SamplingParams(max_tokens=2))


def test_a_request_waits_for_its_grammar_and_nothing_waits_for_the_request() -> None:
    engine, may_end = engine_with(max_loras=1), Event()
    with ThreadPoolExecutor(1) as pool:
        add_with_grammar(engine, pool.submit(may_end.wait))
        ended: dict[str, Any] = {}
        while "free" not in ended:
            ended |= {output.request_id: output for output in engine.step() if output.finished}
        engine.step()  # there is nothing to plan, but the engine has not stalled
        assert list(ended) == ["free"]
        may_end.set()
        assert drain(engine)["constrained"].outputs[0].finish_reason == "length"


def test_a_grammar_that_cannot_be_compiled_ends_its_request_with_the_reason() -> None:
    engine, grammar = engine_with(max_loras=1), Future[Any]()
    add_with_grammar(engine, grammar)
    engine.step()
    grammar.set_exception(ValueError("more than 10,000 states"))
    outputs = drain(engine)
    assert outputs["constrained"].outputs[0].finish_reason == "error"
    assert outputs["constrained"].error == "more than 10,000 states"
    assert outputs["free"].outputs[0].finish_reason == "length"


@pytest.mark.parametrize("is_late", [False, True])
def test_a_grammar_that_fails_before_its_request_exists_ends_it_with_the_reason(*, is_late: bool) -> None:
    """The grammar is compiled on another thread, so its future may already be done; the request then does not wait."""
    engine, grammar = engine_with(max_loras=1, async_scheduling=is_late), Future[Any]()
    grammar.set_exception(ValueError("more than 10,000 states"))
    engine.add_request("constrained", [1, 2, 3], SamplingParams(max_tokens=2))
    engine.scheduler.requests["constrained"].grammar = grammar
    assert drain(engine)["constrained"].error == "more than 10,000 states"


def test_a_request_can_be_aborted_while_its_grammar_is_being_compiled() -> None:
    engine = engine_with(max_loras=1)
    add_with_grammar(engine, Future())
    engine.step()
    assert engine.abort_request("constrained").outputs[0].finish_reason == "abort"
    assert list(drain(engine)) == ["free"]


def image_of(name: str, offset: int = 3) -> MultiModalFeatureSpec:
    return MultiModalFeatureSpec(name[:3], offset, 6)


def texts_of(names: tuple[str, ...], *, together: bool, **settings: Any) -> dict[str, list[int]]:
    """Return what the fake model generates after 16 identical tokens, 6 of which belong to the named image.

    The image begins at token 3, and one token earlier for each `<` in the name.
    """
    images = {"max_num_encoder_input_tokens": 8, "encoder_cache_size": 8}
    engines = [engine_with(**images, **settings)] if together else [engine_with(**images) for _ in names]
    for name, engine in zip(names, engines * len(names), strict=False):
        params = SamplingParams(max_tokens=5)
        engine.add_request(
            name,
            [7] * 16,
            params,
            mm_features=[image_of(name, 3 - name.count("<"))],
            adapter_id=name.partition("+")[2] or None,
        )
    found = dict[str, Any]()
    for engine in engines:
        found |= drain(engine)
        check_drained(engine.scheduler)
    return {name: found[name].outputs[0].token_ids for name in names}


@pytest.mark.parametrize(
    "settings", [{}, {"max_num_batched_tokens": 5}, {"max_loras": 1}, {"enable_prefix_caching": False}]
)
def test_equal_tokens_with_different_images_give_different_texts(settings: dict[str, Any]) -> None:
    names = ("cat", "dog", "cat again", "cat+sql", "dog+sql", "cat+law", "cat once more", "cat <")
    together = texts_of(names, together=True, **settings)
    assert together == texts_of(names, together=False)
    assert together["cat"] == together["cat again"] == together["cat once more"]
    assert len({tuple(text) for text in together.values()}) == 3


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([MultiModalFeatureSpec("cat", 0, 9)], "image 'cat' must have 1 to 8 embeddings"),
        ([MultiModalFeatureSpec("cat", 0, 0)], "image 'cat' must have 1 to 8 embeddings"),
        ([image_of("cat", 6)], r"in order and within the prompt's 10 tokens; got \[6, 12\]"),
        ([image_of("cat", 4), MultiModalFeatureSpec("dog", 3, 1)], r"in order .* got \[4, 10, 3, 4\]"),
    ],
)
def test_images_that_can_never_be_encoded_are_refused(images: list[MultiModalFeatureSpec], message: str) -> None:
    engine = engine_with(max_num_encoder_input_tokens=8, encoder_cache_size=10)
    with pytest.raises(ValueError, match=message):
        engine.add_request("r", [7] * 10, mm_features=images)
    with pytest.raises(ValueError, match="needs max_num_encoder_input_tokens"):
        engine_with().add_request("r", [7] * 10, mm_features=[image_of("cat")])


def test_images_whose_hit_shrinks_while_their_request_waits_do_not_stall_the_engine() -> None:
    sizes: dict[str, Any] = {"max_model_len": 32, "num_gpu_blocks": 6, "block_size": 4, "encoder_cache_size": 4}
    config = EngineConfig(max_num_encoder_input_tokens=4, check_invariants=True, **sizes)
    engine = make_engine(config, "solution:1-5,solution:11")
    prompt = list(range(1, 17))
    images = [MultiModalFeatureSpec("first", 0, 4), MultiModalFeatureSpec("second", 10, 4)]
    engine.add_request("leaves a hit", prompt, SamplingParams(max_tokens=1), mm_features=images)
    drain(engine)
    engine.add_request("takes the blocks", [99] * 8, SamplingParams(max_tokens=12))
    engine.step()
    engine.add_request("waits", prompt, SamplingParams(max_tokens=1), mm_features=images)
    engine.step()
    gate = encoder_of(engine.scheduler)
    assert gate is not None
    assert gate.cache.cached == {"second": {"waits"}}, "its hit has 12 tokens, with the first image"
    waited = engine.scheduler.requests["waits"]
    outputs = drain(engine)
    assert (waited.num_cached_tokens, outputs["waits"].outputs[0].finish_reason) == (0, "length")
    check_drained(engine.scheduler)
