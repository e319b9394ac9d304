"""Lets a recognizer with Vosk's Python API listen: arguments are `vosk` or `nnet3.asr`, a model directory, that of a
speaker model or an empty one, and recordings.

`nnet3` reads them itself; Vosk gets samples of 16 bits, as libsndfile makes them. Writes a line of JSON with the
seconds of the processor up to a loaded model, one for each recording with the results of its segments and the seconds
that they took, and one with the largest memory.
"""

from __future__ import annotations

import importlib
import io
import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PIECE_SECONDS = 0.2


def opened(path: str, module: str) -> tuple[int, float, Iterator[Any]]:
    """Returns the rate of a recording, its seconds, and its pieces."""
    if module == "vosk":
        file = importlib.import_module("soundfile").SoundFile(path)
        rate, samples = file.samplerate, file.read(dtype="int16")
        piece = int(PIECE_SECONDS * rate)
        pieces = (samples[first : first + piece].tobytes() for first in range(0, len(samples), piece))
        return rate, len(samples) / rate, pieces
    recording = importlib.import_module("nnet3.speech.features.audio_file").open_audio(
        io.BytesIO(Path(path).read_bytes()), path
    )
    return recording.rate, recording.seconds, recording.pieces(PIECE_SECONDS)


def main() -> None:
    vosk = importlib.import_module(sys.argv[1])
    vosk.SetLogLevel(-1)
    model = vosk.Model(sys.argv[2])
    speakers = vosk.SpkModel(sys.argv[3]) if sys.argv[3] else None
    print(json.dumps({"start": time.process_time()}), flush=True)
    for path in sys.argv[4:]:
        rate, audio, pieces = opened(path, sys.argv[1])
        begin = time.perf_counter()
        recognizer = vosk.KaldiRecognizer(model, rate)
        recognizer.SetWords(True)
        if speakers is not None:
            recognizer.SetSpkModel(speakers)
        segments = []
        for piece in pieces:
            if recognizer.AcceptWaveform(piece):
                segments.append(json.loads(recognizer.Result()))
        segments.append(json.loads(recognizer.FinalResult()))
        seconds = time.perf_counter() - begin
        print(json.dumps({"segments": segments, "seconds": seconds, "audio": audio}), flush=True)
    print(json.dumps({"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
