"""Small networks, and requests for them that differ in their length."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np
import torch

import nnet3
from nnet3.engine.driver import CompileTask, compile_task
from nnet3.engine.driver.proving import PROVE
from nnet3.engine.ir.computation import NnetComputation
from nnet3.engine.ir.repeats import unrolled
from tests.effort import EFFORT

BLSTM = """
    input-node name=input dim=3
    component name=f type=NaturalGradientAffineComponent input-dim=7 output-dim=16
    component name=b type=NaturalGradientAffineComponent input-dim=7 output-dim=16
    component name=flstm type=LstmNonlinearityComponent cell-dim=4
    component name=blstm type=LstmNonlinearityComponent cell-dim=4
    component-node name=fgates component=f input=Append(input, IfDefined(Offset(fm, -1)))
    component-node name=flstm component=flstm input=Append(fgates, IfDefined(Offset(fc, -1)))
    dim-range-node name=fc input-node=flstm dim-offset=0 dim=4
    dim-range-node name=fm input-node=flstm dim-offset=4 dim=4
    component-node name=bgates component=b input=Append(input, IfDefined(Offset(bm, 3)))
    component-node name=blstm component=blstm input=Append(bgates, IfDefined(Offset(bc, 3)))
    dim-range-node name=bc input-node=blstm dim-offset=0 dim=4
    dim-range-node name=bm input-node=blstm dim-offset=4 dim=4
    output-node name=output input=Append(fm, bm)
"""
TDNN = """
    input-node name=input dim=3
    input-node name=ivector dim=2
    component name=a type=NaturalGradientAffineComponent input-dim=11 output-dim=80
    component name=r type=RectifiedLinearComponent dim=80
    component name=n type=BatchNormComponent dim=80
    component name=o type=TdnnComponent input-dim=80 output-dim=4 time-offsets=-3,0,3
    component-node name=a component=a input=Append(Offset(input,-1), input, Offset(input,1), ReplaceIndex(ivector,t,0))
    component-node name=r component=r input=a
    component-node name=n component=n input=r
    component-node name=o component=o input=n
    output-node name=output input=o
"""
FAILING = """
    input-node name=input dim=3
    component name=a type=AffineComponent input-dim=3 output-dim=3
    component-node name=a component=a input=Failover(Offset(input, 4), input)
    output-node name=output input=Sum(a, IfDefined(Offset(a, -12)))
"""
POOLING = """
    input-node name=input dim=3
    component name=e type=StatisticsExtractionComponent input-dim=3 input-period=1 output-period=5
    component name=p type=StatisticsPoolingComponent input-dim=7 input-period=5 left-context=20 right-context=20
    component-node name=e component=e input=input
    component-node name=p component=p input=e
    output-node name=output input=Append(input, Round(p, 5))
"""


def request_for(
    nnet: nnet3.Nnet,
    frames: int,
    sequences: int = 1,
    step: int = 1,
    margin: int = 20,
    *,
    train: bool = False,
    by_time: bool = True,
) -> nnet3.ComputationRequest:
    """Outputs at `frames` times and all the input that they could use, rows by time or by sequence."""

    def rows(times: np.ndarray) -> np.ndarray:
        grids = (times, np.arange(sequences)) if by_time else (np.arange(sequences), times)
        first, second = (each.ravel() for each in np.meshgrid(*grids, indexing="ij"))
        n, t = (second, first) if by_time else (first, second)
        return np.stack([n, t, np.zeros(len(n), int)], axis=1)

    given = np.arange(-margin, (frames - 1) * step + margin + 1)
    inputs = [
        nnet3.IoSpecification(name, rows(np.zeros(1, int) if name == "ivector" else given)) for name in nnet.input_names
    ]
    outputs = [nnet3.IoSpecification(name, rows(np.arange(frames) * step), train) for name in nnet.output_names]
    return nnet3.ComputationRequest(inputs, outputs, train, train)


@contextmanager
def proved_at_night() -> Iterator[None]:
    """By day no program is proved that is compiled meanwhile: programs that are proved are compared with it."""
    with mock.patch.dict(os.environ, {PROVE: "0"} if EFFORT == 1 else {}):
        yield


def compiled_alone(task: CompileTask) -> NnetComputation:
    """The program compiled for the shape of a task, of no family, for others to be compared with."""
    with proved_at_night():
        return compile_task(task)


def compiled(
    nnet: nnet3.Nnet, request: nnet3.ComputationRequest, options: nnet3.CompileOptions | None = None
) -> NnetComputation:
    """The program compiled for the shape of a request, of no family, for others to be compared with."""
    return compiled_alone(request.task(nnet, options))


def same_program(one: NnetComputation, other: NnetComputation) -> bool:
    """True if two programs are the same in what is printed of all iterations, and in what kernels precompute."""
    one, other = unrolled(one), unrolled(other)
    if not (_has_equal_fields(one, other) or str(one) == str(other)) or len(one.precomputed) != len(other.precomputed):
        return False
    pairs = ((a or {}, b or {}) for a, b in zip(one.precomputed, other.precomputed, strict=True))
    return all(a.keys() == b.keys() and all(np.array_equal(a[name], b[name]) for name in a) for a, b in pairs)


def _has_equal_fields(one: NnetComputation, other: NnetComputation) -> bool:
    """True if all is equal that the text of a program is made of: then nothing need be printed."""
    plain = ("commands", "matrices", "submatrices", "outside", "kernels", "inputs", "outputs", "iterations")
    infos, arrays = list[Any](), list[Any]()
    for program in (one, other):
        matrices = program.matrix_info.items()
        infos.append([(number, each.node, each.is_deriv) for number, each in matrices])
        tables = *program.index_tables, *program.multi_tables, *program.range_tables
        arrays.append([*(each.indexes for _, each in matrices), *tables])
    return (
        all(getattr(one, name) == getattr(other, name) for name in plain)
        and infos[0] == infos[1]
        and len(arrays[0]) == len(arrays[1])
        and all(map(np.array_equal, *arrays))
    )


def results_of(
    nnet: nnet3.Nnet, request: nnet3.ComputationRequest, program: NnetComputation, dtype: torch.dtype = torch.float64
) -> list[torch.Tensor]:
    """Outputs, derivatives of inputs and gradients of a program, for inputs that follow from the request."""
    generator = torch.Generator().manual_seed(3)
    nnet = nnet.copy()
    nnet.to(dtype=dtype)
    gradient = nnet.gradient_copy()
    computer = nnet3.NnetComputer(program, nnet, gradient if request.need_model_derivative else None)

    def give(io: nnet3.IoSpecification) -> None:
        shape = len(io.indexes), nnet.node_dim(io.name)
        computer.accept_input(io.name, torch.randn(shape, generator=generator, dtype=dtype))

    for io in request.inputs:
        give(io)
    computer.run()
    found = [computer.get_output(io.name).clone() for io in request.outputs]
    if request.needs_backward:
        for io in request.outputs:
            if io.has_deriv:
                give(io)
        computer.run()
        found += [computer.get_output(io.name).clone() for io in request.inputs if io.has_deriv]
    return found + [value for each in gradient.components.values() for value in each.parameters().values()]


def same_program_or_results(
    nnet: nnet3.Nnet, request: nnet3.ComputationRequest, one: NnetComputation, other: NnetComputation
) -> bool:
    """True if two programs are the same, or else give the same numbers.

    Passes choose by the sizes of matrices, so a long program may be written otherwise than one that is continued.
    """
    if same_program(one, other):
        return True
    results = zip(*(results_of(nnet, request, program) for program in (one, other)), strict=True)
    return all(torch.allclose(one, other, rtol=1e-10, atol=1e-10) for one, other in results)
