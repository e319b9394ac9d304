"""What is to be laid out: a source of nodes, a request and the schedule of the steps that it takes."""

from __future__ import annotations

from typing import NamedTuple

from nnet3.lowering.schedule import Schedule
from nnet3.lowering.source import GraphSource, LoweringRequest


class Task(NamedTuple):
    """What all stages of the layout and all writers of commands begin with."""

    source: GraphSource
    request: LoweringRequest
    schedule: Schedule
