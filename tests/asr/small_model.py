"""Small recognizer models: random extractors of ivectors, networks of three phones, and their directories."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from nnet3.asr import IvectorModel
from nnet3.kaldi_io import Writer
from nnet3.model.hmm.topology import HmmTopology, TopologyEntry, TopologyState
from nnet3.model.hmm.transition_model import TransitionModel
from nnet3.model.nnet import AcousticModel, Nnet
from nnet3.options import IvectorOptions, OnlineCmvnOptions, SpliceOptions
from nnet3.speech.arrays.aliases import Doubles
from nnet3.speech.features.ivector_files import DiagonalGmm, IvectorExtractor

FEATURES, OUTPUTS, IVECTOR, GAUSSIANS, OFFSET = 6, 5, 4, 8, 30.0
SILENCE = (1,)
MFCC_CONF = """
--sample-frequency=8000   # as telephones have it
--num-mel-bins=8
--num_ceps=6
--Use-Energy=false
"""
MODEL_CONF = """
--min-active=20
--acoustic-scale=1.0
--frame-subsampling-factor=3
--frames-per-chunk=6
--endpoint.silence-phones=1
--endpoint.rule2.min-trailing-silence=0.25
"""


def random_ivector_model(
    random: np.random.Generator,
    options: IvectorOptions | None = None,
    cmvn: OnlineCmvnOptions | None = None,
    splice: SpliceOptions | None = None,
    *,
    affine: bool = True,
) -> IvectorModel:
    """Returns an extractor of ivectors of 4 for features of 6, with 8 Gaussians."""
    splice = splice or SpliceOptions(left_context=2, right_context=1)
    columns = FEATURES * (splice.left_context + 1 + splice.right_context) + affine
    inv_vars = random.uniform(0.5, 2, (GAUSSIANS, OUTPUTS)).astype(np.float32)
    weights = random.dirichlet(np.ones(GAUSSIANS)).astype(np.float32)
    gmm = DiagonalGmm(weights, inv_vars * random.normal(size=inv_vars.shape).astype(np.float32), inv_vars)
    factors = random.normal(size=(GAUSSIANS, OUTPUTS, OUTPUTS))
    precisions = factors @ factors.swapaxes(1, 2) + np.eye(OUTPUTS)
    rows, below = np.tril_indices(OUTPUTS)
    extractor = IvectorExtractor(
        0.3 * random.normal(size=(GAUSSIANS, OUTPUTS, IVECTOR)), precisions[:, rows, below], OFFSET
    )
    transform = (random.normal(size=(OUTPUTS, columns)) / columns).astype(np.float32)
    return IvectorModel(
        extractor,
        gmm,
        transform,
        random_cmvn_stats(random),
        splice,
        cmvn or OnlineCmvnOptions(),
        options or IvectorOptions(),
    )


def random_cmvn_stats(random: np.random.Generator, count: float = 50.0) -> Doubles:
    rows = 3 * random.normal(size=(1000, FEATURES)) + random.normal(size=FEATURES)
    stats = np.zeros((2, FEATURES + 1))
    stats[0, :-1], stats[1, :-1], stats[0, -1] = rows.sum(axis=0), np.square(rows).sum(axis=0), len(rows)
    return stats * (count / len(rows))


def random_features(random: np.random.Generator, frames: int) -> np.ndarray:
    return (3 * random.normal(size=(frames, FEATURES))).astype(np.float32)


def chain_transition_model() -> TransitionModel:
    """Phones 1, 2, 3 of one state; ids 2p - 1 (self-loop) and 2p (forward) of phone p; pdfs 2p - 2 and 2p - 1."""
    state = TopologyState(0, 1, ((0, 0.5), (1, 0.5)))
    topology = HmmTopology((TopologyEntry((state, TopologyState())),), np.array([-1, 0, 0, 0], np.int32))
    tuples = [(phone, 0, 2 * phone - 2, 2 * phone - 1) for phone in (1, 2, 3)]
    return TransitionModel(topology, tuples, np.log(np.append(1.0, np.full(6, 0.5))))


def acoustic_model(with_ivector: bool = True, pitch: int = 0) -> AcousticModel:
    """Returns a network for features, for so many columns of pitch behind these, and for ivectors or not."""
    dim = FEATURES + pitch
    ivector = ", ReplaceIndex(ivector, t, 0)" if with_ivector else ""
    nnet = Nnet.from_config(
        f"input-node name=input dim={dim}\n"
        + f"input-node name=ivector dim={IVECTOR}\n" * with_ivector
        + f"""component name=affine type=AffineComponent input-dim={3 * dim + IVECTOR * with_ivector} output-dim=8
        component name=relu type=RectifiedLinearComponent dim=8
        component name=last type=AffineComponent input-dim=16 output-dim=6
        component-node name=affine component=affine input=Append(Offset(input, -1), input, Offset(input, 2){ivector})
        component-node name=relu component=relu input=affine
        component-node name=last component=last input=Append(Offset(relu, -3), Offset(relu, 3))
        output-node name=output input=last
        """
    )
    return AcousticModel(chain_transition_model(), nnet)


def write_gmm(gmm: DiagonalGmm, path: Path, binary: bool = True) -> None:
    writer = Writer(binary)
    writer.header()
    writer.token("<DiagGMM>")
    writer.newline()
    writer.token("<GCONSTS>")
    writer.vector(np.zeros(len(gmm.weights)))
    writer.token("<WEIGHTS>")
    writer.vector(gmm.weights)
    writer.token("<MEANS_INVVARS>")
    writer.matrix(gmm.means_inv_vars)
    writer.token("<INV_VARS>")
    writer.matrix(gmm.inv_vars)
    writer.token("</DiagGMM>")
    writer.newline()
    writer.write_to(path)


def write_extractor(extractor: IvectorExtractor, path: Path, binary: bool = True) -> None:
    writer = Writer(binary)
    writer.header()
    for token in ("<IvectorExtractor>", "<w>"):
        writer.token(token)
    writer.matrix(np.zeros((0, 0)), double=True)
    writer.token("<w_vec>")
    writer.vector(np.full(extractor.num_gaussians, 1 / extractor.num_gaussians), double=True)
    writer.token("<M>")
    writer.int32(extractor.num_gaussians)
    for projection in extractor.projections:
        writer.matrix(projection, double=True)
    writer.token("<SigmaInv>")
    for precision in extractor.precisions:
        writer.packed(precision, double=True)
    writer.token("<IvectorOffset>")
    writer.double(extractor.offset)
    writer.token("</IvectorExtractor>")
    writer.write_to(path)


def write_matrix(matrix: np.ndarray, path: Path, binary: bool = True) -> None:
    writer = Writer(binary)
    writer.header()
    writer.matrix(matrix, double=matrix.dtype == np.float64)
    writer.write_to(path)


def write_folder(folder: Path, random: np.random.Generator, *, with_ivector: bool = True, graph: bool = True) -> None:
    """Writes a model directory as Vosk publishes them; the graph's files are empty."""
    for name in ("am", "conf", "ivector", "graph/phones"):
        (folder / name).mkdir(parents=True)
    acoustic_model(with_ivector).save(folder / "am/final.mdl")
    (folder / "conf/mfcc.conf").write_text(MFCC_CONF)
    (folder / "conf/model.conf").write_text(MODEL_CONF)
    if graph:
        for name in ("HCLG.fst", "words.txt", "phones/word_boundary.int"):
            (folder / "graph" / name).touch()
    if not with_ivector:
        (folder / "ivector").rmdir()
        return
    model = random_ivector_model(random)
    write_extractor(model.extractor, folder / "ivector/final.ie")
    write_gmm(model.gmm, folder / "ivector/final.dubm")
    write_matrix(model.transform, folder / "ivector/final.mat")
    write_matrix(model.cmvn_stats, folder / "ivector/global_cmvn.stats", binary=False)
    (folder / "ivector/splice.conf").write_text("--left-context=2\n--right-context=1\n")
    (folder / "ivector/online_cmvn.conf").write_text("# all as usual\n")


def write_kaldi_folder(folder: Path, random: np.random.Generator) -> None:
    """Writes a model directory as prepare_online_decoding.sh leaves it, with absolute paths of a place that is gone."""
    write_folder(folder, random)
    (folder / "am/final.mdl").rename(folder / "final.mdl")
    (folder / "ivector").rename(folder / "ivector_extractor")
    for name in ("splice.conf", "online_cmvn.conf"):
        (folder / "ivector_extractor" / name).rename(folder / "conf" / name)
    (folder / "conf/model.conf").unlink()
    (folder / "am").rmdir()
    (folder / "frame_subsampling_factor").write_text("3\n")
    (folder / "conf/online.conf").write_text(
        "--feature-type=mfcc\n--mfcc-config=/gone/conf/mfcc.conf\n--endpoint.silence-phones=1\n"
        "--ivector-extraction-config=/gone/conf/ivector_extractor.conf\n"
    )
    (folder / "conf/ivector_extractor.conf").write_text(
        "--splice-config=/gone/conf/splice.conf\n--cmvn-config=/gone/conf/online_cmvn.conf\n"
        "--lda-matrix=/gone/ivector_extractor/final.mat\n"
        "--global-cmvn-stats=/gone/ivector_extractor/global_cmvn.stats\n"
        "--diag-ubm=/gone/ivector_extractor/final.dubm\n--ivector-extractor=/gone/ivector_extractor/final.ie\n"
        "--num-gselect=5\n--min-post=0.025\n--posterior-scale=0.1\n--max-remembered-frames=1000\n--max-count=100\n"
        "--ivector-period=10\n"
    )
