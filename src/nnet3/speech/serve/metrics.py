"""Metrics of the server, in the text format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest


class Metrics:
    """Counters of a server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.connections = Gauge("nnet3_connections", "Open connections.", registry=registry)
        self.refused = Counter(
            "nnet3_refused", "Requests refused: too many, stopping, or not allowed.", registry=registry
        )
        self.closed = Counter("nnet3_closed", "Connections closed, by code.", ["code"], registry=registry)
        self.audio = Counter("nnet3_audio_seconds", "Audio that was heard.", registry=registry)
        self.answer_seconds = Histogram(
            "nnet3_answer_seconds",
            "From when a message is taken up to when its answer is there.",
            buckets=(0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10),
            registry=registry,
        )
        self.streams = Histogram(
            "nnet3_streams_per_run",
            "Streams that a run of the network had.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            registry=registry,
        )

    def text(self) -> bytes:
        """Returns all counters."""
        return generate_latest(self._registry)
