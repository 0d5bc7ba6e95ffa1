"""Prepares JSON schemas for llguidance: drops annotations and rejects schemas that no grammar can express."""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from mini_vllm.electives.regex import ambiguity
from mini_vllm.engine.llguidance_grammar import llguidance

IN_MAPPINGS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
IN_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
ALONE = ("items", "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems",
         "propertyNames", "contains", "not", "if", "then", "else")  # fmt: skip
MAX_REFS = 1_000  # with more references, searching for infinite recursion would take seconds
UUID = "^[0-9a-f]{{8}}-[0-9a-f]{{4}}-{}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}$"
# Pydantic's formats, written with keywords that llguidance supports. All other formats that llguidance does not support
# are treated as mere annotations.
FORMATS: dict[str, dict[str, Any]] = {
    **{f"uuid{version}": {"pattern": UUID.format(version)} for version in range(1, 9)},
    "ipvanyaddress": {"anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
}


def prepare(schema: Any) -> str | None:
    """Rewrite a schema in place for llguidance; return where and why no grammar can express it, or None.

    Raises `TypeError` or `AttributeError` for an invalid JSON schema.
    """
    if endless := _endless(schema):
        return f"every value would be endless, because a $ref requires itself: {', '.join(endless)}"
    for place, node in _subschemas(schema):
        for pattern in (node.get("pattern"), *node.get("patternProperties", ())):
            if isinstance(pattern, str) and (why := ambiguity(pattern)):
                return f"pattern at {place}: {why}"
        if node.get("uniqueItems") is False or node.get("maxItems") in (0, 1):
            node.pop("uniqueItems", None)  # always satisfied
        if "uniqueItems" in node:
            return f"uniqueItems at {place} is not supported, because a grammar does not compare items; leave it out"
        name = node.get("format")
        if isinstance(name, str) and not _is_known(name):
            del node["format"]
            wanted = FORMATS.get(name, {})
            node |= wanted if node.keys().isdisjoint(wanted) else {}
    return None


@lru_cache
def _is_known(name: str) -> bool:
    """Return whether llguidance supports a format."""
    schema = {"type": "string", "format": name}
    return not llguidance().LLMatcher.validate_grammar(llguidance().LLMatcher.grammar_from_json_schema(schema))


def _subschemas(node: Any, place: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each nested schema with its path, outer schemas first."""
    if not isinstance(node, dict):
        return
    yield place, node
    for key in [*node]:
        inner = node[key]
        if key in IN_MAPPINGS and isinstance(inner, dict):
            for name, one in inner.items():
                yield from _subschemas(one, f"{place}/{key}/{name}")
        elif key in IN_LISTS and isinstance(inner, list):
            for number, one in enumerate(inner):
                yield from _subschemas(one, f"{place}/{key}/{number}")
        elif key in ALONE:
            yield from _subschemas(inner, f"{place}/{key}")


def _endless(schema: Any) -> list[str]:
    """Return the `$ref`s that require themselves, which makes every value infinite, or [] if values can be finite."""
    refs = {node["$ref"] for _, node in _subschemas(schema) if isinstance(node.get("$ref"), str)}
    if len(refs) > MAX_REFS:
        return []
    targets, ends = {ref: _target(schema, ref) for ref in refs}, set[str]()
    # Start with targets that have no references, then add those in which every required part can end.
    while found := {ref for ref, target in targets.items() if ref not in ends and _can_end(target, ends)}:
        ends |= found
    return [] if _can_end(schema, ends) else sorted(refs - ends)


def _can_end(node: Any, ends: set[str]) -> bool:
    if not isinstance(node, dict):
        return True
    if isinstance(node.get("$ref"), str) and node["$ref"] not in ends:
        return False
    choices = [node[key] for key in ("anyOf", "oneOf") if node.get(key)]
    if not all(any(_can_end(one, ends) for one in choice) for choice in choices):
        return False
    needed = list(node.get("allOf", ()))
    match node:
        case {"type": "object"}:
            named, others = node.get("properties", {}), node.get("additionalProperties", True)
            required = node.get("required", [])
            needed += [named.get(name, others) for name in required]
            num_finite = sum(_can_end(one, ends) for one in named.values())
            if node.get("minProperties", 0) > num_finite and "patternProperties" not in node:
                needed.append(others)
        case {"type": "array"}:
            first, least = node.get("prefixItems", []), node.get("minItems", 0)
            needed += [*first[:least], *([node.get("items")] if least > len(first) else [])]
    return all(_can_end(one, ends) for one in needed)


def _target(schema: Any, ref: str) -> Any:
    """Return the target of a `$ref` within the schema, or True (a schema with finite values) for any other `$ref`."""
    if not ref.startswith("#"):
        return True
    for name in ref[1:].split("/")[1:]:
        name = unquote(name).replace("~1", "/").replace("~0", "~")
        if isinstance(schema, list) and name.isdecimal() and int(name) < len(schema):
            schema = schema[int(name)]
        elif isinstance(schema, dict) and name in schema:
            schema = schema[name]
        else:
            return True
    return schema
