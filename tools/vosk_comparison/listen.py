"""Lets a recognizer with Vosk's Python API listen: `vosk` or `nnet3.asr`, a model directory and WAV files as arguments.

Writes a line of JSON with the seconds up to a loaded model, one for each recording with the results of its segments and
the seconds that they took, and one with the largest memory.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
import time
import wave

PIECE_SECONDS = 0.2


def main() -> None:
    begin = time.perf_counter()
    vosk = importlib.import_module(sys.argv[1])
    vosk.SetLogLevel(-1)
    model = vosk.Model(sys.argv[2])
    print(json.dumps({"start": time.perf_counter() - begin}), flush=True)
    for path in sys.argv[3:]:
        with wave.open(path) as file:
            rate, audio = file.getframerate(), file.readframes(file.getnframes())
        begin = time.perf_counter()
        recognizer = vosk.KaldiRecognizer(model, rate)
        recognizer.SetWords(True)
        segments = []
        piece = 2 * int(PIECE_SECONDS * rate)
        for first in range(0, len(audio), piece):
            if recognizer.AcceptWaveform(audio[first : first + piece]):
                segments.append(json.loads(recognizer.Result()))
        segments.append(json.loads(recognizer.FinalResult()))
        seconds = time.perf_counter() - begin
        print(json.dumps({"segments": segments, "seconds": seconds, "audio": len(audio) / 2 / rate}), flush=True)
    print(json.dumps({"memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))


if __name__ == "__main__":
    main()
