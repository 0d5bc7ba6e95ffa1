"""Checks the grammars of requests immediately, and compiles them in the background.

(vLLM: `v1/structured_output/__init__.py`.)
"""

import json
import re
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any

from mini_vllm.core.request import Grammar, Request
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.electives.automaton import Dfa, build_nfa, group_bytes
from mini_vllm.electives.grammar import StructuredOutputFunctions
from mini_vllm.electives.regex import parse_regex
from mini_vllm.engine.grammar_source import source_of, text_of
from mini_vllm.engine.llguidance_grammar import LLGuidanceGrammar, llguidance, reason_of
from mini_vllm.engine.spelled_masks import spelled
from mini_vllm.engine.vocabulary import Vocabulary
from mini_vllm.sampling_params import SamplingParams, StructuredOutputsParams

MAX_CACHED, MAX_SHOWN = 64, 5
ESCAPED = re.compile(r"\\u(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{4}))")  # a character in a Lark grammar
ASCII = tuple(map(chr, range(32, 127)))
Start = Callable[[], Grammar]  # creates a request's grammar


def grammar_of(params: SamplingParams, grammars: "StructuredOutputManager | None") -> Future[Grammar] | None:
    """Return a new request's grammar, or None if the request has no grammar. Raises `ValueError` like
    `grammar_init`."""
    if params.structured_outputs is None:
        return None
    if grammars is None:
        raise ValueError(
            "structured_outputs needs phases 6 (GPU runner) and 9 (structured output): start with --lineup "
            "solution:1-6,solution:9 (use starter: for phases that you have written), or set LAB_IMPL"
        )
    return grammars.grammar_init(params.structured_outputs)


def drop_grammar(request: Request) -> None:
    """Cancel the pending compilation for a refused or aborted request."""
    if request.grammar is not None:
        request.grammar.cancel()


class StructuredOutputManager:
    """Makes grammars for requests. Requests with the same parameters share the compiled result.

    Phase 9 handles `regex` and `choice`; llguidance handles everything else.
    """

    def __init__(self, functions: StructuredOutputFunctions, tokenizer: Tokenizer, vocab_size: int) -> None:
        self.functions = functions
        self.tokenizer = tokenizer
        self.vocab_size = vocab_size
        self.eos_token_ids = frozenset(one for one in tokenizer.eos_token_ids if one < vocab_size)
        self._executor = ThreadPoolExecutor(max_workers=2, thread_name_prefix="mini-vllm-grammar")
        self._regex = lru_cache(MAX_CACHED)(self._compile_regex)
        self._other = lru_cache(MAX_CACHED)(self._compile_other)

    def grammar_init(self, params: StructuredOutputsParams) -> Future[Grammar]:
        """Start compiling a new request's grammar. Raises `ValueError` like `checked`.

        The future raises `ValueError` if the grammar cannot be compiled.
        """
        if not self.eos_token_ids:
            raise ValueError(
                "structured_outputs needs a model with an end-of-text token, because otherwise a text could never end"
            )
        source, choice = checked(params)._source or "", tuple(params.choice or ())
        if params.regex is not None or choice:
            return self._executor.submit(lambda: self._regex(source, choice)())
        return self._executor.submit(lambda: self._other(source)())

    def _compile_regex(self, regex: str, choice: tuple[str, ...]) -> Start:
        vocabulary = self.vocabulary
        require_spelled(vocabulary, "choice", choice)
        try:
            nfa = build_nfa(parse_regex(regex))
            groups = group_bytes(nfa, vocabulary.alphabet)  # [a-z] is one transition in the automaton instead of 26
            dfa = self.functions.build_dfa(nfa, frozenset(groups))
        except ValueError as error:
            raise ValueError(f"structured_outputs cannot be compiled: {error}") from None
        rows = [{byte: after for one, after in row.items() for byte in groups[one]} for row in dfa.transitions]
        dfa = Dfa(rows, dfa.accepting)
        masks = self.functions.make_masks(dfa, vocabulary.trie, self.vocab_size, self.eos_token_ids)
        if not vocabulary.is_complete:
            masks = spelled(masks)
        return lambda: self.functions.make_grammar(masks)

    def _compile_other(self, grammar: str) -> Start:
        if not self.vocabulary.is_complete:
            is_json = grammar.startswith("{")
            text = json.dumps(json.loads(grammar), ensure_ascii=False) if is_json else grammar
            needed = {*ASCII, *text, *(chr(int(long or short, 16)) for long, short in ESCAPED.findall(text))}
            require_spelled(self.vocabulary, "json" if is_json else "grammar", sorted(filter(str.isprintable, needed)))
        matcher = llguidance().LLMatcher(self.llguidance_tokenizer, grammar, log_level=0)
        first = matcher.deep_copy()
        first.compute_bitmask()  # detects a grammar that allows no text
        if first.is_error():
            raise ValueError(f"structured_outputs cannot be compiled: {reason_of(first.get_error())}")
        return lambda: LLGuidanceGrammar(matcher.deep_copy(), self.eos_token_ids)

    @cached_property
    def vocabulary(self) -> Vocabulary:
        return Vocabulary(self.tokenizer, self.vocab_size, self.eos_token_ids)

    @cached_property
    def llguidance_tokenizer(self) -> Any:
        return llguidance().LLTokenizer(self.vocabulary, eos_token=sorted(self.eos_token_ids))


def checked(params: StructuredOutputsParams) -> StructuredOutputsParams:
    """Check the params and return them with `_source` set. Raises `ValueError` if they are invalid.

    A long grammar takes seconds, so a server first calls `source_of` in a process with time and memory limits.
    """
    return params if params._source is not None else replace(params, _source=cached_source_of(*text_of(params)))


cached_source_of = lru_cache(MAX_CACHED)(source_of)  # a client may send many requests with the same grammar


def require_spelled(vocabulary: Vocabulary, name: str, texts: Iterable[str]) -> None:
    """Raise `ValueError` naming the first texts that the vocabulary cannot spell, if any."""
    if missing := [text for text in texts if not vocabulary.is_spelled(text)]:
        shown = ", ".join(map(repr, missing[:MAX_SHOWN])) + ", ..." * (len(missing) > MAX_SHOWN)
        raise ValueError(
            f"structured_outputs.{name} cannot be written by this model: no tokens in its tokenizer spell {shown}"
        )
