"""Checks requests' grammars at once and compiles them in the background. (vLLM: `v1/structured_output/__init__.py`.)

Both happen first in a process with limits. llguidance's result cannot leave that process, so it is compiled again here.
"""

import json
import pickle
import re
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import Any

from mini_vllm.core.request import Grammar, Request
from mini_vllm.core.tokenizer import Tokenizer
from mini_vllm.electives.automaton import Dfa
from mini_vllm.electives.grammar import StructuredOutputFunctions
from mini_vllm.engine.grammar_process import MAX_CACHED, GrammarProcesses
from mini_vllm.engine.grammar_source import dfa_rows, source_of, text_of
from mini_vllm.engine.llguidance_grammar import LLGuidanceGrammar, llguidance, reason_of
from mini_vllm.engine.spelled_masks import spelled
from mini_vllm.engine.vocabulary import Vocabulary
from mini_vllm.sampling_params import SamplingParams, StructuredOutputsParams

MAX_SHOWN = 5
ESCAPED = re.compile(r"\\u(?:\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{4}))")  # a character in a Lark grammar
ASCII = tuple(map(chr, range(32, 127)))
Start = Callable[[], Grammar]  # makes the grammar of one request


def grammar_of(params: SamplingParams, grammars: "StructuredOutputManager | None") -> Future[Grammar] | None:
    """Return a new request's grammar, or None if it has none. Raises `ValueError` like `grammar_init`."""
    if params.structured_outputs is None:
        return None
    if grammars is None:
        raise ValueError(
            "structured_outputs needs phases 6 (GPU runner) and 9 (structured output): start with --lineup "
            "solution:1-6,solution:9 (starter: for phases that you have written), or with LAB_IMPL"
        )
    return grammars.grammar_init(params.structured_outputs)


def drop_grammar(request: Request) -> None:
    """Cancel the pending compilation for a refused or aborted request."""
    if request.grammar is not None:
        request.grammar.cancel()


class StructuredOutputManager:
    """Makes the grammars of requests. Requests with the same parameters share the compiled result.

    Phase 9 handles `regex` and `choice`, llguidance everything else.
    """

    def __init__(self, functions: StructuredOutputFunctions, tokenizer: Tokenizer, vocab_size: int) -> None:
        self.functions = functions
        self.tokenizer = tokenizer
        self.vocab_size = vocab_size
        self.eos_token_ids = frozenset(one for one in tokenizer.eos_token_ids if one < vocab_size)
        self.processes = GrammarProcesses()
        self._regex = lru_cache(MAX_CACHED)(self._compile_regex)
        self._other = lru_cache(MAX_CACHED)(self._compile_other)

    def start_process(self) -> Future[bool]:
        """Start a process and load phase 9 in it, so that the first grammar need not wait for this."""
        return self.processes.submit(partial(self.processes.call, callable, self.functions.build_dfa))

    def grammar_init(self, params: StructuredOutputsParams) -> Future[Grammar]:
        """Start compiling a new request's grammar. Raises `ValueError` like `checked`.

        The future raises `ValueError` if the grammar cannot be compiled.
        """
        if not self.eos_token_ids:
            raise ValueError(
                "structured_outputs needs a model with an end-of-text token, because otherwise no text could end"
            )
        if params._source is None:
            checking = checked(params, self.processes)
            try:
                params = checking.result()
            finally:
                checking.cancel()  # an interrupt also ends the check
        source, choice = params._source or "", tuple(params.choice or ())
        if params.regex is not None or choice:
            return self.processes.submit(lambda: self._regex(source, choice)())
        return self.processes.submit(lambda: self._other(source)())

    def _compile_regex(self, regex: str, choice: tuple[str, ...]) -> Start:
        vocabulary = self.vocabulary
        require_spelled(vocabulary, "choice", choice)
        groups, rows, accepting = self.processes.call(dfa_rows, self.functions.build_dfa, regex, vocabulary.alphabet)
        expanded = [{byte: after for one, after in pickle.loads(row).items() for byte in groups[one]} for row in rows]
        dfa = Dfa(expanded, accepting)
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


def checked(params: StructuredOutputsParams, processes: GrammarProcesses) -> Future[StructuredOutputsParams]:
    """Check the params in a limited process; the future has them with `_source` set.

    Raises `ValueError` if they are too long; the future does if they are invalid or exceed a limit.
    """
    arguments = text_of(params)
    return processes.submit(lambda: replace(params, _source=processes.call_cached(source_of, *arguments)))


def require_spelled(vocabulary: Vocabulary, name: str, texts: Iterable[str]) -> None:
    """Raise `ValueError` with the first texts that the vocabulary cannot spell, if any."""
    if missing := [text for text in texts if not vocabulary.is_spelled(text)]:
        shown = ", ".join(map(repr, missing[:MAX_SHOWN])) + ", ..." * (len(missing) > MAX_SHOWN)
        raise ValueError(
            f"structured_outputs.{name} cannot be written by this model: no tokens of its tokenizer spell {shown}"
        )
