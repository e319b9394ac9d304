"""Kaldi's program names on the path: command lines and pipes as recipes have them, run unchanged by a shell."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import numpy as np
import pytest

from nnet3 import AcousticModel, Nnet, load, load_nnet
from nnet3.cli.verb import find_program
from nnet3.cli.verb_table import VERBS
from nnet3.kaldi_io import matrix_writer, open_matrix_table
from tests.cli.prepared_programs import ask, installed_scripts
from tests.cli.run_command import CONFIG, Cli, Shell
from tests.shared_data import GOLDEN

MDL = GOLDEN / "mdl" / "1" / "final.mdl"


PROGRAMS = {listed.program: name for name, listed in VERBS.items() if listed.program}


def test_the_programs_are_installed() -> None:
    assert set(installed_scripts()) == {"nnet3", *PROGRAMS}
    for program, name in PROGRAMS.items():
        verb = find_program(program)
        assert verb is not None
        assert verb.name == name
    assert find_program("nnet3") is find_program("train") is find_program("nnet3-no-such") is None


@pytest.mark.parametrize("program", [program for program in PROGRAMS if program not in VERBS])
def test_a_verb_named_like_a_program_is_hinted_at(cli: Cli, program: str) -> None:
    outcome = cli(program)
    assert outcome.status == 2
    assert f"say 'nnet3 {PROGRAMS[program]}'" in outcome.err
    assert "nor one for that program of Kaldi yet" in cli("nnet3-of-the-future").err


FRAGMENTS = {
    # steps/nnet3/train_*: the first model, from a config
    "init": """
        nnet3-init --srand=-2 net.config - | nnet3-copy --learning-rate=0.003 - $dir/0.raw
        nnet3-info 0.raw > info
    """,
    # what get_egs and the decoding scripts ask of a model
    "context": """
        left_context=$(nnet3-info net.raw | grep "left-context" | awk '{print $2}')
        [ $left_context -eq 1 ]
        [ $(nnet3-info "nnet3-copy net.raw - |" 2>/dev/null | grep -w '^num-parameters:' | awk '{print $2}') -eq 28 ]
        nnet3-info net.raw | head -n 1 | grep '^left-context: 1$'
    """,
    "edits": """
        nnet3-copy --edits='remove-orphans;' --edits-config= --nnet_config= \\
          "nnet3-copy --binary=false net.raw - |" $dir/1.raw
        nnet3-copy --binary=false 1.raw - | grep -q '^<Nnet3>'
    """,
    # xvectors: the output moved to an inner node when the network is read
    "extract": """
        echo "output-node name=output input=affine" > extract.config
        nnet3-compute --use-gpu=no "nnet3-copy --nnet-config=$dir/extract.config $dir/net.raw - |" \\
          scp:feats.scp ark:- | cat > affine.ark
        [ $(head -c 4 affine.ark) = utt1 ]
    """,
    "compute": """
        nnet3-compute --use-gpu=no --online-ivectors=scp:online.scp --online-ivector-period=10 --frames-per-chunk=50 \\
          --extra-left-context=0 --extra_right_context=0 --optimization.memory-compression-level=1 --verbose=0 \\
          ivector.raw scp:feats.scp ark,scp:$dir/out.ark,$dir/out.scp 2> log
        [ $(wc -l < out.scp) -eq 2 ]
        grep -q '2 utterances computed' log
    """,
}


@pytest.mark.parametrize("name", FRAGMENTS)
def test_fragments_of_recipes(shell: Shell, name: str) -> None:
    with matrix_writer("ark,scp:feats.ark,feats.scp") as feats, matrix_writer("ark,scp:iv.ark,online.scp") as online:
        for key in ("utt1", "utt2"):
            feats.write(key, np.ones((7, 3), np.float32))
            online.write(key, np.ones((1, 2), np.float32))
    outcome = shell(FRAGMENTS[name])
    assert outcome.returncode == 0, outcome.stderr
    if name == "init":
        expected = Nnet.from_config(CONFIG, seed=-2)
        expected.set_learning_rate(0.003)
        assert Path("info").read_text() == expected.info()
    if name == "extract":
        with open_matrix_table("ark:affine.ark") as table:
            assert [matrix.shape for _, matrix in table] == [(7, 4), (7, 4)]


ACOUSTIC_FRAGMENTS = {
    "average": """
        nnet3-am-copy --raw=true $mdl 1.raw
        nnet3-copy --scale=3.0 1.raw 2.raw
        nnet3-average 1.raw 2.raw - | nnet3-am-copy --set-raw-nnet=- $mdl out.mdl
    """,
    "join": """
        nnet3-am-init $mdl "nnet3-am-copy --raw=true --learning-rate=0.002 $mdl -|" - \\
          | nnet3-am-copy --prepare-for-test=true - out.mdl
        num_pdfs=$(nnet3-am-info --print-args=false out.mdl 2>/dev/null | grep -w num-pdfs | awk '{print $2}')
        [ $num_pdfs -eq 152 ]
    """,
    "priors": """
        awk 'BEGIN {printf " ["; for (i = 1; i <= 152; i++) printf " %d", i; print " ]"}' > post.1.vec
        nnet3-am-adjust-priors $mdl post.1.vec out.mdl
        nnet3-am-info out.mdl | grep '^prior-sum: 1$'
    """,
}


@pytest.mark.parametrize("name", ACOUSTIC_FRAGMENTS)
def test_fragments_with_acoustic_models(shell: Shell, name: str) -> None:
    outcome = shell(ACOUSTIC_FRAGMENTS[name])
    assert outcome.returncode == 0, outcome.stderr
    assert isinstance(load("out.mdl"), AcousticModel)
    if name == "average":
        old, new = (load_nnet(path).components for path in (MDL, "out.mdl"))
        for key, tensor in next(c for c in new.values() if c.num_parameters).parameters().items():
            first = next(c for c in old.values() if c.num_parameters).parameters()[key]
            np.testing.assert_allclose(tensor, 2 * first, rtol=1e-5)


def test_usage_of_a_program_has_its_name(shell: Shell) -> None:
    outcome = shell("nnet3-copy --binry=true net.raw out.raw")
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("Usage: nnet3-copy [OPTIONS] MODEL-IN RAW-OUT\n")


@pytest.mark.parametrize("listens", [True, False])
def test_a_server_of_programs_that_has_ended_is_told(listens: bool, tmp_path: Path) -> None:
    address = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen()
        ends = threading.Thread(target=lambda: listener.accept()[0].close())
        if listens:
            ends.start()
        else:
            listener.close()
        with pytest.raises(RuntimeError, match="the server of prepared programs has ended"):
            ask(address, "nnet3.cli.run:main", ["nnet3"], str(tmp_path), {}, [None, None, None])
        if listens:
            ends.join()
