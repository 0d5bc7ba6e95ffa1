"""Tokens become text one by one: nothing half is shown, and stop strings are found across tokens.

vLLM: `v1/engine/detokenizer.py`.
"""

from collections.abc import Sequence

from mini_vllm.engine.tokenizer import Tokenizer

NUM_CONTEXT_TOKENS = 5
INCOMPLETE = "\ufffd"


class IncrementalDetokenizer:
    """The text of one request while it grows.

    A character may be spread over several tokens, and a token may look different behind another one.
    So new tokens are decoded together with the ones before, and text is only taken over when it does
    not end in the middle of a character.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_token_ids: Sequence[int],
        stop: Sequence[str] = (),
        include_stop_str_in_output: bool = False,
    ) -> None:
        self.text = ""
        self._tokenizer = tokenizer
        self._stop = stop
        self._include_stop = include_stop_str_in_output
        self._token_ids = list(prompt_token_ids[-NUM_CONTEXT_TOKENS:])
        self._context_start = 0
        self._num_read = len(self._token_ids)
        self._num_held_back = 0 if include_stop_str_in_output else max((len(s) for s in stop), default=1) - 1

    def add(self, token_ids: Sequence[int]) -> str | None:
        """Take new tokens; return the stop string that they completed, if any, and cut the text there."""
        for token_id in token_ids:
            self._token_ids.append(token_id)
            if (stop := self._take_over(final=False)) is not None:
                return stop
        return None

    def finish(self) -> str | None:
        """Take over what was incomplete; the text is final. Returns a stop string like `add`."""
        self._num_held_back = 0
        return self._take_over(final=True)

    def showable(self) -> str:
        """Return the text that can be shown already: no part of it can become a stop string."""
        return self.text[: max(0, len(self.text) - self._num_held_back)]

    def _take_over(self, final: bool) -> str | None:
        known = self._tokenizer.decode(self._token_ids[self._context_start : self._num_read])
        whole = self._tokenizer.decode(self._token_ids[self._context_start :])
        if len(whole) <= len(known) or (whole.endswith(INCOMPLETE) and not final):
            return None
        self._context_start, self._num_read = self._num_read, len(self._token_ids)
        return self._append(whole[len(known) :])

    def _append(self, new_text: str) -> str | None:
        num_old = len(self.text)
        self.text += new_text
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
