"""What several clients heard at once."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from course.notebook.recorded_mark import marked_html, marked_text

MAX_EVENTS = 60
STYLE = "text-align:left;vertical-align:top"


@dataclass(frozen=True)
class Refused:
    """An answer that is an error."""

    status: int
    retry_after: str | None
    message: str

    def __str__(self) -> str:
        again = f", Retry-After: {self.retry_after}" if self.retry_after else ""
        return f"{self.status}{again}: {self.message}"


@dataclass(frozen=True)
class Heard:
    """What each client heard, and whose piece came when: `order` is empty in a recorded conversation."""

    answers: Mapping[str, str | Refused]
    order: Sequence[str] = ()
    recorded: str = ""

    @property
    def refused(self) -> list[str]:
        """The clients that were refused."""
        return [name for name, answer in self.answers.items() if isinstance(answer, Refused)]

    @property
    def in_order(self) -> str:
        """Whose piece came when, in a line."""
        more = " ..." if len(self.order) > MAX_EVENTS else ""
        return f"pieces in the order of their arrival: {' '.join(self.order[:MAX_EVENTS])}{more}" if self.order else ""

    def __repr__(self) -> str:
        lines = [f"{name}: {str(answer).strip()}" for name, answer in self.answers.items()]
        return marked_text("\n".join(filter(None, [*lines, self.in_order])), self.recorded)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        rows = "".join(
            f'<tr><th scope="row" style="{STYLE}">{escape(name)}</th>'
            f'<td style="{STYLE}">{escape(str(answer))}</td></tr>'
            for name, answer in self.answers.items()
        )
        order = f'<p style="max-width:720px;margin:2px 0">{escape(self.in_order)}</p>' if self.order else ""
        page = f'<table style="max-width:720px"><tbody>{rows}</tbody></table>{order}'
        return {"text/html": marked_html(page, self.recorded), "text/plain": repr(self)}
