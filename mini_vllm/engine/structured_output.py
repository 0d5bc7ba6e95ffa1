"""Grammars for requests: checked at once, compiled in the background. (vLLM: `v1/structured_output/__init__.py`.)"""

import json
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, lru_cache
from typing import Any

from mini_vllm.core.automaton import Dfa, TrieNode, build_nfa, build_trie, group_bytes
from mini_vllm.core.grammar import Grammar, StructuredOutputFunctions
from mini_vllm.core.regex import parse_regex
from mini_vllm.core.request import Request
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.engine.llguidance_grammar import LLGuidanceGrammar, Vocabulary, llguidance
from mini_vllm.sampling_params import SamplingParams, StructuredOutputsParams

MAX_CACHED = 64
COMPACT = {"whitespace_flexible": False}  # a model that may write spaces without end sometimes does
Start = Callable[[], Grammar]  # makes the grammar of one request


def grammar_of(params: SamplingParams, grammars: "StructuredOutputManager | None") -> Future[Grammar] | None:
    """Return the grammar of a new request, None if it has none. Raises `ValueError` as `grammar_init` does."""
    if params.structured_outputs is None:
        return None
    if grammars is None:
        raise ValueError(
            "structured_outputs needs phases 6 (GPU runner) and 9 (structured output): start with --lineup "
            "solution:1-6,solution:9 (starter: for phases that you have written), or with LAB_IMPL"
        )
    return grammars.grammar_init(params.structured_outputs)


def drop_grammar(request: Request) -> None:
    """Do not compile what only a request that was refused or aborted would have needed."""
    if request.grammar is not None:
        request.grammar.cancel()


class StructuredOutputManager:
    """Makes the grammars of requests. What is compiled serves every request that asks for the same.

    `regex` and `choice` run through phase 9, all else through llguidance.
    """

    def __init__(self, functions: StructuredOutputFunctions, tokenizer: Tokenizer, vocab_size: int) -> None:
        self.functions = functions
        self.tokenizer = tokenizer
        self.vocab_size = vocab_size
        self._executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mini-vllm-grammar")
        self._regex = lru_cache(MAX_CACHED)(self._compile_regex)
        self._other = lru_cache(MAX_CACHED)(self._compile_other)

    def grammar_init(self, params: StructuredOutputsParams) -> Future[Grammar]:
        """Return the grammar of a new request. Raises `ValueError` if what is asked for is wrong.

        The future raises `ValueError` if it turns out to be too large.
        """
        if not self.tokenizer.eos_token_ids:
            raise ValueError("structured_outputs needs a model with an end-of-text token: no text could end")
        regex = params.regex if params.choice is None else "|".join(map(re.escape, params.choice))
        if regex is not None:
            parse_regex(regex)
            return self._executor.submit(lambda: self._regex(regex)())
        grammar = in_llguidance_format(params)
        if error := llguidance().LLMatcher.validate_grammar(grammar):
            raise ValueError(f"structured_outputs cannot be compiled: {error.splitlines()[0]}")
        return self._executor.submit(lambda: self._other(grammar)())

    def _compile_regex(self, regex: str) -> Start:
        trie, alphabet = self._vocabulary
        try:
            nfa = build_nfa(parse_regex(regex))
            groups = group_bytes(nfa, alphabet)  # [a-z] is one step of the automaton and not 26
            dfa = self.functions.build_dfa(nfa, frozenset(groups))
        except ValueError as error:
            raise ValueError(f"structured_outputs cannot be compiled: {error}") from None
        rows = [{byte: after for one, after in row.items() for byte in groups[one]} for row in dfa.transitions]
        dfa = Dfa(rows, dfa.accepting)
        masks = self.functions.make_masks(dfa, trie, self.vocab_size, self.tokenizer.eos_token_ids)
        return lambda: self.functions.make_grammar(masks)

    def _compile_other(self, grammar: str) -> Start:
        matcher = llguidance().LLMatcher(self._tokenizer, grammar, log_level=0)
        if matcher.is_error():
            raise ValueError(f"structured_outputs cannot be compiled: {matcher.get_error().splitlines()[0]}")
        return lambda: LLGuidanceGrammar(matcher.deep_copy(), self.tokenizer.eos_token_ids)

    @cached_property
    def _vocabulary(self) -> tuple[TrieNode, frozenset[int]]:
        """The trie of the vocabulary, and the bytes that occur in it."""
        token_bytes = self.tokenizer.token_bytes()[: self.vocab_size]
        return build_trie(token_bytes), frozenset(b"".join(token_bytes))

    @cached_property
    def _tokenizer(self) -> Any:
        return Vocabulary(self.tokenizer, self.vocab_size).for_llguidance()


def in_llguidance_format(params: StructuredOutputsParams) -> str:
    """Return `json`, `json_object` or `grammar` as llguidance reads it. Raises `ValueError` for what is no JSON."""
    if params.grammar is not None:
        return str(llguidance().LLMatcher.grammar_from_lark(params.grammar))
    schema = {"type": "object"} if params.json is None else params.json
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema)
        return str(llguidance().LLMatcher.grammar_from_json_schema(text, overrides=COMPACT))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"structured_outputs.json must be a JSON schema: {error}") from None
