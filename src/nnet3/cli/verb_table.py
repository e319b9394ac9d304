"""The verbs of `nnet3`, one a line: name, family, Kaldi's program, and what `nnet3 --help` says.

A family is a file of verbs/, where the verb is the function of its name, with `_` for `-`.
"""

from __future__ import annotations

from typing import NamedTuple

#: The headings of the families in help.
FAMILIES = {
    "seeing": "See and try",
    "models": "Networks and models",
    "running": "Run and train",
    "examples": "Training examples",
    "chain": "Sequence training (LF-MMI)",
    "aligning": "Alignments",
    "graphs": "Lexicons, graphs and words",
    "lattices": "Lattices",
    "tables": "Tables of vectors and matrices",
}


class Listed(NamedTuple):
    """A verb's name, family, program of Kaldi that does the same ("": none), and summary."""

    name: str
    family: str
    program: str
    summary: str


# fmt: off
_TABLE = (
    ("am-info", "seeing", "nnet3-am-info", "describe an acoustic model"),
    ("demo", "seeing", "", "see networks learn from real data"),
    ("describe", "seeing", "", "print the layers of a network, as an xconfig"),
    ("draw", "seeing", "", "draw a network as a picture"),
    ("explore", "seeing", "", "make a page of a network, its program, memory and profile, for a browser"),
    ("info", "seeing", "nnet3-info", "describe a network"),
    ("profile", "seeing", "", "see where the time of a network goes"),
    ("show-computation", "seeing", "", "compile for a request and print every stage"),
    ("tree-info", "seeing", "tree-info", "describe a decision tree"),
    ("xconfig-help", "seeing", "", "explain the layers of xconfigs and their keys"),
    ("am-adjust-priors", "models", "nnet3-am-adjust-priors", "set an acoustic model's priors"),
    ("am-copy", "models", "nnet3-am-copy", "copy an acoustic model with changes"),
    ("am-init", "models", "nnet3-am-init", "make an acoustic model from a transition model and a network"),
    ("average", "models", "nnet3-average", "average networks"),
    ("convert", "models", "", "make a model of nnet3 of one of nnet1 or nnet2"),
    ("copy", "models", "nnet3-copy", "copy a raw network with changes"),
    ("copy-transition-model", "models", "copy-transition-model", "copy the transition model of a model"),
    ("export-onnx", "models", "", "write a network as an ONNX file"),
    ("export-sherpa", "models", "", "write a chain model and its graph for sherpa-onnx"),
    ("init", "models", "nnet3-init", "make a network from configs or xconfigs"),
    ("xconfig-to-configs", "models", "", "make config files of an xconfig, which describes layers"),
    ("combine", "running", "nnet3-combine", "the average of the last networks that is best on examples"),
    ("compute", "running", "nnet3-compute", "run a network over utterances"),
    ("compute-batch", "running", "nnet3-compute-batch", "run a network over utterances, in chunks of one size"),
    ("compute-from-egs", "running", "nnet3-compute-from-egs", "run a network over training examples"),
    ("compute-looped", "running", "", "run a network over utterances as streams"),
    ("compute-prob", "running", "nnet3-compute-prob", "objective and accuracy of a network on examples"),
    ("serve", "running", "", "serve a recognizer to many clients"),
    ("show-progress", "running", "nnet3-show-progress", "what has changed from one network to another"),
    ("train", "running", "nnet3-train", "train a network on examples"),
    ("train-model", "running", "", "train a network: a whole run from one settings file"),
    ("transcribe", "running", "", "write the words of recordings"),
    ("tune", "running", "", "tune a recognizer's model on one's own recordings"),
    ("xvector-compute", "running", "nnet3-xvector-compute", "compute x-vectors of utterances"),
    ("xvector-compute-batched", "running", "nnet3-xvector-compute-batched", "compute x-vectors, in chunks of one size"),
    ("acc-lda-stats", "examples", "nnet3-acc-lda-stats", "gather statistics for an LDA-like transform"),
    ("copy-egs", "examples", "nnet3-copy-egs", "copy training examples with changes, to one or more tables"),
    ("get-egs", "examples", "nnet3-get-egs", "make training examples of features and posteriors"),
    ("get-egs-dense-targets", "examples", "nnet3-get-egs-dense-targets",
     "make training examples of features and target matrices"),
    ("merge-egs", "examples", "nnet3-merge-egs", "merge training examples into minibatches"),
    ("nnet-get-feature-transform", "examples", "nnet-get-feature-transform", "estimate an LDA-like transform"),
    ("shuffle-egs", "examples", "nnet3-shuffle-egs", "put training examples into random order"),
    ("subset-egs", "examples", "nnet3-subset-egs", "take some training examples at random"),
    ("sum-lda-accs", "examples", "sum-lda-accs", "sum statistics for an LDA-like transform"),
    ("xvector-get-egs", "examples", "nnet3-xvector-get-egs", "make training examples for x-vectors"),
    ("chain-acc-lda-stats", "chain", "nnet3-chain-acc-lda-stats",
     "gather statistics for an LDA-like transform of chain examples"),
    ("chain-combine", "chain", "nnet3-chain-combine",
     "the average of the last networks that is best on chain examples"),
    ("chain-combine2", "chain", "nnet3-chain-combine2",
     "the average of the last networks that is best on chain examples of languages"),
    ("chain-compute-prob", "chain", "nnet3-chain-compute-prob", "the LF-MMI objective of a network on chain examples"),
    ("chain-copy-egs", "chain", "nnet3-chain-copy-egs", "copy chain examples with changes, to one or more tables"),
    ("chain-e2e-get-egs", "chain", "nnet3-chain-e2e-get-egs", "make chain examples of utterances and training graphs"),
    ("chain-est-phone-lm", "chain", "chain-est-phone-lm", "estimate the phone language model of a denominator graph"),
    ("chain-get-egs", "chain", "nnet3-chain-get-egs", "make chain examples of features and supervision"),
    ("chain-get-supervision", "chain", "chain-get-supervision",
     "say which sequences of pdfs are right for each utterance"),
    ("chain-make-den-fst", "chain", "chain-make-den-fst", "make a denominator graph and a normalization graph"),
    ("chain-merge-egs", "chain", "nnet3-chain-merge-egs", "merge chain examples into minibatches"),
    ("chain-normalize-egs", "chain", "nnet3-chain-normalize-egs", "weight chain examples by a normalization graph"),
    ("chain-shuffle-egs", "chain", "nnet3-chain-shuffle-egs", "put chain examples into random order"),
    ("chain-subset-egs", "chain", "nnet3-chain-subset-egs", "take some chain examples at random"),
    ("chain-train", "chain", "nnet3-chain-train", "train a network with LF-MMI on chain examples"),
    ("chain-train2", "chain", "nnet3-chain-train2",
     "train a network with LF-MMI on chain examples of several languages"),
    ("ali-to-pdf", "aligning", "ali-to-pdf", "the pdf of each frame of alignments"),
    ("ali-to-phones", "aligning", "ali-to-phones", "the phones of alignments"),
    ("ali-to-post", "aligning", "ali-to-post", "alignments as posteriors"),
    ("align", "aligning", "", "say when words and phones were said"),
    ("align-compiled", "aligning", "nnet3-align-compiled", "align utterances with training graphs"),
    ("am-train-transitions", "aligning", "nnet3-am-train-transitions", "train the transitions of an acoustic model"),
    ("compile-train-graphs", "aligning", "compile-train-graphs", "make training graphs of transcripts"),
    ("compile-train-graphs-fsts", "aligning", "compile-train-graphs-fsts",
     "make training graphs of acceptors of words"),
    ("post-to-tacc", "aligning", "post-to-tacc", "sum posteriors by transition-id or pdf"),
    ("show-alignments", "aligning", "show-alignments", "print alignments phone by phone"),
    ("arpa2fst", "graphs", "arpa2fst", "make an FST of a language model in the ARPA format"),
    ("compute-wer", "graphs", "compute-wer", "count word errors"),
    ("init-tree", "graphs", "", "make a tree of phones or of pairs of phones"),
    ("mkgraph", "graphs", "", "make a decoding graph"),
    ("prepare-lang", "graphs", "", "make a folder `lang` of a dictionary"),
    ("latgen-faster", "lattices", "nnet3-latgen-faster", "decode utterances to lattices"),
    ("latgen-faster-batch", "lattices", "nnet3-latgen-faster-batch", "decode utterances to lattices, many at once"),
    ("latgen-faster-looped", "lattices", "nnet3-latgen-faster-looped", "decode utterances as streams to lattices"),
    ("latgen-faster-parallel", "lattices", "nnet3-latgen-faster-parallel",
     "decode utterances to lattices, several at once"),
    ("lattice-1best", "lattices", "lattice-1best", "write the best path of each lattice as a lattice"),
    ("lattice-add-penalty", "lattices", "lattice-add-penalty", "add a cost per word to lattices"),
    ("lattice-best-path", "lattices", "lattice-best-path", "write the words of the best path of each lattice"),
    ("lattice-copy", "lattices", "lattice-copy", "copy lattices"),
    ("lattice-scale", "lattices", "lattice-scale", "scale the costs of lattices"),
    ("lattice-to-nbest", "lattices", "lattice-to-nbest", "write the best paths of each lattice as lattices"),
    ("nbest-to-linear", "lattices", "nbest-to-linear", "write the parts of lattices of one path"),
    ("add-deltas", "tables", "add-deltas", "add differences in time to features"),
    ("apply-cmvn", "tables", "apply-cmvn", "normalise means and variances of features"),
    ("apply-cmvn-online", "tables", "apply-cmvn-online", "normalise features by what came before"),
    ("compute-cmvn-stats", "tables", "compute-cmvn-stats", "statistics of means and variances of features"),
    ("compute-fbank-feats", "tables", "compute-fbank-feats", "energies of mel bins of recordings"),
    ("compute-mfcc-feats", "tables", "compute-mfcc-feats", "mel frequency cepstral coefficients of recordings"),
    ("copy-feats", "tables", "copy-feats", "copy features, compressed or not"),
    ("copy-int-vector", "tables", "copy-int-vector", "copy vectors of integers, such as alignments"),
    ("feat-to-dim", "tables", "feat-to-dim", "the dimension of features"),
    ("feat-to-len", "tables", "feat-to-len", "the numbers of frames of features"),
    ("ivector-extract-online2", "tables", "ivector-extract-online2", "online ivectors of features"),
    ("matrix-sum-rows", "tables", "matrix-sum-rows", "sum the rows of each matrix of a table"),
    ("paste-feats", "tables", "paste-feats", "put features of several tables side by side"),
    ("splice-feats", "tables", "splice-feats", "put frames and their neighbours side by side"),
    ("subsample-feats", "tables", "subsample-feats", "take every n-th frame of features, or each n times"),
    ("vector-sum", "tables", "vector-sum", "sum the vectors of a table, of several tables, or in files"),
)
# fmt: on

#: All verbs by name, in alphabetical order.
VERBS = {row[0]: Listed(*row) for row in sorted(_TABLE)}
