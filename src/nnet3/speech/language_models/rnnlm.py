"""Rnnlm: a language model that is an nnet3 network and an embedding of words (docs/rnnlm.md)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from nnet3.base.kaldi_io.files import check_is_path
from nnet3.base.kaldi_io.load import load_matrix
from nnet3.base.options.rnnlm import RnnlmOptions
from nnet3.base.options.utterances import StreamOptions
from nnet3.engine.ir.matrices import Matrix, as_tensor
from nnet3.engine.runtime.models import model_dtype
from nnet3.errors import ArgumentError, ModelFormatError, check_kind
from nnet3.inference.stream_program import StreamProgram
from nnet3.model.edits.modes import with_modes
from nnet3.model.nnet import Nnet, device_of, load_nnet
from nnet3.speech.arrays.aliases import Singles
from nnet3.speech.features.conf_file import read_conf
from nnet3.speech.language_models.word_histories import HistoryPrograms, WordHistories, checked_sentences
from nnet3.training.rnnlm.word_features import read_word_features, word_embedding

_NETWORK, _FEATURES, _EMBEDDING = "final.raw", "word_feats.txt", "feat_embedding.final.mat"
_CONF = "special_symbol_opts.conf"
_WITHOUT_EFFECT = r"debug-computation|(optimization|computation)\.[^.]+"
_AT_ONCE = 256  # sentences


class Rnnlm:
    """An RNN language model: log p(w | history) is about y e(w), for the network's output y and word w's embedding e.

        rnnlm = nnet3.asr.Rnnlm.load("model/rnnlm")        # a folder as Vosk's models have it
        histories = rnnlm.histories()                      # number 0 is <s> alone
        two = histories.extend([0, 0], [17, 23])           # <s> 17 and <s> 23: numbers 1 and 2
        histories.log_probs(two)                           # (2, words): of all next words, after each history
        rnnlm.log_probs([[17, 4], [23]])                   # the same without states kept
        rnnlm.sentence_log_probs([[17, 4, 23]])            # of each word in turn, and of the end

    The network takes the embedding of the word before, a frame a word, begun with <s>. It runs in the modes of its
    file, as in Kaldi's rescoring: no test mode for batch-norm and dropout unless asked for. With `normalize_probs` the
    probabilities of all words but 0 are divided by their sum; else training has brought the sum close to 1.
    """

    def __init__(
        self,
        nnet: Nnet,
        embedding: Matrix,
        options: RnnlmOptions | None = None,
        *,
        batchnorm_test_mode: bool = False,
        dropout_test_mode: bool = False,
    ) -> None:
        """`embedding`: (words, dim), row w of word w. Raises ModelFormatError if network and embedding do not fit."""
        check_kind(nnet, Nnet, "the network of an RNNLM", "a network")
        check_kind(options, (RnnlmOptions, type(None)), "the options of an RNNLM", "RnnlmOptions")
        self.options = options = options or RnnlmOptions()
        self.embedding = as_tensor(embedding, "the word embedding", device=device_of(nnet))
        check_rnnlm(nnet, self.embedding)
        if not self.embedding.isfinite().all():
            raise ModelFormatError("the word embedding has a NaN or an infinity")
        for name in ("bos_symbol", "eos_symbol"):
            if not 1 <= getattr(options, name) < self.num_words:
                raise ArgumentError(
                    f"{name} must be the number of a word, 1 to {self.num_words - 1}, got {getattr(options, name)}"
                )
        twin = with_modes(nnet, batchnorm_test_mode=batchnorm_test_mode, dropout_test_mode=dropout_test_mode)
        self.embedding = self.embedding.to(model_dtype(nnet, None) or self.embedding.dtype)
        self._programs = HistoryPrograms(StreamProgram.of_modes(twin, StreamOptions(frames_per_chunk=1)))

    @classmethod
    def load(
        cls,
        network: str | os.PathLike[str],
        embedding: str | os.PathLike[str] | None = None,
        word_features: str | os.PathLike[str] | None = None,
        options: RnnlmOptions | None = None,
        **modes: bool,
    ) -> Rnnlm:
        """Loads the model of a folder, or of files.

        `network`: a folder with final.raw, word_feats.txt, feat_embedding.final.mat and special_symbol_opts.conf, or a
        file with a raw network. `embedding`: then a file with a matrix (words, dim), or (features, dim) with a file
        `word_features`. `modes`: see the constructor. Raises ModelFormatError for files that are missing, damaged or
        do not fit together.
        """
        check_is_path(network, "an RNNLM")
        path = Path(network)
        if embedding is None:
            if not path.is_dir():
                raise ModelFormatError("a folder with an RNNLM is expected here, or an embedding with it", str(path))
            missing = [name for name in (_NETWORK, _FEATURES, _EMBEDDING, _CONF) if not (path / name).is_file()]
            if missing:
                raise ModelFormatError(f"this folder of an RNNLM lacks {', '.join(missing)}", str(path))
            options = options or read_special_symbols(path / _CONF)
            path, embedding, word_features = path / _NETWORK, path / _EMBEDDING, path / _FEATURES
        matrix = torch.from_numpy(load_matrix(embedding))
        if word_features is not None:
            matrix = word_embedding(read_word_features(word_features, len(matrix)), matrix)
        nnet = load_nnet(path)
        try:
            return cls(nnet, matrix, options, **modes)
        except ModelFormatError as error:
            raise error if error.source else ModelFormatError(error.message, str(path)) from None

    @property
    def num_words(self) -> int:
        """The number of words, word 0 included, which is never said."""
        return len(self.embedding)

    def histories(self) -> WordHistories:
        """Returns a new table of histories, with <s> alone as number 0."""
        return WordHistories(self._programs, self.embedding, self.options)

    def log_probs(self, histories: Sequence[Sequence[int]]) -> Tensor:
        """Returns the log-probabilities (histories, words) of all next words after each history, <s> left out.

        Equal beginnings are computed once. Column 0 is -inf.
        """
        table = self.histories()
        return table.log_probs(table.follow(histories)[1])

    def sentence_log_probs(self, sentences: Sequence[Sequence[int]]) -> list[Singles]:
        """Returns for each sentence the log-probabilities (words + 1,) of the words in turn, and of the end."""
        found: list[Singles] = []
        for first in range(0, len(checked_sentences(sentences)), _AT_ONCE):
            some = sentences[first : first + _AT_ONCE]
            table = self.histories()
            before, _ = table.follow(some)
            words = np.array([word for sentence in some for word in (*sentence, self.options.eos_symbol)], np.int64)
            values = table.log_probs(np.array(before, np.int64), words).cpu().numpy()
            found += np.split(values, np.cumsum([len(sentence) + 1 for sentence in some])[:-1])
        return found


def check_rnnlm(nnet: Nnet, embedding: Tensor) -> None:
    """Raises ModelFormatError unless the network goes from embeddings of words to such, without context."""
    if nnet.input_names != ["input"] or nnet.output_names != ["output"]:
        raise ModelFormatError(
            "an RNNLM has one input 'input' and one output 'output', this network has "
            f"{', '.join(nnet.input_names)} and {', '.join(nnet.output_names)}"
        )
    dims = nnet.node_dim("input"), nnet.node_dim("output")
    if embedding.ndim != 2 or dims != (embedding.shape[1],) * 2 or len(embedding) < 2:
        raise ModelFormatError(
            f"the network goes from dimension {dims[0]} to {dims[1]}, and the word embedding is "
            f"{' x '.join(map(str, embedding.shape))}: all three dimensions must agree"
        )
    if nnet.left_context or nnet.right_context:
        raise ModelFormatError(
            f"an RNNLM needs no context, this network {nnet.left_context} frames to the left and "
            f"{nnet.right_context} to the right: earlier frames are read by IfDefined"
        )


def read_special_symbols(path: str | os.PathLike[str]) -> RnnlmOptions:
    """Returns the options in special_symbol_opts.conf. Raises ConfigError for an unknown option or a bad value."""
    return cast(RnnlmOptions, read_conf(path, {"": RnnlmOptions()}, _WITHOUT_EFFECT)[""])
