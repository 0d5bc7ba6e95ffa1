"""Checks grammars and converts them to llguidance's format. A server does this in a process with time and memory
limits."""

import json
import re
from contextlib import suppress
from functools import cache
from typing import Any

from mini_vllm.electives.regex import MAX_LENGTH, parse_regex
from mini_vllm.engine.json_schema import prepare
from mini_vllm.engine.llguidance_grammar import llguidance, reason_of
from mini_vllm.sampling_params import StructuredOutputsParams

MAX_CHARACTERS = 256 * 1024  # llguidance takes 2 s for this number; the time grows quadratically
COMPACT = {"whitespace_flexible": False}  # with flexible whitespace, a model may write spaces endlessly


def text_of(params: StructuredOutputsParams) -> tuple[str, str]:
    """Return the name of the setting to compile, and its text. Raises `ValueError` if the text is too long or is not
    JSON."""
    if params.choice is not None:
        return "regex", within("choice", "|".join(map(re.escape, params.choice)), MAX_LENGTH)
    if params.regex is not None:
        return "regex", within("regex", params.regex, MAX_LENGTH)
    llguidance()  # raises an error if it is missing
    if params.grammar is not None:
        return "grammar", within("grammar", params.grammar, MAX_CHARACTERS)
    schema = {"type": "object"} if params.json is None else params.json
    try:
        text = schema if isinstance(schema, str) else json.dumps(schema)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"structured_outputs.json must be a JSON schema: {error}") from None
    return "json", within("json", text, MAX_CHARACTERS)


def within(name: str, text: str, most: int) -> str:
    if len(text) > most:
        raise ValueError(
            f"structured_outputs.{name} must have at most {most:,} characters, got {len(text):,}; shorten it, because "
            f"compiling it would take too long"
        )
    return text


def source_of(kind: str, text: str) -> str:
    """Return the source to compile. Raises `ValueError` if it cannot be compiled, whatever the vocabulary."""
    if kind == "regex":
        parse_regex(text)
        return text
    source = str(llguidance().LLMatcher.grammar_from_lark(text)) if kind == "grammar" else from_json_schema(text)
    matcher = llguidance().LLMatcher(byte_tokenizer(), source, log_level=0)
    matcher.compute_bitmask()  # the engine's process will compute the same thing, but with different tokens
    # A grammar may name control tokens, which are missing from these bytes: in that case, llguidance decides without a
    # vocabulary.
    if matcher.is_error() and (error := llguidance().LLMatcher.validate_grammar(source)):
        raise ValueError(f"structured_outputs cannot be compiled: {reason_of(error)}")
    return source


def from_json_schema(text: str) -> str:
    why = None
    try:
        schema = json.loads(text)
        with suppress(AttributeError, TypeError):  # llguidance reports malformed schemas
            why = prepare(schema)
        grammar = str(llguidance().LLMatcher.grammar_from_json_schema(schema, overrides=COMPACT))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"structured_outputs.json must be a JSON schema: {error}") from None
    if why is not None:
        raise ValueError(f"structured_outputs.json cannot be enforced: {why}")
    return grammar


@cache
def byte_tokenizer() -> Any:
    return llguidance().LLTokenizer("byte")
