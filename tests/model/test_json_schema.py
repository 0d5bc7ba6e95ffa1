"""Tests what llguidance receives: schemas without annotations, and control tokens by name; errors take one line."""

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from pydantic import UUID4, BaseModel, ConfigDict, Field, IPvAnyAddress, SecretStr

from mini_vllm.core.tokenizer import ByteTokenizer
from mini_vllm.engine.json_schema import MAX_REFS, prepare
from mini_vllm.engine.structured_output import StructuredOutputManager
from mini_vllm.sampling_params import StructuredOutputsParams
from tests.model.test_vocabularies import FUNCTIONS, generate
from tests.model.vocabularies import tokenizer_of

MANAGER = StructuredOutputManager(FUNCTIONS, ByteTokenizer(), 257)
NULL, ITSELF = {"type": "null"}, {"$ref": "#"}


def text_of(what: dict[str, Any], seed: int = 0, manager: StructuredOutputManager = MANAGER) -> str:
    grammar = manager.grammar_init(StructuredOutputsParams(**what)).result()
    tokenizer = manager.tokenizer
    token_ids = generate(grammar, manager.vocab_size, tokenizer.eos_token_ids, random.Random(seed))
    return tokenizer.decode(token_ids)


SHORT = Field(json_schema_extra={"maxLength": 5})


class Record(BaseModel):
    """The annotations of pydantic 2.14 that become formats in its JSON schema."""

    model_config = ConfigDict(extra="forbid")

    home: Annotated[Path, SHORT]
    blob: Annotated[bytes, SHORT]
    secret: Annotated[SecretStr, SHORT]
    random_id: UUID4
    any_id: UUID
    address: IPvAnyAddress
    format: Literal["uuid9"]
    uniqueItems: bool  # noqa: N815
    more: Annotated[set[Annotated[Path, SHORT]], Field(max_length=1)]


@pytest.mark.parametrize("seed", range(5))
def test_outputs_satisfy_schemas_with_pydantics_formats(seed: int) -> None:
    Record.model_validate_json(text_of({"json": Record.model_json_schema()}, seed))


def test_values_that_look_like_keywords_are_kept() -> None:
    value = {"format": "path", "uniqueItems": True, "pattern": "[[:digit:]]"}
    assert json.loads(text_of({"json": {"const": value}})) == value


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "array", "items": ITSELF, "minItems": 1}, NULL]},
        {
            "type": "object",
            "properties": {"next": {"anyOf": [ITSELF, NULL]}},
            "required": ["next"],
            "additionalProperties": False,
        },
        {"type": "object", "properties": {"next": ITSELF}, "additionalProperties": False},
        {"type": "array", "items": ITSELF, "maxItems": 2},
        {"type": "array", "prefixItems": [NULL], "items": ITSELF, "minItems": 1},
        {"$ref": "#/$defs/a~1b/%63", "$defs": {"a/b": {"c": NULL}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"const": 5}]}}},
        {"type": "array", "items": NULL, "uniqueItems": False, "maxItems": 2},
        {"type": "array", "items": NULL, "uniqueItems": True, "maxItems": 1},
        {"type": "string", "format": "uuid4", "pattern": "^[ab]{3}$"},
        {"type": "string", "pattern": r"^[\[a\-\-]{2}\[[\[\]]?$"},
    ],
)
def test_recursive_schemas_with_an_end_are_served(schema: dict[str, Any]) -> None:
    for seed in range(5):
        json.loads(text_of({"json": schema}, seed))


def chain(*refs: str) -> dict[str, Any]:
    return {
        "$ref": f"#/$defs/{refs[0]}",
        "$defs": {a: {"$ref": f"#/$defs/{b}"} for a, b in pairwise(refs)},
    }


@pytest.mark.parametrize(
    ("what", "message"),
    [
        *[
            ({"json": schema}, "structured_outputs.json cannot be enforced: every value would be endless, because .*#")
            for schema in (
                ITSELF,
                chain("a", "a"),
                chain("a", "b", "c", "a"),
                {"type": "object", "properties": {"a": ITSELF}, "required": ["a"]},
                {"type": "object", "required": ["z"], "additionalProperties": ITSELF},
                {"type": "object", "minProperties": 1, "additionalProperties": ITSELF},
                {"type": "object", "minProperties": 2, "properties": {"a": NULL}, "additionalProperties": ITSELF},
                {"type": "array", "items": ITSELF, "minItems": 1},
                {"type": "array", "prefixItems": [NULL, ITSELF], "minItems": 2},
                {"allOf": [{"type": "object"}, ITSELF]},
                {"anyOf": [ITSELF, {"type": "array", "items": ITSELF, "minItems": 2}]},
            )
        ],
        ({"json": {"items": {"uniqueItems": True}}}, "uniqueItems at #/items is not supported"),
        ({"json": {"properties": {"x": {"pattern": "[[:digit:]]"}}}}, "pattern at #/properties/x: .*:digit:"),
        ({"json": {"patternProperties": {"[a&&b]": True}}}, "pattern at #: .*set operations"),
        ({"json": {"pattern": "a("}}, r"regex parse error 'a\(': unclosed group$"),
        ({"json": {"pattern": "(?=a)b"}}, "regex parse error '.*': look-around, .* not supported$"),
        ({"grammar": "start: /a(/"}, "at 1.8.: invalid regex .*: unclosed group$"),
        ({"grammar": "start: start"}, "structured_outputs cannot be compiled: the grammar allows no text$"),
        ({"grammar": "start: <|nope|>"}, 'unknown special token: "<|nope|>"'),
        ({"json": {"properties": 5}}, "properties must be an object"),
        ({"json": {"type": "array", "minItems": "x"}}, "Expected positive integer for 'minItems'"),
        ({"json": {"$ref": "#/nowhere"}}, "'/nowhere' does not exist"),
    ],
)
def test_grammars_that_cannot_be_followed_are_refused_in_one_line(what: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        text_of(what)
    assert "\n" not in str(error.value)


def test_many_references_are_prepared_quickly() -> None:
    calls = chain(*map(str, range(20 * MAX_REFS)))
    assert prepare(calls) is None


def test_a_grammar_that_becomes_too_large_ends_with_the_reason() -> None:
    properties = {f"p{number}": {"type": "integer"} for number in range(900)}
    with pytest.raises(ValueError, match=r"structured_outputs cannot be enforced any further: .*max is 2000"):
        text_of({"json": {"type": "object", "properties": properties}})


@pytest.mark.parametrize("grammar", ['start: "a" <|call|> /[bc]/', 'start: "a" <|call|> /[bc]/ </s>'])
def test_a_lark_grammar_names_control_tokens(grammar: str) -> None:
    tokenizer = tokenizer_of("byte-level")
    manager = StructuredOutputManager(FUNCTIONS, tokenizer, len(tokenizer.tokenizer))
    started = manager.grammar_init(StructuredOutputsParams(grammar=grammar)).result()
    call = tokenizer.control_tokens["<|call|>"]
    before, after, end = *tokenizer.encode("a"), *tokenizer.encode("b"), *tokenizer.eos_token_ids
    assert started.validate_tokens([before, after]) == [before]
    assert started.accept_tokens("r", [before, call, after, end])
    assert started.is_terminated()
    started.rollback(2)
    assert started.validate_tokens([end]) == []
    assert started.accept_tokens("r", [after, end])
