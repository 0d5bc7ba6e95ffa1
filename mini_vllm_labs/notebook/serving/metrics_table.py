"""Reads `/metrics` as numbers keyed by name, and shows how they change in a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from mini_vllm_labs.notebook.notice import Notice
from mini_vllm_labs.notebook.recorded_mark import first_mark, marked_html, marked_text

SAME_IN_ALL = ("model_name", "engine")
LEFT_OUT = ("_bucket", "_created")  # `_created` is the clock time at which a counter was created


@dataclass(frozen=True)
class Metrics:
    """The values of `/metrics`, except histogram buckets, keyed by name and distinguishing labels.

    `recorded` means the same as in `WorkloadRun`.
    """

    values: Mapping[str, float]
    recorded: str = ""

    @classmethod
    def of(cls, text: str, recorded: str = "") -> "Metrics":
        from prometheus_client.parser import text_string_to_metric_families

        samples = (sample for family in text_string_to_metric_families(text) for sample in family.samples)
        values = {
            named(sample.name, sample.labels): sample.value for sample in samples if not sample.name.endswith(LEFT_OUT)
        }
        return cls(values, recorded)

    def __getitem__(self, name: str) -> float:
        return self.values[name]

    def __repr__(self) -> str:
        return marked_text("\n".join(f"{name} {plain(value)}" for name, value in self.values.items()), self.recorded)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/html": table({"": self}, list(self.values), self.recorded), "text/plain": repr(self)}


@dataclass(frozen=True)
class MetricsTable:
    moments: Mapping[str, Metrics]
    names: Sequence[str]
    recorded: str = ""

    def __repr__(self) -> str:
        lines = [
            f"{name}: {', '.join(f'{plain(each[name])} ({moment})' for moment, each in self.moments.items())}"
            for name in self.names
        ]
        return marked_text("\n".join(lines), self.recorded)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        return {"text/html": table(self.moments, self.names, self.recorded), "text/plain": repr(self)}


def compare_metrics(moments: Mapping[str, Metrics | Notice], *names: str) -> MetricsTable | Notice:
    """Return the named metrics (default: those that change) at each point in time, or the first `Notice`."""
    known = dict[str, Metrics]()
    for moment, metrics in moments.items():
        if isinstance(metrics, Notice):
            return metrics
        known[moment] = metrics
    every = [name for name in next(iter(known.values())).values if not name.endswith("_seconds_sum")]
    differ = [name for name in every if len({each[name] for each in known.values()}) > 1]
    return MetricsTable(known, names or differ, first_mark(known.values()))


def named(name: str, labels: Mapping[str, str]) -> str:
    shown = ",".join(f'{key}="{value}"' for key, value in labels.items() if key not in SAME_IN_ALL)
    return f"{name}{{{shown}}}" if shown else name


def plain(value: float) -> str:
    return f"{value:,.4f}".rstrip("0").rstrip(".")


def table(moments: Mapping[str, Metrics], names: Sequence[str], mark: str) -> str:
    """Return an HTML table with a row for each name and a column for each moment."""
    head = "".join(f'<th scope="col">{escape(moment)}</th>' for moment in moments)
    heading = f"<thead><tr><td></td>{head}</tr></thead>" if any(moments) else ""
    rows = "".join(
        f'<tr><td style="text-align:left"><code>{escape(name)}</code></td>'
        + "".join(f"<td>{plain(each[name])}</td>" for each in moments.values())
        + "</tr>"
        for name in names
    )
    return marked_html(f"<table>{heading}<tbody>{rows}</tbody></table>", mark)
