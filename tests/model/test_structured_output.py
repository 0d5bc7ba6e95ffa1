"""Structured output on the embedded model: generated texts match, whatever else the engine does."""

import asyncio
import json
import re
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import reduce
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from jsonschema import validate  # type: ignore[import-untyped]

from mini_vllm import LLM, EngineConfig, RequestOutput, SamplingParams
from mini_vllm.assembly.lineup import parse_lineup
from mini_vllm.config import SpeculativeConfig
from mini_vllm.core.cdiv import cdiv
from mini_vllm.core.request import Grammar
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.electives.automaton import Dfa, build_trie
from mini_vllm.electives.grammar import DEAD_END, StructuredOutputFunctions
from mini_vllm.engine import async_llm, grammar_process
from mini_vllm.engine.async_llm import AsyncLLM
from mini_vllm.engine.errors import ShuttingDownError
from mini_vllm.engine.llguidance_grammar import LLGuidanceGrammar, llguidance
from mini_vllm.engine.structured_output import StructuredOutputManager
from mini_vllm.runner import grammar_masks
from mini_vllm.sampling_params import StructuredOutputsParams
from solutions import phase9_structured_output as solution
from solutions.phase9_structured_output import RegexGrammar, RegexTokenMasks
from tests.engine import limited_calls
from tests.engine.test_grammar_process import id_in, is_running, wait_until

ROOMY = EngineConfig(num_gpu_blocks=200)
NAME, AGE = {"type": "string", "maxLength": 12}, {"type": "integer", "minimum": 0, "maximum": 120}


def an_object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def nested(depth: int) -> dict[str, Any]:
    return reduce(lambda inner, _: {"not": inner}, range(depth), dict[str, Any]())


SCHEMAS: tuple[dict[str, Any], ...] = (
    {"type": "boolean"},
    {"enum": ["red", "green", 7, None]},
    AGE,
    NAME,
    an_object(name=NAME, age=AGE),
    an_object(who=an_object(name=NAME), likes={"type": "array", "items": {"enum": ["tea", "pie"]}, "maxItems": 3}),
    {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 4},
    {"anyOf": [{"type": "null"}, an_object(age=AGE)]},
    {"type": "string", "pattern": "^[A-Z][a-z]{1,6}-[0-9]{2}$"},
    an_object(pairs={"type": "array", "items": an_object(key=NAME, is_old={"type": "boolean"}), "maxItems": 2}),
)
REGEXES = (r"\d{3}-\d{4}", r"(yes|no|maybe so)\.", r"[A-Z][a-z]{2,9} said .{0,20}!", "é{3,5}|\\n{1,3}x")


def engine(config: EngineConfig = ROOMY) -> LLM:
    return LLM(config=config, lineup=parse_lineup("solution:1-9"))


def params(seed: int = 0, **what: Any) -> SamplingParams:
    return SamplingParams(150, 1.0, seed=seed, structured_outputs=StructuredOutputsParams(**what))


def test_200_texts_under_ten_schemas_parse_and_validate() -> None:
    wanted = [(schema, seed) for schema in SCHEMAS for seed in range(20)]
    outputs = engine().generate(["Tell me about Mina."] * 200, [params(seed, json=schema) for schema, seed in wanted])
    for (schema, _), output in zip(wanted, outputs, strict=True):
        assert output.outputs[0].finish_reason == "stop"
        validate(json.loads(output.outputs[0].text), schema)


@pytest.mark.parametrize(
    "config",
    [
        replace(ROOMY, async_scheduling=True),
        replace(ROOMY, speculative_config=SpeculativeConfig("ngram")),
        replace(ROOMY, speculative_config=SpeculativeConfig("draft_model"), async_scheduling=True),
        replace(ROOMY, num_gpu_blocks=16, max_num_batched_tokens=24),  # preempted, and computed in chunks
    ],
)
def test_texts_match_and_are_the_same_however_they_are_computed(config: EngineConfig) -> None:
    wanted = [params(seed, regex=regex) for regex in REGEXES for seed in range(3)]
    wanted += [params(1, choice=("tea", "tea time?")), params(2, json=SCHEMAS[4]), SamplingParams(20)]
    plain, other = (engine(one).generate(["Mina said"] * len(wanted), wanted) for one in (ROOMY, config))
    assert [one.outputs[0].text for one in other] == [one.outputs[0].text for one in plain]
    for one, output in zip(wanted[:-3], plain, strict=False):
        assert one.structured_outputs is not None
        assert re.fullmatch(one.structured_outputs.regex or "", output.outputs[0].text, re.ASCII)


@pytest.mark.parametrize("max_kept_bytes", [0, 32 << 20])
def test_each_mask_is_worked_out_once_while_there_is_room(monkeypatch: pytest.MonkeyPatch, max_kept_bytes: int) -> None:
    monkeypatch.setattr(grammar_masks, "MAX_KEPT_BYTES", max_kept_bytes)
    llm, asked = engine(), list[bytes]()
    masks = llm.engine.runner.masks  # type: ignore[attr-defined]

    def apply_bitmask(logits: torch.Tensor, bitmask: torch.Tensor, rows: Sequence[int]) -> None:
        asked.extend(row.numpy().tobytes() for row in bitmask)
        solution.apply_bitmask(logits, bitmask, rows)

    masks.functions = replace(masks.functions, apply_bitmask=apply_bitmask)
    wanted = [params(seed, regex=REGEXES[1]) for seed in range(4)] + [SamplingParams(20)]
    outputs = llm.generate(["Mina said"] * 5, wanted)
    assert all(re.fullmatch(REGEXES[1], output.outputs[0].text) for output in outputs[:4])
    if max_kept_bytes:
        assert len(asked) == len(set(asked)) == len(masks._kept)
    else:
        assert len(asked) > len(set(asked)) > len(masks._kept)


@pytest.mark.parametrize("regex", [*REGEXES, "(ab|a(bc)*)+", "[^ ]{1,3} [^a-y]?"])
def test_masks_are_those_of_llguidance(regex: str) -> None:
    manager = engine().engine.grammars
    assert manager is not None
    ours = manager.grammar_init(StructuredOutputsParams(regex=regex)).result()
    matcher = llguidance().LLMatcher(
        manager.llguidance_tokenizer, llguidance().LLMatcher.grammar_from_regex(regex.replace(r"\d", "[0-9]"))
    )  # \d in any script
    theirs = LLGuidanceGrammar(matcher, manager.tokenizer.eos_token_ids)
    for token in manager.tokenizer.encode("abcab 123-4567 Mina said so!") * 2:
        allowed = [set(range(manager.vocab_size)) & set(_allowed(one, manager.vocab_size)) for one in (ours, theirs)]
        assert allowed[0] == allowed[1]
        token = token if token in allowed[0] else min(allowed[0])
        assert ours.accept_tokens("r", [token]) == theirs.accept_tokens("r", [token])
        if ours.is_terminated():
            break


def _allowed(grammar: Grammar, vocab_size: int) -> list[int]:
    return [token for token in range(vocab_size) if grammar.validate_tokens([token])]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return engine().engine.tokenizer


@pytest.mark.parametrize("vocab_size", [1504, 1505, 1536, 1537, 1568, 2048, 8191, 8192])
def test_a_model_may_have_more_or_fewer_logits_than_there_are_tokens(tokenizer: Tokenizer, vocab_size: int) -> None:
    functions = StructuredOutputFunctions(solution.build_dfa, RegexTokenMasks, RegexGrammar, solution.apply_bitmask)
    manager = StructuredOutputManager(functions, tokenizer, vocab_size)
    same: list[dict[str, Any]] = [{"regex": "[a-z]+ [A-Z]#"}, {"grammar": "start: /[a-z]+ [A-Z]#/"}]
    ours, other = (manager.grammar_init(StructuredOutputsParams(**one)).result() for one in same)
    for token_id in tokenizer.encode("abc X#"):
        assert _filled(ours, vocab_size) == _filled(other, vocab_size) != []
        assert ours.accept_tokens("", [token_id])
        assert other.accept_tokens("", [token_id])
    assert _filled(ours, vocab_size) == _filled(other, vocab_size) == sorted(tokenizer.eos_token_ids)


def _filled(grammar: Grammar, vocab_size: int) -> list[int]:
    bitmask = np.zeros((2, cdiv(vocab_size, 32)), dtype=np.int32)
    grammar.fill_bitmask(bitmask, 1)
    assert not bitmask[0].any()
    return list(np.flatnonzero(np.unpackbits(bitmask[1].view(np.uint8), bitorder="little")[:vocab_size]))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ({"regex": "a("}, r"regex 'a\(', character 3: the group is not closed"),
        ({"json": {"type": "frog"}}, "frog"),
        ({"regex": "(" * 500}, "at most 100 groups"),
        ({"json": "{"}, "must be a JSON schema"),
        ({"json": nested(5_000)}, "must be a JSON schema"),
        ({"json": {"type": "integer", "minimum": 5, "maximum": 3}}, "structured_outputs cannot be compiled"),
        ({"grammar": "start: x"}, "structured_outputs cannot be compiled"),
        ({"regex": "a", "choice": ("b",)}, "exactly one of"),
        ({}, "exactly one of"),
        ({"choice": ()}, "choice must be"),
        *[({"choice": wrong}, "choice must be") for wrong in ("ab", ("a", 5), (b"a",), 5)],
        *[({"regex": wrong}, "regex must be of type str, got") for wrong in (5, b"a", ["a"])],
        ({"grammar": 5}, "grammar must be of type str, got 5"),
        ({"json_object": "yes"}, "json_object must be of type bool, got 'yes'"),
        ({"regex": "a", "disable_any_whitespace": 1}, "disable_any_whitespace must be of type bool, got 1"),
        ({"disable_any_whitespace": True}, "exactly one of json, .*json_object; got none"),
        ({"grammar": "start: " + "a" * 2**18}, "grammar must have at most 262,144 characters, got 262,151"),
        ({"json": {"const": "a" * 2**18}}, "json must have at most 262,144 characters"),
    ],
)
def test_what_cannot_be_compiled_is_refused_with_the_reason(what: dict[str, Any], message: str) -> None:
    llm = engine()
    with pytest.raises(ValueError, match=message):
        llm.engine.add_request("r", "Hi", params(**what))
    assert not llm.engine.has_unfinished_requests()


async def num_tokens_of_a_neighbour(llm: AsyncLLM) -> int:
    outputs = [one async for one in llm.generate("Hi", SamplingParams(max_tokens=5, ignore_eos=True), "other")]
    return len(outputs[-1].outputs[0].token_ids)  # a slow reader gets several tokens in one output


@pytest.mark.parametrize("end", ["by itself", "over the limit", "its reader leaves", "shutdown"])
def test_other_requests_get_tokens_while_a_grammar_is_checked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, end: str
) -> None:
    file = tmp_path / "checking"
    monkeypatch.setattr(async_llm, "source_of", limited_calls.source_after)
    if end == "over the limit":
        monkeypatch.setattr(grammar_process, "MAX_SECONDS", 6.0)

    async def both() -> None:
        llm = AsyncLLM(engine().engine)
        slow = asyncio.create_task(anext(llm.generate("Hi", params(grammar=str(file)), "slow")))
        process_id = await asyncio.to_thread(id_in, file)
        assert await num_tokens_of_a_neighbour(llm) == 5
        message, error = "this grammar is gone", ValueError
        match end:
            case "by itself":
                file.unlink()
            case "over the limit":
                message = "structured_outputs cannot be compiled: its compilation takes more than 6 seconds"
            case "its reader leaves":
                slow.cancel()
                message, error = "^$", asyncio.CancelledError  # type: ignore[assignment]
            case "shutdown":
                await llm.shutdown(0)
                message, error = "shutting down", ShuttingDownError  # type: ignore[assignment]
        with pytest.raises(error, match=message):
            await slow
        if end != "by itself":
            await asyncio.to_thread(wait_until, lambda: not is_running(process_id))
        await llm.shutdown(0)
        await asyncio.to_thread(wait_until, lambda: not is_running(process_id))

    asyncio.run(both())


def test_grammars_of_aborted_or_refused_requests_are_not_compiled() -> None:
    llm, until = engine(replace(ROOMY, max_num_waiting=1)), Event()
    manager, futures = llm.engine.grammars, list[Future[Any]]()
    assert manager is not None
    executor = manager._executor
    for _ in range(2):
        executor.submit(until.wait)
    try:
        submit = executor.submit
        executor.submit = lambda work: futures.append(submit(work)) or futures[-1]  # type: ignore
        llm.engine.add_request("r", "Hi", params(regex="a"))
        with pytest.raises(ValueError, match="max_num_waiting"):
            llm.engine.add_request("too many", "Hi", params(regex="b"))
        llm.engine.abort_request("r")
        assert [future.cancelled() for future in futures] == [True, True]
    finally:
        until.set()


@pytest.mark.parametrize(("regex", "text"), [("( ?[a-z]{0,3}){50}", None), ("(.*a){200}", None), ("(b?){1000}", "bbb")])
def test_hostile_regexes_are_compiled_or_refused_in_seconds(regex: str, text: str | None) -> None:
    manager = engine().engine.grammars
    assert manager is not None
    future = manager.grammar_init(StructuredOutputsParams(regex=regex))
    error = future.exception(timeout=20)
    assert error is None or "more than 4,000 states" in str(error)
    if text is not None:
        assert future.result().accept_tokens("r", manager.tokenizer.encode(text))


def test_without_phase_9_a_request_is_refused() -> None:
    with pytest.raises(ValueError, match=r"phases 6 .* and 9"):
        LLM(lineup=parse_lineup("solution:1-6")).generate("Hi", params(regex="a"))


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("method", ["ngram", "draft_model", None])
@pytest.mark.parametrize("grammar", ["start: /a/ start", "start: start", 'start: "a" start | start'])
def test_a_grammar_without_an_end_ends_its_request_alone(grammar: str, method: Any, *, is_late: bool) -> None:
    """llguidance's mask allows the first token, but llguidance fails when it reads that token in masks or drafts."""
    speculation = SpeculativeConfig(method, adaptive=False) if method else None
    llm = engine(replace(ROOMY, speculative_config=speculation, async_scheduling=is_late))
    nowhere, fine = llm.generate(["a a a a a"] * 2, [params(grammar=grammar), params(regex="[ab]{9}")])
    assert nowhere.outputs[0].finish_reason == "error"
    assert nowhere.error is not None
    assert nowhere.error.startswith("structured_outputs cannot be ")
    assert re.fullmatch("[ab]{9}", fine.outputs[0].text)


@pytest.mark.parametrize("error", ["too many states", DEAD_END])
def test_a_grammar_that_fails_or_leads_nowhere_ends_its_request_alone(error: str) -> None:
    llm, grammar, nowhere = (
        engine(),
        Future[Grammar](),
        RegexTokenMasks(Dfa([{}], frozenset()), build_trie([]), 1537, frozenset({0})),
    )
    if error == DEAD_END:
        grammar.set_result(RegexGrammar(nowhere))
    else:
        grammar.set_exception(ValueError(error))
    for name, num_tokens in (("other", 4), ("r", 9)):
        llm.engine.add_request(name, "Hi", SamplingParams(num_tokens))
    llm.engine.scheduler.requests["r"].grammar = grammar
    outputs = dict[str, RequestOutput]()
    while llm.engine.has_unfinished_requests():
        outputs |= {output.request_id: output for output in llm.engine.step() if output.finished}
    assert (outputs["r"].outputs[0].finish_reason, outputs["r"].error) == ("error", error)
    assert outputs["other"].outputs[0].finish_reason == "length"
