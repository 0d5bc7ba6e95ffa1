"""A session on disk, stored as one JSON object with a checksum.

Every fault in a file raises an error that explains it.
"""

import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

FORMAT = "mini-vllm session"
VERSION = 1
MAX_BYTES = 64 * 2**20
FIELDS = {"num_kept", "prompt_token_ids", "output_token_ids", "question", "answer", "num_forgotten"}


def write_session(path: Path, model_id: str, turns: Sequence[Mapping[str, Any]]) -> None:
    """Write a session file atomically. Raises `ValueError` on failure and leaves `path` unchanged."""
    content = {"format": FORMAT, "version": VERSION, "model": model_id, "turns": turns}
    text = json.dumps(content | {"checksum": _checksum(content)})
    if len(text) > MAX_BYTES:
        raise ValueError(f"a session file may have at most {MAX_BYTES:,} bytes; this session needs {len(text):,}")
    unfinished = None
    try:
        # It must be in the same folder, because a rename is atomic only within one file system. Only the owner may read
        # the file.
        handle, unfinished = tempfile.mkstemp(prefix=f".{path.name[:100]}.", suffix=".tmp", dir=path.parent)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        raise ValueError(f"the session cannot be saved to {path}: {error.strerror or error}") from error
    finally:
        if unfinished is not None:
            with suppress(OSError):
                os.unlink(unfinished)


def read_session(path: Path, model_id: str, vocab_size: int) -> list[dict[str, Any]]:
    """Read a file and return its turns as fields of `Turn`.

    Raises `ValueError` with the file and the fault: unreadable, not a session, truncated, modified, from a different
    version or model, or containing impossible turns.
    """
    try:
        if path.exists() and not path.is_file():
            raise ValueError(f"{path} is not a file")
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"the session {path} cannot be read: {error.strerror or error}") from error
    try:
        if len(content) > MAX_BYTES:
            raise ValueError(f"the file has more than {MAX_BYTES:,} bytes")
        return _turns_of(_parsed(content), model_id, vocab_size)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the session {path} cannot be resumed: {error}") from error


def _parsed(content: bytes) -> dict[str, Any]:
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError):
        is_ours = content.startswith(b'{"format": "' + FORMAT.encode())
        raise ValueError("it is cut off or damaged" if is_ours else "the file is not a mini-vllm session") from None
    if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
        raise ValueError("the file is not a mini-vllm session")
    return parsed


def _turns_of(parsed: dict[str, Any], model_id: str, vocab_size: int) -> list[dict[str, Any]]:
    if parsed.get("version") != VERSION or type(parsed["version"]) is not int:
        raise ValueError(f"the session has version {parsed.get('version')!r:.20}; this program reads version {VERSION}")
    if parsed.pop("checksum", None) != _checksum(parsed):
        raise ValueError("the session was changed after it was saved: its checksum is wrong")
    if parsed.get("model") != model_id:
        raise ValueError(
            f"the session was saved with a different model or dtype ({parsed.get('model')!r:.40}); this engine "
            f"uses {model_id!r}. Start the engine with the model and dtype that it was saved with"
        )
    num_tokens, turns = 0, parsed.get("turns")
    if not isinstance(turns, list):
        raise ValueError("the session's turns must be a list")
    for place, turn in enumerate(turns):
        _require_turn(turn, place, num_tokens, vocab_size, turns)
        num_tokens = turn["num_kept"] + len(turn["prompt_token_ids"]) + len(turn["output_token_ids"])
        turn |= {name: tuple(turn[name]) for name in ("prompt_token_ids", "output_token_ids")}
    return turns


def _require_turn(turn: Any, place: int, num_tokens: int, vocab_size: int, turns: Sequence[Any]) -> None:
    """Raise `ValueError` unless `Session` could have appended this turn to `num_tokens` tokens."""
    if not isinstance(turn, dict) or turn.keys() != FIELDS:
        raise ValueError(f"turn {place + 1} must have the fields {', '.join(sorted(FIELDS))}")
    for name, most in (("num_kept", num_tokens), ("num_forgotten", place)):
        if type(turn[name]) is not int or not 0 <= turn[name] <= most:
            raise ValueError(f"{name} in turn {place + 1} must be from 0 to {most}, got {turn[name]!r:.20}")
    for name in ("prompt_token_ids", "output_token_ids"):
        token_ids = turn[name]
        if not isinstance(token_ids, list) or any(
            type(one) is not int or not 0 <= one < vocab_size for one in token_ids
        ):
            raise ValueError(f"{name} in turn {place + 1} must be tokens from 0 to {vocab_size - 1}")
    if not isinstance(turn["answer"], str) or not isinstance(turn["question"], str | None):
        raise ValueError(f"the question and the answer in turn {place + 1} must be strings")
    if (turn["question"] is None) != (turns[0]["question"] is None):
        raise ValueError("the session mixes chat turns with plain text")


def _checksum(content: Mapping[str, Any]) -> str:
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
