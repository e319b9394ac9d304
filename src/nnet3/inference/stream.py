"""StreamComputer: a network over streams of frames. What it has computed is kept, and nothing is computed twice."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import NoReturn

import torch
from torch import Tensor

from nnet3.base.options.compiling import CompileOptions
from nnet3.base.options.utterances import StreamOptions as StreamOptions
from nnet3.engine.ir.matrices import Matrix
from nnet3.engine.ir.objects import Recent
from nnet3.engine.runtime import NnetComputer
from nnet3.engine.runtime.memory import checked_device
from nnet3.engine.runtime.models import model_dtype
from nnet3.errors import ExecutionError, NumericalError, check_kind
from nnet3.inference.inputs import check_ivectors_wanted, checked_inputs, checked_matrix
from nnet3.inference.running import EditGuard, NetworkKernels
from nnet3.inference.scores import Scoring, priors_of
from nnet3.inference.stream_program import StreamProgram, few_widths
from nnet3.inference.stream_progress import Batch, StreamProgress, gathered
from nnet3.inference.stream_state import from_bytes, model_digest, to_bytes
from nnet3.model.components.base import Component
from nnet3.model.nnet import AcousticModel, Nnet, device_of, network_of

_MOST_COMPUTERS = 64


class StreamComputer:
    """Computes output `output` of a simple network for streams of frames, a chunk at a time. Threads take turns.

        streams = nnet3.StreamComputer(model, frames_per_chunk=21, num_streams=4, frame_subsampling_factor=3)
        stream = streams.open()
        rows = stream.accept(features)      # any number of frames; the rows that became available, perhaps none
        rows = stream.finish()              # the rest

    Row i belongs to frame i * frame_subsampling_factor. A chunk is computed as soon as its frames and the frames of the
    network's right context have come. The first and the last frame are repeated beyond the ends. Every value is
    computed once: a node that can do without frames still to come does without them for good, as in Kaldi's looped
    computation. So outputs do not depend on the sizes of the pieces in which frames come. Frames get the type of the
    parameters; in a network without parameters, the last type given by `Nnet.to`, or float32.

    Streams equally far run together; streams come and go at any chunk. The network runs in test mode, and neighbouring
    components are merged: use a new computer after a change of the network's parameters. A change of parameters in
    merged components is an error here.
    """

    def __init__(
        self,
        model: Nnet | AcousticModel,
        frames_per_chunk: int = 21,
        num_streams: int = 1,
        frame_subsampling_factor: int = StreamOptions.frame_subsampling_factor,
        extra_left_context_initial: int = 0,
        device: str | torch.device | None = None,
        *,
        use_priors: bool = False,
        acoustic_scale: float = 1.0,
        compile_options: CompileOptions | None = None,
        debug: bool = False,
    ) -> None:
        """Finds the program; chunks become longer until the network's period and the subsampling factor divide them.

        `frames_per_chunk`: input frames of a chunk. `num_streams`: the largest number of open streams.
        `extra_left_context_initial`: frames repeated before the first. `device`: by default that of the parameters.
        Outputs become acoustic_scale * (output - log priors), without priors unless `use_priors` is set.
        Raises NetworkError or RequestError for a network that cannot be run in chunks for ever, ExecutionError for
        numbers that cannot be meant.
        """
        nnet = network_of(model)
        self.options = StreamOptions(
            frame_subsampling_factor=frame_subsampling_factor,
            frames_per_chunk=frames_per_chunk,
            extra_left_context_initial=extra_left_context_initial,
            num_streams=num_streams,
        )
        own = device_of(nnet)
        self.device = own if device is None else checked_device(device)
        self.program = StreamProgram.of(
            nnet if self.device == own else nnet.copy().to(device=self.device), self.options
        )
        self.scoring = Scoring(priors_of(model) if use_priors else None, acoustic_scale)
        self._kernels, self._compile_options, self._debug = NetworkKernels.of(self.nnet), compile_options, debug
        self._dtype, self._takes_ivectors = model_dtype(nnet, None) or torch.float32, "ivector" in nnet.input_names
        self._computers = Recent[NnetComputer](_MOST_COMPUTERS)
        self._lock = threading.Lock()
        self._edits = EditGuard(nnet)
        has_merged = not self.nnet.components.keys() <= nnet.components.keys()
        watched = nnet.components.values() if has_merged and self.device == own else ()
        self._watched = [(weakref.ref(component), _versions(component)) for component in watched]
        self._open: weakref.WeakSet[Stream] = weakref.WeakSet()  # a stream that is forgotten counts no more

    @property
    def nnet(self) -> Nnet:
        """The network to run."""
        return self.program.nnet

    @property
    def latency(self) -> int:
        """The largest number of frames after a row's own frame that must have come before the row is computed."""
        return self.program.right_context + self.program.frames_per_chunk - 1

    def prepare(self, at_once: int | None = None) -> None:
        """Compiles the programs for up to `at_once` streams (default: all), so that no chunk has to wait."""
        widths = {self._width(number) for number in range(1, (at_once or self.options.num_streams) + 1)}
        with self._lock:
            for chunk_index, width in itertools.product(range(len(self.program.chunks)), sorted(widths)):
                self._computer(chunk_index, width)

    # ---- streams come and go ----

    def open(self) -> Stream:
        """Returns a new stream. Raises ExecutionError if there are `num_streams` already."""
        stream = Stream(self)
        with self._lock:
            self._add(stream)
        return stream

    def restore(self, state: bytes) -> Stream:
        """Returns a stream that goes on from the state given by a stream, perhaps in another process.

        Raises ExecutionError for a damaged state, or a state of another model or other options; and as `open` does.
        """
        stream = Stream(self)
        from_bytes(state, self._digest, stream._progress)
        with self._lock:
            self._add(stream)
        return stream

    def _add(self, stream: Stream) -> None:
        self._check_unchanged()
        if len(self._open) >= self.options.num_streams:
            raise ExecutionError(
                f"all {self.options.num_streams} streams are open: finish one first, or give a larger num_streams"
            )
        self._open.add(stream)

    def _remove(self, stream: Stream) -> None:
        self._open.discard(stream)
        stream._progress.go_to(None)

    def _check_unchanged(self) -> None:
        """Raises ExecutionError if the network was edited, or parameters of which merged components have others."""
        self._edits.check()
        for reference, versions in self._watched:
            component = reference()
            if component is not None and _have_changed(component, versions):
                raise ExecutionError("the network's parameters have changed since this computer was made: make another")

    def _check_open(self, stream: Stream) -> None:
        if stream not in self._open:
            check_kind(stream, Stream, "a stream", "what open() has given")
            what = "has ended" if stream._computer is self else "is of another computer"
            raise ExecutionError(f"the stream {what}: open() gives a new one")

    @cached_property
    def _digest(self) -> str:
        return model_digest(self.program)

    # ---- frames in, rows out ----

    def accept(
        self, features: Mapping[Stream, Matrix], ivectors: Mapping[Stream, Matrix] | None = None
    ) -> dict[Stream, Tensor]:
        """Gives `features` (frames, dim) to each of several streams; returns the newly available rows (rows, outputs).

        `ivectors`: new ivectors, by stream. See `Stream.accept`. Raises ExecutionError if anything does not fit; then
        no stream has accepted anything. Raises NumericalError for a stream with outputs that are not finite: the stream
        ends, and other streams get their rows at the next call.
        """
        with self._lock:
            newer = ivectors or {}
            for by_stream in (features, newer):
                check_kind(by_stream, Mapping, "features and ivectors", "given by stream, such as {stream: features}")
            if not {**features, **newer}:
                return {}
            self._check_unchanged()
            for stream in {**features, **newer}:
                self._check_open(stream)
            given = {
                stream: self._checked(stream, features.get(stream), newer.get(stream))
                for stream in {**features, **newer}
            }
            for stream, (frames, ivector) in given.items():
                stream._progress.add(frames)
                stream._progress.ivector = ivector
            self._run_ready(given)
            return self._scores(given)

    def _checked(self, stream: Stream, features: Matrix | None, ivector: Matrix | None) -> tuple[Tensor, Tensor | None]:
        """Returns the frames for a stream and the stream's ivector, if the frames can be taken."""
        progress = stream._progress
        frames = progress.frames[:0]
        if features is not None and getattr(features, "shape", None) != frames.shape:
            frames = checked_matrix(self.nnet, "features", features, "input", 2, "cpu").to(self._dtype)
        if ivector is not None:
            check_ivectors_wanted(self.nnet, True)
            newest = checked_matrix(self.nnet, "ivectors", ivector, "ivector", 1, "cpu")
            return frames, newest.to(self._dtype, copy=True)
        if self._takes_ivectors and progress.ivector is None and progress.runs_with(len(frames)):
            check_ivectors_wanted(self.nnet, False)
        return frames, progress.ivector

    def _finish(self, stream: Stream) -> Tensor:
        with self._lock:
            self._check_open(stream)
            self._check_unchanged()
            progress = stream._progress
            if progress.num_frames and progress.ivector is None:
                check_ivectors_wanted(self.nnet, False)
            if progress.num_frames == 0:
                self._remove(stream)
                raise ExecutionError("the stream has ended without any frames")
            try:
                total = progress.end()
                self._run_ready([stream])
                progress.rows = [progress.ready()[: total - progress.num_rows]]
                return self._scores([stream])[stream]
            finally:
                self._remove(stream)

    def _close(self, stream: Stream) -> None:
        with self._lock:
            self._check_open(stream)
            self._remove(stream)

    def _state(self, stream: Stream) -> bytes:
        with self._lock:
            self._check_open(stream)
            return to_bytes(stream._progress, self._digest)

    def _scores(self, streams: Iterable[Stream]) -> dict[Stream, Tensor]:
        """Returns the rows that streams have ready, as scores."""
        ready = {stream: stream._progress.ready() for stream in streams}
        try:  # all at once: each look at numbers waits for the device
            scores = self.scoring.apply(torch.cat(list(ready.values())))
        except NumericalError:
            self._remove_not_finite(ready)
        for stream in ready:
            stream._progress.taken()
        parts = scores.split([len(rows) for rows in ready.values()])
        return {stream: part.clone() for stream, part in zip(ready, parts, strict=True)}  # each its own memory

    def _remove_not_finite(self, ready: Mapping[Stream, Tensor]) -> NoReturn:
        """Ends the streams whose rows make scores that are not finite; raises the NumericalError of the first."""
        failed = []
        for stream, rows in ready.items():
            try:
                self.scoring.apply(rows)
            except NumericalError as error:
                failed.append(error)
                self._remove(stream)
        raise failed[0]

    def compute(
        self,
        features: Matrix,
        ivector: Matrix | None = None,
        online_ivectors: Matrix | None = None,
        online_ivector_period: int = 10,
    ) -> Tensor:
        """Returns the rows (output frames, outputs) of a whole utterance, features (frames, dim).

        Output frames are ceil(frames / frame_subsampling_factor). Further arguments are those of `compute_chunks`.
        """
        return torch.cat(list(self.compute_chunks(features, ivector, online_ivectors, online_ivector_period)))

    def compute_chunks(
        self,
        features: Matrix,
        ivector: Matrix | None = None,
        online_ivectors: Matrix | None = None,
        online_ivector_period: int = 10,
    ) -> Iterator[Tensor]:
        """Yields the rows (output frames, outputs) of an utterance, features (frames, dim), in a new stream.

        `ivector`: (dim,). `online_ivectors`: (rows, dim), one every `online_ivector_period` frames; a chunk takes the
        ivector of the first frame after the chunk's input, or the last one, as in Kaldi. Raises ExecutionError as
        `open` and `accept` do.
        """
        given = checked_inputs(self.nnet, "cpu", features, ivector, online_ivectors)
        frames, online, newest = given.features, given.online_ivectors, given.ivector
        program, done = self.program, 0
        left = -(-len(frames) // program.frame_subsampling_factor)
        stream = self.open()
        try:
            for number in itertools.count():
                end = program.frames_until(number)
                if online is not None:
                    newest = online[min(end // online_ivector_period, len(online) - 1)]
                times = torch.arange(done, end).clamp_(max=len(frames) - 1)
                rows = stream.accept(frames[times], newest)[:left]
                done, left = end, left - len(rows)
                yield rows
                if left == 0:
                    return
        finally:
            if stream in self._open:
                stream.close()

    # ---- chunks ----

    def _run_ready(self, streams: Iterable[Stream]) -> None:
        """Runs chunks until none of the streams has the frames for another."""
        waiting = [stream._progress for stream in streams]
        while ready := [each for each in waiting if each.runs_with(0)]:
            ready.sort(key=lambda each: each.order)
            for chunk_index, group in groupby(ready, key=lambda each: each.chunk_index):
                self._run(chunk_index, list(group))
        for each in waiting:
            each.frames = each.frames.clone()  # not a view of all that was given

    def _run(self, chunk_index: int, streams: Sequence[StreamProgress]) -> None:
        """Runs a chunk of the program for several streams at once."""
        chunk, width = self.program.chunks[chunk_index], self._width(len(streams))
        inputs = gathered(streams, width) if chunk.before else {}
        for name, table in chunk.new.items():
            values = [each.new(name, len(table)) for each in streams]
            values += values[:1] * (width - len(values))
            new = (values[0] if width == 1 else torch.stack(values, dim=1).flatten(0, 1)).to(self.device)
            inputs[name] = torch.cat([inputs[name], new]) if name in inputs else new
        after = self._computer(chunk_index, width).compute(inputs)
        rows = after.pop("output")
        after |= {name: chunk.kept_of(name, inputs[name], width) for name in chunk.kept}
        batch, left = Batch(after, width), {each.batch for each in streams if each.batch is not None}
        of_streams = rows.unflatten(0, (-1, width))[:, : len(streams)].transpose(0, 1).contiguous()
        for column, (each, its_rows) in enumerate(zip(streams, of_streams.unbind(), strict=True)):
            each.go_on(batch, column, its_rows)
        for other in left:
            other.shrink()

    def _computer(self, chunk_index: int, width: int) -> NnetComputer:
        """Returns the computer of a chunk for `width` streams."""

        def make() -> NnetComputer:
            computation = self.program.computation(self.program.chunks[chunk_index], width, self._compile_options)
            return NnetComputer(computation, self._kernels, device=self.device, debug=self._debug, check_finite=False)

        return self._computers.get_or_make((chunk_index, width), make)

    def _width(self, number: int) -> int:
        """Returns for how many streams a program is run; see `few_widths`."""
        return min(few_widths(number), self.options.num_streams)


def _versions(component: Component) -> dict[str, tuple[weakref.ref[Tensor], int]]:
    """Returns the state of a component's parameters: the tensors, and how often each tensor was written to."""
    parameters = component.parameters().items()
    return {name: (weakref.ref(tensor), tensor._version) for name, tensor in parameters if not tensor.is_inference()}


def _have_changed(component: Component, versions: Mapping[str, tuple[weakref.ref[Tensor], int]]) -> bool:
    now = _versions(component)
    return now.keys() != versions.keys() or any(
        version != versions[name][1] or tensor() is not versions[name][0]() for name, (tensor, version) in now.items()
    )


class Stream:
    """A stream of frames; see `StreamComputer`."""

    def __init__(self, computer: StreamComputer) -> None:
        self._computer = computer
        self._progress = StreamProgress(computer.program, computer._dtype, computer.device)

    def accept(self, features: Matrix, ivector: Matrix | None = None) -> Tensor:
        """Gives more features (frames, dim) to the stream; returns newly available rows (rows, outputs), perhaps none.

        Chunks take the newest ivector (dim,) at the time of computation. Raises ExecutionError for frames or ivectors
        that do not fit, if an ivector is missing, and if the stream has ended; the stream is as before then.
        """
        return self._computer.accept({self: features}, None if ivector is None else {self: ivector})[self]

    def finish(self) -> Tensor:
        """Ends the stream and makes room for another one; returns the last rows, as if its last frame were repeated.

        Raises ExecutionError if the stream has ended already, or got no frames.
        """
        return self._computer._finish(self)

    def close(self) -> None:
        """Ends the stream without its last rows. Raises ExecutionError if the stream has ended already."""
        self._computer._close(self)

    def state(self) -> bytes:
        """Returns all that the stream needs to go on, for `StreamComputer.restore`, as a safetensors file.

        The stream stays open. Raises ExecutionError if it has ended.
        """
        return self._computer._state(self)
