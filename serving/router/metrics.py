"""The metrics of all replicas as one page: each sample says by its label `engine` which replica it is from."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample


class MergedMetrics(Collector):
    """The pages of several replicas, by their index."""

    def __init__(self, pages: Mapping[int, str]) -> None:
        self.pages = pages

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        for index, page in self.pages.items():
            for family in text_string_to_metric_families(page):
                merged = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                merged.samples += [labelled(sample, index) for sample in family.samples]
        yield from families.values()


def labelled(sample: Sample, index: int) -> Sample:
    """Return a sample with the replica as its engine."""
    return sample._replace(labels={**sample.labels, "engine": str(index)})


def merged_page(pages: Mapping[int, str]) -> bytes:
    """Return one page of metrics."""
    registry = CollectorRegistry()
    registry.register(MergedMetrics(pages))
    return generate_latest(registry)
