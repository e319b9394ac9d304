# Modules that the command line imports when it first uses them. This is the only list of them.
from nnet3 import (
    asr as asr,
    chain as chain,
    examples as examples,
    export as export,
    kaldi_io as kaldi_io,
    serve as serve,
    xconfig as xconfig,
)
from nnet3.base import drawing as drawing
from nnet3.base.kaldi_io import other_features as other_features
from nnet3.cli import (
    aligning as aligning,
    alignment_tables as alignment_tables,
    audio_features as audio_features,
    caches as caches,
    chain_get_egs_tables as chain_get_egs_tables,
    chain_posteriors as chain_posteriors,
    compute_tables as compute_tables,
    device as device,
    discriminative_tables as discriminative_tables,
    egs_tables as egs_tables,
    egs_training as egs_training,
    exploring as exploring,
    feature_tables as feature_tables,
    files as files,
    get_egs_tables as get_egs_tables,
    graph_making as graph_making,
    lattice_determinizing as lattice_determinizing,
    lattice_joining as lattice_joining,
    lattice_measures as lattice_measures,
    lattice_reading as lattice_reading,
    lattice_rescoring as lattice_rescoring,
    lattice_tables as lattice_tables,
    lattice_words as lattice_words,
    looped_tables as looped_tables,
    matrix_changes as matrix_changes,
    network_tables as network_tables,
    number_tables as number_tables,
    online_tables as online_tables,
    outputs_of_egs as outputs_of_egs,
    pitch_tables as pitch_tables,
    posterior_tables as posterior_tables,
    priors as priors,
    profile_network as profile_network,
    recording_tables as recording_tables,
    rnnlm_tables as rnnlm_tables,
    run as run,
    scoring as scoring,
    shared_tables as shared_tables,
    show_stages as show_stages,
    speaker_scores as speaker_scores,
    speaker_tables as speaker_tables,
    transcribing as transcribing,
    tuning as tuning,
    vector_tables as vector_tables,
    voice_tables as voice_tables,
    wave_tables as wave_tables,
    word_times as word_times,
)
from nnet3.cli.demo import run_demo as run_demo
from nnet3.export.nnet import sherpa as sherpa
from nnet3.model.edits import average as average, config_dir as config_dir, copy_operations as copy_operations
from nnet3.model.nnet import (
    acoustic_model as acoustic_model,
    network as network,
    picture as picture,
    unrolled as unrolled,
)
from nnet3.model.nnet.older import convert as convert
from nnet3.model.xconfig import expand as expand, layer as layer, layer_types as layer_types, manual as manual
from nnet3.speech.features import cmvn as cmvn, ivectors as ivectors
from nnet3.speech.lattices import timed_lattice as timed_lattice
from nnet3.training.chain import changes as changes
from nnet3.training.discriminative import lattice_example as lattice_example
from nnet3.training.examples import making as making
from nnet3.training.runs import (
    data_kinds as data_kinds,
    settings as settings,
    settings_text as settings_text,
    stop as stop,
    train_model as train_model,
)
from nnet3.training.train import compute_prob as compute_prob, show_progress as show_progress
