"""Sixteen streams at once: through one server of nnet3, or by as many recognizers of Vosk in two threads.

Run it as `python -m tools.vosk_comparison.streams MODEL-DIR recording.wav ...` for nnet3; with a Python that has Vosk,
as `python tools/vosk_comparison/streams.py --vosk MODEL-DIR recording.wav ...`. It says how much audio a second takes.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
import wave
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

_STREAMS, _CORES, _PIECE_SECONDS = 16, 2, 0.2
Audio = tuple[int, bytes]


def read(path: str) -> Audio:
    with wave.open(path) as file:
        return file.getframerate(), file.readframes(file.getnframes())


def pieces(audio: Audio) -> list[bytes]:
    size = 2 * int(_PIECE_SECONDS * audio[0])
    return [audio[1][first : first + size] for first in range(0, len(audio[1]), size)]


def with_vosk(folder: str, listen: Callable[[Callable[[Audio], None], int], None]) -> None:
    vosk = importlib.import_module("vosk")
    vosk.SetLogLevel(-1)
    model = vosk.Model(folder)

    def hear(audio: Audio) -> None:
        recognizer = vosk.KaldiRecognizer(model, audio[0])
        recognizer.SetWords(True)
        for piece in pieces(audio):
            _ = recognizer.Result() if recognizer.AcceptWaveform(piece) else recognizer.PartialResult()
        recognizer.FinalResult()

    listen(hear, _CORES)


def with_server(folder: str, listen: Callable[[Callable[[Audio], None], int], None]) -> None:
    asr, serve, options = (importlib.import_module(f"nnet3.{name}") for name in ("asr", "serve", "options"))
    connect = importlib.import_module("websockets.sync.client").connect
    with serve.Server(asr.Model(folder), options.ServeOptions(port=0, threads=_CORES)) as server:
        host, port = server.address

        def hear(audio: Audio) -> None:
            with connect(f"ws://{host}:{port}") as connection:
                connection.send(json.dumps({"config": {"sample_rate": audio[0]}}))
                for piece in pieces(audio):
                    connection.send(piece)
                    connection.recv()
                connection.send('{"eof" : 1}')
                connection.recv()

        listen(hear, _STREAMS)


def main() -> None:
    is_vosk = sys.argv[1] == "--vosk"
    folder, *paths = sys.argv[1 + is_vosk :]
    recordings = [read(path) for path in paths]
    audio = [recordings[number % len(recordings)] for number in range(_STREAMS)]

    def listen(hear: Callable[[Audio], None], threads: int) -> None:
        begin = time.perf_counter()
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(hear, audio))
        seconds, spoken = time.perf_counter() - begin, sum(len(each) / 2 / rate for rate, each in audio)
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{spoken:.0f} s of audio in {seconds:.1f} s: {spoken / seconds:.1f} s a second, {memory:.0f} MiB")

    (with_vosk if is_vosk else with_server)(folder, listen)


if __name__ == "__main__":
    main()
