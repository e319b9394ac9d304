"""The lines of speaker recipes, as they are: sid/compute_vad_decision.sh, sid/nnet3/xvector/extract_xvectors.sh, the
back ends of sre16/v2, voxceleb/v2 and callhome_diarization/v2, from recordings to error rates and turns."""

# ruff: noqa: E501 (lines as the scripts have them)
from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from nnet3.kaldi_io import load_matrix, open_matrix_table, open_vector_table
from nnet3.speaker import SpeakerModel, Verifier
from nnet3.speech.asr.wav_file import wav_bytes
from tests.cli.run_command import Shell
from tests.speaker.made_voices import RATE, make_model, voice

NNET = "exp/xvector_nnet_1a"

EXTRACT = """
compute-mfcc-feats --verbose=2 --config=conf/mfcc.conf scp,p:$data/wav.scp ark:- | \\
  copy-feats --write-num-frames=ark,t:$data/utt2num_frames --compress=false ark:- ark,scp:$data/mfcc.ark,$data/feats.scp
compute-vad --config=conf/vad.conf scp:$data/feats.scp ark,scp:$data/vad.ark,$data/vad.scp
min_chunk_size=`cat $srcdir/min_chunk_size 2>/dev/null`
chunk_size=`cat $srcdir/max_chunk_size 2>/dev/null`
nnet="nnet3-copy --nnet-config=$srcdir/extract.config $srcdir/final.raw - |"
feat="ark:apply-cmvn-sliding --norm-vars=false --center=true --cmn-window=300 scp:$data/feats.scp ark:- | select-voiced-frames ark:- scp,s,cs:$data/vad.scp ark:- |"
nnet3-xvector-compute --use-gpu=no --min-chunk-size=$min_chunk_size --chunk-size=$chunk_size --cache-capacity=64 \\
  "$nnet" "$feat" ark,scp:$dir/xvector.1.ark,$dir/xvector.1.scp
for j in $(seq 1); do cat $dir/xvector.$j.scp; done >$dir/xvector.scp
ivector-mean ark:$data/spk2utt scp:$dir/xvector.scp \\
  ark,scp:$dir/spk_xvector.ark,$dir/spk_xvector.scp ark,t:$dir/num_utts.ark
"""

BACK_END = """
ivector-mean scp:$train/xvector.scp $train/mean.vec
lda_dim=4
ivector-compute-lda --total-covariance-factor=0.0 --dim=$lda_dim \\
  "ark:ivector-subtract-global-mean scp:$train/xvector.scp ark:- |" \\
  ark:data/train/utt2spk $train/transform.mat
ivector-compute-plda ark:data/train/spk2utt \\
  "ark:ivector-subtract-global-mean scp:$train/xvector.scp ark:- | transform-vec $train/transform.mat ark:- ark:- | ivector-normalize-length ark:-  ark:- |" \\
  $train/plda
ivector-adapt-plda --within-covar-scale=0.75 --between-covar-scale=0.25 \\
  $train/plda \\
  "ark:ivector-subtract-global-mean scp:$test/xvector.scp ark:- | transform-vec $train/transform.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |" \\
  $test/plda_adapt
"""

SCORE = """
trials=data/test/trials
ivector-plda-scoring --normalize-length=true \\
  --num-utts=ark:$train/num_utts.ark \\
  "ivector-copy-plda --smoothing=0.0 $plda - |" \\
  "ark:ivector-mean ark:data/train/spk2utt scp:$train/xvector.scp ark:- | ivector-subtract-global-mean $train/mean.vec ark:- ark:- | transform-vec $train/transform.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |" \\
  "ark:ivector-subtract-global-mean $train/mean.vec scp:$test/xvector.scp ark:- | transform-vec $train/transform.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |" \\
  "cat '$trials' | cut -d\\  --fields=1,2 |" $scores
pooled_eer=$(paste $trials $scores | awk '{print $6, $3}' | compute-eer - 2>/dev/null)
mindcf1=`compute-min-dcf --p-target 0.01 $scores $trials 2> /dev/null`
echo "EER: ${pooled_eer}%"
echo "minDCF(p-target=0.01): $mindcf1"
"""

DIARIZE = """
extract-segments scp:data/call/wav.scp data/call/segments ark:- | \\
  compute-mfcc-feats --config=conf/mfcc.conf ark:- ark,scp:$dir/mfcc.ark,$dir/feats.scp
feats="ark,s,cs:apply-cmvn-sliding --norm-vars=false --center=true --cmn-window=300 scp:$dir/feats.scp ark:- |"
nnet3-xvector-compute --use-gpu=no --min-chunk-size=25 --chunk-size=10000 \\
  "nnet3-copy --nnet-config=$srcdir/extract.config $srcdir/final.raw - |" "$feats" ark,scp:${dir}/xvector.1.ark,${dir}/xvector.scp
ivector-mean scp:$dir/xvector.scp $dir/mean.vec
pca_dim=-1
est-pca --read-vectors=true --normalize-mean=false \\
  --normalize-variance=true --dim=$pca_dim \\
  scp:$dir/xvector.scp $dir/transform.mat
feats="ark:ivector-subtract-global-mean $pldadir/mean.vec scp:$dir/xvector.scp ark:- | transform-vec $pldadir/transform.mat ark:- ark:- | ivector-normalize-length ark:- ark:- |"
ivector-plda-scoring-dense --target-energy=0.1 $pldadir/plda \\
  ark:data/call/spk2utt "$feats" ark,scp:$dir/scores.1.ark,$dir/scores.scp
reco2num_spk="ark,t:data/call/reco2num_spk"
agglomerative-cluster --threshold=0.5 --read-costs=false \\
  --reco2num-spk-rspecifier=$reco2num_spk \\
  --max-spk-fraction=1.0 \\
  --first-pass-max-utterances=32767 \\
  scp:"cat $dir/scores.scp |" ark,t:data/call/spk2utt ark,t:$dir/labels.1
make-rttm --rttm-channel 0 data/call/segments $dir/labels.1 $dir/rttm
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lines") / "model"
    make_model(folder)
    return folder


def _write_data(name: str, utterances: dict[str, tuple[str, np.ndarray]]) -> None:
    folder = Path("data", name)
    folder.mkdir(parents=True)
    speakers: dict[str, list[str]] = {}
    for key, (speaker, samples) in utterances.items():
        (folder / f"{key}.wav").write_bytes(wav_bytes(samples.astype(np.float32), RATE))
        speakers.setdefault(speaker, []).append(key)
    (folder / "wav.scp").write_text("".join(f"{key} data/{name}/{key}.wav\n" for key in utterances))
    (folder / "utt2spk").write_text("".join(f"{key} {speaker}\n" for key, (speaker, _) in utterances.items()))
    (folder / "spk2utt").write_text("".join(f"{speaker} {' '.join(keys)}\n" for speaker, keys in speakers.items()))


def test_the_lines_of_speaker_recognition(shell: Shell, model: Path) -> None:
    shutil.copytree(model, ".", dirs_exist_ok=True)
    shutil.rmtree("exp/xvectors_train")
    voices = {f"s{who}-{n}": (f"s{who}", voice(who, n)) for who in range(6) for n in range(4)}
    voices |= {f"t{who}-{n}": (f"t{who}", voice(who, 90 + n)) for who in range(6) for n in range(2)}
    _write_data("both", voices)
    for part, letter in (("train", "s"), ("test", "t")):
        Path("data", part).mkdir()
        for name in ("utt2spk", "spk2utt"):
            lines = Path("data/both", name).read_text().splitlines(keepends=True)
            Path("data", part, name).write_text("".join(line for line in lines if line.startswith(letter)))
    trials = [
        f"s{one} t{other}-{n} {'' if one == other else 'non'}target"
        for one in range(6)
        for other in range(6)
        for n in (0, 1)
    ]
    Path("data/test/trials").write_text("\n".join(trials) + "\n")
    lines = f"train=exp/xvectors_train; test=exp/xvectors_test; srcdir={NNET}; data=data/both; dir=exp/both\n"
    lines += f"mkdir $train $test $dir\n{EXTRACT.replace('--verbose=2', '--dither=0')}"
    lines += "grep ^s $dir/xvector.scp > $train/xvector.scp; grep ^t $dir/xvector.scp > $test/xvector.scp\n"
    lines += "grep ^s $dir/num_utts.ark > $train/num_utts.ark\n"
    lines += f"{BACK_END}\nplda=$train/plda; scores=exp/scores\n{SCORE}"
    outcome = shell(lines)
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    rate, cost = outcome.stdout.splitlines()
    assert float(rate.removeprefix("EER: ").removesuffix("%")) < 20
    assert 0 <= float(cost.removeprefix("minDCF(p-target=0.01): ")) <= 1
    assert Path("exp/xvectors_test/plda_adapt").read_bytes() != Path("exp/xvectors_train/plda").read_bytes()
    assert Path("exp/xvectors_train/num_utts.ark").read_text() == "".join(f"s{who} 4 \n" for who in range(6))
    _check_verifier()


def _check_verifier() -> None:
    """nnet3.speaker gives the vectors and scores that the lines give."""
    verifier = Verifier(SpeakerModel("."))
    vectors = dict(open_vector_table("scp:exp/xvectors_train/xvector.scp"))
    np.testing.assert_allclose(verifier.model.vector("data/both/s1-2.wav"), vectors["s1-2"], rtol=1e-4, atol=1e-4)
    verifier.enrol("s2", *(f"data/both/s2-{n}.wav" for n in range(4)))
    scores = {tuple(line.split()[:2]): float(line.split()[2]) for line in Path("exp/scores").read_text().splitlines()}
    for test in ("t2-0", "t3-1"):
        assert verifier.score("s2", f"data/both/{test}.wav") == pytest.approx(scores["s2", test], rel=1e-3, abs=1e-2)


def test_the_lines_of_diarization(shell: Shell, model: Path) -> None:
    shutil.copytree(model, ".", dirs_exist_ok=True)
    parts = [voice(0, 300, 3.0), voice(3, 301, 3.0), voice(0, 302, 3.0)]
    _write_data("call", {"call": ("call", np.concatenate(parts))})
    starts = [part + start for part in (0.25, 3.75, 7.25) for start in (0, 0.75, 1.5)]
    keys = [f"call-{int(100 * start):06d}" for start in starts]
    Path("data/call/segments").write_text(
        "".join(f"{key} call {start} {start + 1.5}\n" for key, start in zip(keys, starts, strict=True))
    )
    Path("data/call/spk2utt").write_text(f"call {' '.join(keys)}\n")
    Path("data/call/reco2num_spk").write_text("call 2\n")
    outcome = shell(f"srcdir={NNET}; pldadir=exp/xvectors_train; dir=exp/call; mkdir $dir\n{DIARIZE}")
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    assert dict(open_matrix_table("ark:exp/call/scores.1.ark"))["call"].shape == (9, 9)
    assert load_matrix("exp/call/transform.mat").shape == (12, 12)
    turns = [line.split() for line in Path("exp/call/rttm").read_text().splitlines()]
    assert [(float(turn[3]), turn[7]) for turn in turns] == [
        (0.25, turns[0][7]),
        (3.75, turns[1][7]),
        (7.25, turns[0][7]),
    ]
    assert turns[0][7] != turns[1][7]
