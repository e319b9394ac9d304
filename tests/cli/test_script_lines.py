"""The lines that Kaldi's scripts run, with their options: align.sh, decode.sh, train_dnn.py, train_raw_dnn.py and
chain/train.py, from features and alignments to a final model."""

# ruff: noqa: E501 (lines as the scripts have them)
from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from nnet3 import load, load_nnet
from nnet3.base.kaldi_io.lattice import open_lattice_table
from nnet3.kaldi_io import open_int_vector_table
from nnet3.model.nnet import AcousticModel
from tests.cli.run_command import Shell
from tests.effort import nightly
from tests.road_case import ROAD, needs_road
from tests.shared_data import GOLDEN

pytest.importorskip("kaldifst")

FEATURES = (
    "ark,s,cs:apply-cmvn --norm-means=false --norm-vars=false --utt2spk=ark:utt2spk scp:cmvn.scp scp:feats.scp ark:- |"
)

ALIGN = f"""
compile-train-graphs --read-disambig-syms=disambig.int tree final.mdl L.fst "ark:cat text.int|" ark:- | \\
  nnet3-align-compiled --transition-scale=1.0 --acoustic-scale=0.1 --self-loop-scale=0.1 \\
  --frames-per-chunk=50 --extra-left-context=0 --extra-right-context=0 --extra-left-context-initial=-1 \\
  --extra-right-context-final=-1 --use-gpu=no --beam=10 --retry-beam=40 \\
  final.mdl ark:- "{FEATURES}" "ark:|gzip -c >ali.1.gz"
"""

DECODE = f"""
nnet3-latgen-faster --frames-per-chunk=50 --extra-left-context=0 --extra-right-context=0 \\
  --extra-left-context-initial=-1 --extra-right-context-final=-1 --minimize=false --max-active=7000 --min-active=200 \\
  --beam=11.0 --lattice-beam=4.0 --acoustic-scale=0.1 --allow-partial=true --word-symbol-table=words.txt \\
  final.mdl HCLG.fst "{FEATURES}" "ark:|lattice-scale --acoustic-scale=10.0 ark:- ark:- | gzip -c >lat.1.gz"
lattice-scale --inv-acoustic-scale=100 "ark:gunzip -c lat.1.gz|" ark:- | lattice-add-penalty --word-ins-penalty=0.0 ark:- ark:- | \\
  lattice-best-path --word-symbol-table=words.txt ark:- ark,t:10.tra
"""

XCONFIG = """
input name=input dim=DIM
fixed-affine-layer name=lda input=Append(-1,0,1) affine-transform-file=configs/lda.mat
relu-batchnorm-layer name=tdnn1 dim=16 input=lda
output-layer name=output dim=PDFS input=tdnn1 max-change=1.5
"""

TRAIN = """
num_pdfs=$(tree-info tree | grep num-pdfs | awk '{print $2}')
feat_dim=$(feat-to-dim scp:feats.scp -)
sed -e "s/DIM/$feat_dim/; s/PDFS/$num_pdfs/" network.txt > network.xconfig
python_configs() { nnet3 xconfig-to-configs --xconfig-file=network.xconfig --config-dir=configs; }
python_configs
nnet3-init --srand=-2 configs/init.config init.raw
nnet3-get-egs --compress=true --num-pdfs=$num_pdfs --left-context=1 --right-context=1 --num-frames=8 "$feats" \\
  "ark,s,cs:gunzip -c ali.1.gz | ali-to-pdf final.mdl ark:- ark:- | ali-to-post ark:- ark:- |" ark:- | \\
  nnet3-copy-egs --random=true --srand=1 ark:- ark:egs.1.ark ark:egs.2.ark
nnet3-subset-egs --n=20 ark:egs.1.ark ark:valid_diagnostic.egs
cp valid_diagnostic.egs combine.egs
for JOB in 1 2; do nnet3-acc-lda-stats --rand-prune=4.0 init.raw "ark:nnet3-copy-egs  ark:egs.$JOB.ark ark:- |" $JOB.lda_stats; done
sum-lda-accs lda_stats 1.lda_stats 2.lda_stats
nnet-get-feature-transform  lda.mat lda_stats
cp lda.mat configs/lda.mat
ali-to-post "ark:gunzip -c ali.1.gz|" ark:- | post-to-tacc --per-pdf=true final.mdl ark:- pdf_counts.1
vector-sum --binary=false pdf_counts.* pdf_counts
nnet3-init --srand=-2 init.raw configs/final.config 0.raw
copy-transition-model final.mdl 0.trans_mdl
nnet3-am-init 0.trans_mdl 0.raw - | nnet3-am-train-transitions - "ark:gunzip -c ali.1.gz|" 0.mdl
nnet3-compute-prob "0.mdl" "ark,bg:nnet3-copy-egs  ark:valid_diagnostic.egs ark:- | nnet3-merge-egs --minibatch-size=1:64 ark:- ark:- |"
for iter in 0 1; do
  for job in 1 2; do
    nnet3-train --use-gpu=no $([ $iter -gt 0 ] && echo --read-cache=cache.$iter) $([ $job -eq 1 ] && echo --write-cache=cache.$[iter+1]) \\
      --print-interval=10 --momentum=0.0 --max-param-change=1.4142135623730951 --backstitch-training-scale=0.0 \\
      --l2-regularize-factor=0.5 --backstitch-training-interval=1 --srand=$iter \\
      "nnet3-copy --learning-rate=0.002 --scale=1.0 $iter.mdl - |nnet3-copy --edits='set-dropout-proportion name=* proportion=0.1' - - |" \\
      "ark,bg:nnet3-copy-egs --frame=$job  ark:egs.$job.ark ark:- | nnet3-shuffle-egs --buffer-size=5000 --srand=$iter ark:- ark:- | nnet3-merge-egs --minibatch-size=16 ark:- ark:- |" \\
      $[iter+1].$job.raw 2> train.$iter.$job.log
    grep -q "Overall average objective function for 'output' is" train.$iter.$job.log
  done
  nnet3-average $[iter+1].1.raw $[iter+1].2.raw - | nnet3-am-copy --set-raw-nnet=- $iter.mdl $[iter+1].mdl
done
nnet3-am-info 2.mdl | grep -c saturation || true
nnet3-show-progress --use-gpu=no 1.mdl 2.mdl
nnet3-combine --max-objective-evaluations=30 --verbose=3 2.mdl 1.mdl \\
  "ark,bg:nnet3-copy-egs  ark:combine.egs ark:- | nnet3-merge-egs --minibatch-size=1:16 ark:- ark:- |" \\
  "| nnet3-am-copy --set-raw-nnet=- 2.mdl combined.mdl"
nnet3-compute-from-egs --use-gpu=no --apply-exp=true "nnet3-am-copy --raw=true --prepare-for-test=true combined.mdl -|" \\
  "ark,bg:nnet3-copy-egs  ark:egs.1.ark ark:- | nnet3-subset-egs --n=100 ark:- ark:- | nnet3-merge-egs --minibatch-size=128,64,16 ark:- ark:- |" ark:- | \\
  matrix-sum-rows ark:- ark:- | vector-sum ark:- post.combined.1.vec
vector-sum post.combined.*.vec post.combined.vec
nnet3-am-adjust-priors combined.mdl post.combined.vec final_trained.mdl
"""

RAW = """
nnet3-copy --learning-rate=0.001 --scale=0.99 0.raw - | nnet3-train --use-gpu=no --print-interval=10 --momentum=0.5 \\
  --max-param-change=2.0 --l2-regularize-factor=1.0 --srand=3 - "ark,bg:nnet3-copy-egs ark:egs.1.ark ark:- | \\
  nnet3-shuffle-egs --buffer-size=5000 --srand=3 ark:- ark:- | nnet3-merge-egs --minibatch-size=16 ark:- ark:- |" 1.raw
nnet3-combine --max-objective-evaluations=30 1.raw 0.raw "ark,bg:nnet3-copy-egs  ark:combine.egs ark:- | \\
  nnet3-merge-egs --minibatch-size=1:16 ark:- ark:- |" final_trained.raw
"""

CHAIN = """
gunzip -c ali.1.gz | ali-to-phones mono/0.trans_mdl ark:- ark:- | chain-est-phone-lm --num-extra-lm-states=10 ark:- phone_lm.fst
copy-transition-model mono/0.trans_mdl 0.trans_mdl
chain-make-den-fst mono/tree 0.trans_mdl phone_lm.fst den.fst normalization.fst
nnet3-am-init 0.trans_mdl mono/start.raw 0.mdl
nnet3-chain-compute-prob --l2-regularize=0.0 --leaky-hmm-coefficient=0.1 --xent-regularize=0.1 0.mdl mono/den.fst \\
  "ark,bg:nnet3-chain-copy-egs  ark:mono/egs.ark ark:- | nnet3-chain-merge-egs --minibatch-size=1:64 ark:- ark:- |"
nnet3-chain-train --use-gpu=no --apply-deriv-weights=False --l2-regularize=0.0 --leaky-hmm-coefficient=0.1 \\
  --write-cache=cache.1 --xent-regularize=0.1 --optimization.min-deriv-time=-8 --optimization.max-deriv-time-relative=14 \\
  --print-interval=10 --momentum=0.0 --max-param-change=1.4142135623730951 --backstitch-training-scale=0.0 \\
  --backstitch-training-interval=1 --l2-regularize-factor=1.0 --srand=0 \\
  "nnet3-am-copy --raw=true --learning-rate=0.0001 --scale=1.0 0.mdl - |" mono/den.fst \\
  "ark,bg:nnet3-chain-copy-egs --frame-shift=1 ark:mono/egs.ark ark:- | nnet3-chain-shuffle-egs --buffer-size=5000 --srand=0 ark:- ark:- | nnet3-chain-merge-egs --minibatch-size=8 ark:- ark:- |" 1.1.raw
nnet3-copy 1.1.raw - | nnet3-am-copy --set-raw-nnet=- 0.mdl 1.mdl
nnet3-am-info 1.mdl && nnet3-show-progress --use-gpu=no 0.mdl 1.mdl
nnet3-chain-combine --max-objective-evaluations=30 --l2-regularize=0.0 --leaky-hmm-coefficient=0.1 --verbose=3 mono/den.fst 1.mdl 0.mdl \\
  "ark,bg:nnet3-chain-copy-egs  ark:mono/egs.ark ark:- | nnet3-chain-merge-egs --minibatch-size=16 ark:- ark:- |" - | \\
  nnet3-am-copy --set-raw-nnet=- 1.mdl chain_final.mdl
"""


def _take(*names: str) -> None:
    for name in names:
        folder = next(ROAD / case for case in ("align_1", "decode_1") if (ROAD / case / name).exists())
        shutil.copyfile(folder / name, name)


@needs_road
def test_align_sh_and_decode_sh(shell: Shell) -> None:
    """Gives Kaldi's alignments and words."""
    _take("tree", "final.mdl", "L.fst", "HCLG.fst", "words.txt")
    shutil.copyfile(ROAD / "align_1" / "text.txt", "text.int")
    Path("disambig.int").write_text("")
    _prepare(shell)
    for lines in (ALIGN, DECODE):
        outcome = shell(lines)
        assert outcome.returncode == 0, outcome.stderr
    ours = dict(open_int_vector_table("ark:gunzip -c ali.1.gz|"))
    for key, theirs in open_int_vector_table(f"ark:{ROAD}/align_1/ali.ark"):
        assert ours.pop(key).tolist() == theirs.tolist()
    assert not ours
    words = Path("10.tra").read_text().splitlines()
    kaldis = (ROAD / "decode_1" / "plain.words.txt").read_text().splitlines()
    assert [line.split() for line in words] == [line.split() for line in kaldis]
    assert len(dict(open_lattice_table("ark:gunzip -c lat.1.gz|"))) == len(words)


@nightly
@needs_road
def test_train_dnn_py_and_train_raw_dnn_py(shell: Shell) -> None:
    _take("tree", "final.mdl")
    shutil.copyfile(ROAD / "align_1" / "ali.ark", "ali.1")
    Path("network.txt").write_text(XCONFIG)
    _prepare(shell)
    num_pdfs = _model("final.mdl").transition_model.num_pdfs
    outcome = shell(f"gzip ali.1; feats='{FEATURES}'\n{TRAIN}{RAW}")
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    model = _model("final_trained.mdl")
    assert float(model.priors.sum()) == pytest.approx(1.0, abs=1e-5)
    assert model.transition_model.num_pdfs == num_pdfs
    assert load_nnet("final_trained.raw").input_dims == model.nnet.input_dims


@nightly
@needs_road
def test_chain_train_py(shell: Shell) -> None:
    shutil.copytree(GOLDEN / "chain" / "mono", "mono")
    outcome = shell(f"gzip -c mono/ali.ark > ali.1.gz\n{CHAIN}")
    assert outcome.returncode == 0, outcome.stderr[-3000:]
    assert len(_model("chain_final.mdl").priors) == 0


def _model(name: str) -> AcousticModel:
    model = load(name)
    assert isinstance(model, AcousticModel)
    return model


def _prepare(shell: Shell) -> None:
    """Makes `feats.scp`, `utt2spk` and `cmvn.scp`."""
    shutil.copyfile(ROAD / "align_1" / "feats.ark", "feats.ark")
    shell(
        "copy-feats ark:feats.ark ark,scp:copied.ark,feats.scp; awk '{print $1, $1}' feats.scp > utt2spk; : > cmvn.scp"
    )
