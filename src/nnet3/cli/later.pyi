# Modules that the command line imports when it first uses them. This is the only list of them.
from nnet3 import (
    asr as asr,
    chain as chain,
    drawing as drawing,
    edits as edits,
    examples as examples,
    export as export,
    kaldi_io as kaldi_io,
    serve as serve,
    xconfig as xconfig,
)
from nnet3.asr import cmvn as cmvn, ivectors as ivectors
from nnet3.chain import changes as changes
from nnet3.cli import (
    aligning as aligning,
    alignment_tables as alignment_tables,
    audio_features as audio_features,
    caches as caches,
    chain_get_egs_tables as chain_get_egs_tables,
    compute_tables as compute_tables,
    device as device,
    egs_tables as egs_tables,
    egs_training as egs_training,
    exploring as exploring,
    feature_tables as feature_tables,
    files as files,
    get_egs_tables as get_egs_tables,
    graph_making as graph_making,
    lattice_reading as lattice_reading,
    lattice_tables as lattice_tables,
    looped_tables as looped_tables,
    network_tables as network_tables,
    number_tables as number_tables,
    outputs_of_egs as outputs_of_egs,
    priors as priors,
    profile_network as profile_network,
    run as run,
    scoring as scoring,
    shared_tables as shared_tables,
    show_stages as show_stages,
    transcribing as transcribing,
    tuning as tuning,
    word_times as word_times,
)
from nnet3.cli.demo import run_demo as run_demo
from nnet3.edits import config_dir as config_dir, copy_operations as copy_operations
from nnet3.examples import making as making
from nnet3.kaldi_io import other_features as other_features
from nnet3.nnet import acoustic_model as acoustic_model, network as network, picture as picture, unrolled as unrolled
from nnet3.runs import (
    kinds as kinds,
    settings as settings,
    settings_text as settings_text,
    stop as stop,
    train_model as train_model,
)
from nnet3.train import compute_prob as compute_prob, show_progress as show_progress
from nnet3.xconfig import expand as expand, layer as layer, manual as manual, registry as registry
