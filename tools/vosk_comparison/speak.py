"""Speaks texts with eSpeak NG, of the package espeakng-loader: run by the Python that has the package, with a JSON list
on standard input of objects with `text`, `voice`, `speed` and `path`, the WAV file to write."""

from __future__ import annotations

import ctypes
import json
import sys
import wave

import espeakng_loader  # type: ignore[import-not-found]

_RETRIEVAL, _SYNCHRONOUS, _RATE_PARAMETER, _UTF8 = 1, 2, 1, 1


def main() -> None:
    library = ctypes.CDLL(espeakng_loader.get_library_path())
    rate = library.espeak_Initialize(_SYNCHRONOUS, 0, espeakng_loader.get_data_path().encode(), 0)
    heard: list[bytes] = []

    def take(samples: int, count: int, events: int) -> int:
        if count > 0:
            heard.append(ctypes.string_at(samples, 2 * count))
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)
    callback = kind(take)
    library.espeak_SetSynthCallback(callback)
    for number, wanted in enumerate(json.load(sys.stdin)):
        heard.clear()
        library.espeak_ng_SetRandSeed(ctypes.c_long(number))
        if library.espeak_SetVoiceByName(wanted["voice"].encode()):
            raise SystemExit(f"eSpeak NG has no voice {wanted['voice']}")
        library.espeak_SetParameter(_RATE_PARAMETER, wanted["speed"], 0)
        text = wanted["text"].encode()
        library.espeak_Synth(text, len(text) + 1, 0, 1, 0, _UTF8, None, None)
        library.espeak_Synchronize()
        with wave.open(wanted["path"], "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(b"".join(heard))


if __name__ == "__main__":
    main()
