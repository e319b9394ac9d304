"""Samples of any format, and the resampler against its formula."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from nnet3.errors import ArgumentError
from nnet3.speech.features.audio import PcmReader, Resampler
from tests.effort import draws
from tests.seeds import RANDOM


def slow_outputs(samples: np.ndarray, a: int, b: int, band: int) -> np.ndarray:
    """Returns all outputs of a signal at rate a, one after the other, at rate b, with `band` percent of the band."""
    cutoff, zeros = min(a, b) / 2 * band / 100, 6
    width = zeros / (2 * cutoff)
    outputs, i = [], 0
    while i * a < len(samples) * b:
        total = 0.0
        for j in range(math.ceil((i / b - width) * a) - 1, math.floor((i / b + width) * a) + 2):
            d = j / a - i / b
            if 0 <= j < len(samples) and abs(d) < width:
                weight = 2 * cutoff if d == 0 else math.sin(2 * math.pi * cutoff * d) / (math.pi * d)
                total += samples[j] * 0.5 * (1 + math.cos(2 * math.pi * cutoff * d / zeros)) * weight / a
        outputs.append(total)
        i += 1
    return np.array(outputs)


@pytest.mark.parametrize(("a", "b"), [(8000, 16000), (16000, 8000), (22050, 16000), (44100, 8000), (11025, 16000)])
@pytest.mark.parametrize("band", [100, 99])
def test_outputs_are_those_of_the_formula(a: int, b: int, band: int) -> None:
    samples = (1000 * RANDOM.normal(size=150)).astype(np.float32)
    outputs = Resampler(a, b, band).accept(samples, last=True)
    np.testing.assert_allclose(outputs, slow_outputs(samples, a, b, band), rtol=1e-5, atol=1e-3)


@settings(max_examples=draws(15))
@given(
    st.sampled_from([(8000, 16000), (48000, 16000), (22050, 16000), (16000, 11025), (16001, 16000)]),
    st.lists(st.integers(0, 700), max_size=6),
)
def test_pieces_make_no_difference(rates: tuple[int, int], pieces: list[int]) -> None:
    samples = RANDOM.normal(size=sum(pieces)).astype(np.float32)
    whole = Resampler(*rates).accept(samples, last=True)
    resampler, outputs, done = Resampler(*rates), [], 0
    for piece in pieces:
        done += piece
        outputs.append(resampler.accept(samples[done - piece : done]))
        # so many as do not depend on what is to come
        ticks = done * math.lcm(*rates) // rates[0] - 6 * math.lcm(*rates) // min(rates)
        assert sum(map(len, outputs)) == max(-(-ticks * rates[1] // math.lcm(*rates)), 0)
    outputs.append(resampler.accept(samples[:0], last=True))
    assert np.array_equal(np.concatenate(outputs), whole)


def test_a_tone_stays_a_tone() -> None:
    tone = np.sin(2 * np.pi * 440 * np.arange(22050) / 22050).astype(np.float32)
    outputs = Resampler(22050, 16000).accept(tone, last=True)
    expected = np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    assert len(outputs) == 16000
    np.testing.assert_allclose(outputs[200:-200], expected[200:-200], atol=3e-3)


@pytest.mark.parametrize("rate", [0, -8000, 16000.5, 999, 10**6, math.nan, "16000", None])
def test_rates_that_nothing_records_are_refused(rate: Any) -> None:
    with pytest.raises(ArgumentError, match="a sample rate must be a whole number from 1000 to 400000, got"):
        Resampler(rate, 16000)


def test_every_format_gives_samples_of_16_bits() -> None:
    samples = np.array([-32768, -1, 0, 5, 32767], np.int16)
    for audio in (
        samples,
        samples.astype("<i2").tobytes(),
        memoryview(samples.astype("<i2").tobytes()),
        samples.astype(np.float32),
        samples.astype(np.float64),
        samples.astype(np.int32) * 65536,
        samples.astype(">i2"),
        samples[:, np.newaxis],
    ):
        read = PcmReader().read(audio)
        assert read.dtype == np.float32
        assert read.tolist() == samples.tolist()
    assert PcmReader().read(np.array([0, 128, 255], np.uint8)).tolist() == [-32768, 0, 127 * 256]


def test_samples_that_are_cut_go_on_in_the_next_piece() -> None:
    contents = np.arange(-50, 50, dtype="<i2").tobytes()
    for channels in (1, 2, 4):
        reader, read = PcmReader(channels), []
        for first in range(0, len(contents), 3):
            read.append(reader.read(contents[first : first + 3]))
        expected = np.arange(-50, 50).reshape(-1, channels).mean(axis=1)
        assert np.concatenate(read).tolist() == expected.tolist()


def test_channels_are_averaged_or_one_is_taken() -> None:
    stereo = np.array([[2, 4], [6, 10]], np.int16)
    assert PcmReader(2).read(stereo).tolist() == [3, 8]
    assert PcmReader(2).read(stereo.reshape(-1)).tolist() == [3, 8]
    assert PcmReader(2, channel=1).read(stereo.tobytes()).tolist() == [4, 10]


@pytest.mark.parametrize(
    ("audio", "message"),
    [
        (np.array([1.0, np.nan]), "a NaN or an infinity"),
        (np.array([1.0, -1e38]), r"the samples reach to 1e\+38"),
        (np.zeros((3, 2)), r"audio must be \(samples,\) or \(samples, 1\), .*, got \(3, 2\)"),
        (np.array([1j]), "audio is bytes or an array of samples, got ndarray of complex128"),
        ("talk.wav", "audio is bytes or an array of samples, got str of"),
        (None, "audio is bytes or an array of samples, got NoneType of object"),
        ([1, 2], "samples must be uint8, int8, int16 or int32, or floats in the scale of 16 bits, got int64"),
        (np.zeros((2, 1, 1)), "got"),
        ([[1], [1, 2]], "expected an array of numbers, got a list that is none"),
        (torch.zeros(3).to_sparse(), "expected an array of numbers, got a Tensor that is none"),
        (torch.zeros(3, device="meta"), "expected an array of numbers, got a Tensor that is none"),
    ],
)
def test_what_is_no_audio_is_refused(audio: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        PcmReader().read(audio)


def test_tensors_are_audio() -> None:
    for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.int16):
        assert PcmReader().read(torch.tensor([1, -2], dtype=dtype)).tolist() == [1, -2]
    assert PcmReader().read(torch.ones(2, requires_grad=True)).tolist() == [1, 1]


def test_a_channel_must_be_there() -> None:
    with pytest.raises(ArgumentError, match="there is no channel 2 of 2"):
        PcmReader(2, channel=2)


FAINT = (0.5 * np.sin(np.arange(20_000)), 3000 * np.sin(np.arange(20_000)))  # floats in [-1, 1], and values of 16 bits


@pytest.mark.parametrize("piece", [100, 1600, 20_000])
@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize(
    ("audio", "told"),
    [
        (FAINT[0].astype(np.float32), "multiply by 32768"),
        (FAINT[0].astype(np.float64), "multiply by 32768"),
        (FAINT[0].astype(np.float16), "multiply by 32768"),
        (np.sign(FAINT[0]).astype(np.float32), "multiply by 32768"),
        (FAINT[1].astype(np.int32), "int32 reaches to 2147483647, give values of 16 bits as int16"),
        (FAINT[1].astype(">i4"), "int32 reaches to 2147483647, give values of 16 bits as int16"),
        (FAINT[1].astype(np.float32), ""),
        (FAINT[1].astype(np.int16), ""),
        (np.sign(FAINT[1]).astype(np.int16), ""),
        (65536 * FAINT[1].astype(np.int32), ""),
        (np.zeros(20_000), ""),
        (np.zeros(20_000, np.int32), ""),
        (np.append(FAINT[0][:7000], 2.0), ""),
        (np.append(np.zeros(15_000), FAINT[0][:1000]), ""),
    ],
)
def test_audio_of_another_scale_is_told_once(
    audio: np.ndarray, told: str, channels: int, piece: int, caplog: pytest.LogCaptureFixture
) -> None:
    reader = PcmReader(channels)
    for first in range(0, len(audio), piece):
        reader.read(np.repeat(audio[first : first + piece, np.newaxis], channels, axis=1))
    assert caplog.text.count("so faint that nothing can be heard") == bool(told)
    assert told in caplog.text
