"""Turns tokens into text one by one: never emits partial characters, finds stop strings across tokens.

vLLM: `v1/engine/detokenizer.py`.
"""

from collections.abc import Sequence

from mini_vllm.core.tokenizer import Tokenizer

NUM_CONTEXT_TOKENS = 5
INCOMPLETE = "\ufffd"


class IncrementalDetokenizer:
    """The text of one request while it grows.

    One character may need several tokens, and how a token decodes may depend on the one before. So new tokens are
    decoded together with the previous ones, and text is accepted only when it ends with a whole character.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int],
        stop: Sequence[str] = (),
        include_stop_str_in_output: bool = False,
        min_tokens: int = 0,
    ) -> None:
        self.text = ""
        self._tokenizer = tokenizer
        self._stop = stop
        self._include_stop = include_stop_str_in_output
        self._token_ids = list(prompt_token_ids[-NUM_CONTEXT_TOKENS:])
        self._context_start = 0
        self._num_read = len(self._token_ids)
        # A stop string that is complete before this many tokens are known does not end the text.
        self._num_known_before_stop = len(self._token_ids) + min_tokens
        self._num_held_back = 0 if include_stop_str_in_output else max((len(s) for s in stop), default=1) - 1

    def add(self, token_ids: Sequence[int]) -> str | None:
        """Append tokens; return the stop string that they complete, if any, and cut the text there."""
        for token_id in token_ids:
            self._token_ids.append(token_id)
            if (stop := self._accept(final=False)) is not None:
                return stop
        return None

    def finish(self) -> str | None:
        """Accept an incomplete end: the text is final. Returns a stop string as `add` does."""
        self._num_held_back = 0
        return self._accept(final=True)

    def stable_text(self) -> str:
        """Return the text so far that can no longer become part of a stop string."""
        return self.text[: max(0, len(self.text) - self._num_held_back)]

    def _accept(self, final: bool) -> str | None:
        known = self._tokenizer.decode(self._token_ids[self._context_start : self._num_read])
        whole = self._tokenizer.decode(self._token_ids[self._context_start :])
        if len(whole) <= len(known) or (whole.endswith(INCOMPLETE) and not final):
            return None
        self._context_start, self._num_read = self._num_read, len(self._token_ids)
        return self._append(whole[len(known) :])

    def _append(self, new_text: str) -> str | None:
        num_old = len(self.text)
        self.text += new_text
        if len(self._token_ids) < self._num_known_before_stop:
            return None
        first_match: tuple[int, str] | None = None
        for stop in self._stop:
            start = self.text.find(stop, max(0, num_old - len(stop) + 1))
            if start >= 0 and (first_match is None or start < first_match[0]):
                first_match = (start, stop)
        if first_match is None:
            return None
        start, stop = first_match
        self.text = self.text[: start + len(stop)] if self._include_stop else self.text[:start]
        self._num_held_back = 0
        return stop
