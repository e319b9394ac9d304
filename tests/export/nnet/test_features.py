"""Features in a graph are those of kaldi-native-fbank, for options of all kinds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from nnet3.asr import FeatureStream
from nnet3.export.graph import GraphBuilder
from nnet3.export.nnet.features import FeatureOptions, add_features
from nnet3.options import FbankOptions, MfccOptions
from tests.effort import draws
from tests.export.onnx_run import feature_input, run_graph
from tests.export.samples import RATE, speechlike

WINDOWS = ["povey", "hanning", "hamming", "sine", "rectangular", "blackman"]

frame_options = {
    "preemphasis_coefficient": st.sampled_from([0.97, 0.5, 0.0]),
    "remove_dc_offset": st.booleans(),
    "window_type": st.sampled_from(WINDOWS),
    "blackman_coeff": st.sampled_from([0.42, 0.3]),
    "round_to_power_of_two": st.booleans(),
    "frame_length": st.sampled_from([25.0, 10.1, 32.0]),
    "frame_shift": st.sampled_from([10.0, 12.5, 40.0]),
    "num_mel_bins": st.sampled_from([23, 15]),
    "low_freq": st.sampled_from([20.0, 0.0, 133.3]),
    "high_freq": st.sampled_from([0.0, -400.0, 3300.0]),
    "use_energy": st.booleans(),
    "raw_energy": st.booleans(),
    "energy_floor": st.sampled_from([0.0, 1.0, 1e9]),
    "htk_compat": st.booleans(),
}
mfcc = st.fixed_dictionaries(
    {**frame_options, "num_ceps": st.sampled_from([13, 15]), "cepstral_lifter": st.sampled_from([22.0, 0.0, 7.0])}
).map(lambda values: MfccOptions(sample_frequency=RATE, **values))
fbank = st.fixed_dictionaries({**frame_options, "use_log_fbank": st.booleans(), "use_power": st.booleans()}).map(
    lambda values: FbankOptions(sample_frequency=RATE, **values)
)


def in_graph(options: FeatureOptions, wave: np.ndarray) -> np.ndarray:
    """Returns the features of all whole frames, (frames, dim)."""
    count = (len(wave) - options.frame_samples) // options.shift_samples + 1
    places = np.arange(count)[:, np.newaxis] * options.shift_samples + np.arange(options.frame_samples)
    graph = GraphBuilder()
    frames = feature_input(graph, count, options.frame_samples)
    value = graph.value(add_features(graph, frames.parts[0], options), count, options.dim)
    return run_graph(graph, value, frames, wave[places][np.newaxis])[0]


@settings(max_examples=draws(30))
@given(mfcc | fbank, st.integers(0, 100))
def test_all_options(options: FeatureOptions, seed: int) -> None:
    wave = speechlike(3000, seed)
    expected = FeatureStream(options, RATE).accept(wave, last=True)
    found = in_graph(options, wave)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= 1e-4 * max(1.0, np.abs(expected).max())


@pytest.mark.parametrize("options", [MfccOptions(sample_frequency=RATE), FbankOptions(sample_frequency=RATE)])
def test_digital_silence(options: FeatureOptions) -> None:
    wave = np.zeros(400, np.float32)
    expected = FeatureStream(options, RATE).accept(wave, last=True)
    np.testing.assert_allclose(in_graph(options, wave), expected, atol=1e-4)
