"""Tables of vectors of speakers: means, lengths, transforms, and the models trained on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from nnet3.base.kaldi_io.reader import Reader
from nnet3.base.kaldi_io.replacing import MODEL
from nnet3.base.kaldi_io.specifiers import NO_TABLE
from nnet3.base.kaldi_io.table_values import (
    int32_writer,
    open_matrix_table,
    open_vector_table,
    open_words_table,
    random_access_tokens,
    random_access_vectors,
    vector_writer,
)
from nnet3.base.options.speaker import PldaAdaptationOptions, SpeakerLdaOptions
from nnet3.cli.files import check_can_save, numbers_kind, open_file, save, save_together
from nnet3.cli.messages import naming, say
from nnet3.errors import Nnet3Error
from nnet3.speech.arrays.aliases import Doubles, Singles
from nnet3.speech.speaker.plda import Plda
from nnet3.speech.speaker.plda_training import adapted_plda, estimate_plda, plda_log_likelihood
from nnet3.speech.speaker.speaker_stats import (
    SpeakerStats,
    discriminant_transform,
    principal_axes,
    transformed,
    with_length,
)

_LEAST_VARIANCE = 1e-15


def finite_vectors_of(source: str) -> Iterator[tuple[str, Singles]]:
    """Yields keys and vectors of a table. Raises Nnet3Error for a NaN or an infinity."""
    with open_vector_table(source) as table:
        for key, vector in table:
            if not np.isfinite(vector).all():
                raise Nnet3Error(f"{source}: {key}: the vector has a NaN or an infinity")
            yield key, vector


def vectors_of(source: str) -> Iterator[tuple[str, Singles]]:
    """Yields keys and vectors of a table. Raises Nnet3Error for empty vectors, several dimensions, and NaNs."""
    dim = None
    for key, vector in finite_vectors_of(source):
        dim = len(vector) if dim is None else dim
        if len(vector) != dim or not dim:
            expected = f"a vector of {dim} numbers, as before it" if dim else "a vector of numbers"
            raise Nnet3Error(f"{source}: {key}: expected {expected}, got {len(vector)}")
        yield key, vector


def all_vectors_of(source: str) -> tuple[list[str], Singles]:
    """Returns the keys (n) and the vectors (n, dim) of a table. Raises Nnet3Error for none, and as `vectors_of`."""
    entries = list(vectors_of(source))
    if not entries:
        raise Nnet3Error(f"{source}: there are no vectors")
    return [key for key, _ in entries], np.stack([vector for _, vector in entries])


def vectors_by_speaker(spk2utt: str, source: str) -> Iterator[tuple[str, Singles]]:
    """Yields speakers and their vectors (n, dim); utterances without a vector, and speakers without, are left out."""
    with random_access_vectors(source) as by_key, open_words_table(spk2utt) as speakers:
        for speaker, keys in speakers:
            found = [by_key.get(key) for key in keys]
            for key in (key for key, vector in zip(keys, found, strict=True) if vector is None):
                say(f"warning: utterance '{key}' left out: there is no vector for it")
            vectors = [vector for vector in found if vector is not None]
            if not vectors:
                say(f"warning: speaker '{speaker}' left out: no utterance has a vector")
                continue
            if len({len(vector) for vector in vectors}) > 1:
                raise Nnet3Error(f"{source}: the vectors of speaker '{speaker}' have several dimensions")
            yield speaker, np.stack(vectors)


def write_speaker_means(spk2utt: str, source: str, output: str, counts: str) -> int:
    """Writes the mean vector of each speaker; to the table `counts`, "" for no table, the number of its vectors.

    Returns 1, an exit status, if no speaker has a vector.
    """
    with vector_writer(output) as writer, int32_writer(counts or NO_TABLE) as numbers:
        for speaker, vectors in vectors_by_speaker(spk2utt, source):
            writer.write(speaker, np.add.reduce(vectors, axis=0) * np.float32(1.0 / len(vectors)))
            numbers.write(speaker, len(vectors))
        say(f"Computed mean of {writer.count} speakers.")
        return int(writer.count == 0)


def write_mean(source: str, output: str, binary: bool) -> None:
    """Writes the mean of all vectors of a table to a file, as float64."""
    check_can_save(numbers_kind(binary), output)
    total, count = np.zeros(1), 0
    for _, vector in vectors_of(source):
        total, count = total + vector, count + 1
    if not count:
        raise Nnet3Error(f"{source}: there are no vectors")
    save(output, binary, lambda writer: writer.vector(total / count, double=True))


def subtract_mean(mean: str, source: str, output: str, subtract: bool) -> int:
    """Writes vectors less the mean in a file, or less their own mean if the file is "".

    Returns 1, an exit status, if there are no vectors; so do the next two functions.
    """
    if mean:
        offset = open_file(mean).whole(Reader.vector)
        return _write_changed(source, output, lambda vector: vector - _fitting(offset, vector, mean), "mean-subtracted")
    entries = list(vectors_of(source))
    count = max(len(entries), 1)
    total: Doubles = np.zeros(1)
    for _, vector in entries:
        total = total + vector  # in float64
    own = float(np.float32(-1.0 / count)) * total if subtract else np.zeros(1)
    with vector_writer(output) as writer:
        for key, vector in entries:
            writer.write(key, (vector + own).astype(np.float32))
    say(f"Wrote {len(entries)} mean-subtracted vectors")
    return int(not entries)


def _fitting(offset: Singles, vector: Singles, name: str) -> Singles:
    if len(offset) != len(vector):
        raise Nnet3Error(f"{name}: expected a vector of {len(vector)} numbers, as the table's, got {len(offset)}")
    return offset


def normalise_lengths(source: str, output: str, normalise: bool, scaled: bool) -> int:
    """Writes vectors scaled to the length sqrt(dim), or to the length 1 if not `scaled`."""

    def changed(vector: Singles) -> Singles:
        if not vector.any():
            say("warning: a vector of zeros stays as it is")
            return vector
        return with_length(vector[np.newaxis], scaled)[0] if normalise else vector

    return _write_changed(source, output, changed, "normalised")


def transform_vectors(transform: str, source: str, output: str) -> int:
    """Writes vectors (dim,) times the matrix in a file, (new dim, dim) or, with an offset, (new dim, dim + 1)."""
    matrix = open_file(transform).whole(Reader.matrix)

    def changed(vector: Singles) -> Singles:
        with naming(transform):
            return transformed(vector[np.newaxis], matrix)[0]

    return _write_changed(source, output, changed, "transformed")


def _write_changed(source: str, output: str, change: Callable[[Singles], Singles], what: str) -> int:
    with vector_writer(output) as writer:
        for key, vector in finite_vectors_of(source):
            writer.write(key, change(vector))
        say(f"Wrote {writer.count} {what} vectors")
        return int(writer.count == 0)


def write_lda(source: str, utt2spk: str, output: str, options: SpeakerLdaOptions, binary: bool) -> None:
    """Writes the affine transform (dim, vector's dim + 1) that tells speakers apart and centres vectors."""
    check_can_save(numbers_kind(binary), output)
    by_speaker, seen = dict[str, list[Singles]](), set[str]()
    with random_access_tokens(utt2spk) as speaker_of:
        for key, vector in vectors_of(source):
            speaker = speaker_of.get(key)
            if key in seen or speaker is None:
                why = "it came before" if key in seen else f"{utt2spk} has no speaker for it"
                say(f"warning: utterance '{key}' left out: {why}")
                continue
            seen.add(key)
            by_speaker.setdefault(speaker, []).append(vector)
    if not by_speaker:
        raise Nnet3Error(f"{source}: there are no vectors of known speakers")
    mean = np.concatenate([np.stack(each) for each in by_speaker.values()]).mean(axis=0, dtype=np.float64)
    centre = mean.astype(np.float32)
    stats = SpeakerStats.of_speakers(np.stack(each) - centre for each in by_speaker.values())
    linear = discriminant_transform(stats, options)
    affine = np.concatenate([linear, -(linear @ centre)[:, np.newaxis]], axis=1)
    save(output, binary, lambda writer: writer.matrix(affine))
    say(f"Wrote LDA transform of {stats.total} vectors of {len(stats.counts)} speakers to {output}")


def write_plda(spk2utt: str, source: str, output: str, iterations: int, binary: bool) -> None:
    """Writes the PLDA model of vectors and their speakers."""
    check_can_save(MODEL, output)
    groups = [vectors for _, vectors in vectors_by_speaker(spk2utt, source)]
    with naming(source):
        stats = SpeakerStats.of_speakers(groups)
        model = estimate_plda(stats, iterations)
    save(output, binary, model.write_to)
    say(
        f"Estimated PLDA of {stats.total} vectors of {len(stats.counts)} speakers; the log-likelihood per vector is "
        f"{plda_log_likelihood(stats, model):.5g}"
    )


def read_plda(name: str) -> Plda:
    """Returns the PLDA model in a file."""
    return open_file(name).whole(Plda.read)


def adapt_plda(model: str, source: str, output: str, options: PldaAdaptationOptions, binary: bool) -> None:
    """Writes a PLDA model adapted to vectors whose speakers are unknown."""
    check_can_save(MODEL, output)
    read, vectors = read_plda(model), all_vectors_of(source)[1]
    with naming(source):
        adapted = adapted_plda(read, vectors, options)
    save(output, binary, adapted.write_to)


def copy_plda(model: str, output: str, smoothing: float, binary: bool) -> None:
    """Writes a PLDA model, its covariance within speakers smoothed by that between speakers."""
    read = read_plda(model)
    save(output, binary, (read.smoothed(smoothing) if smoothing else read).write_to)


def write_pca(
    source: str, output: str, dim: int, of_vectors: bool, unit: bool, centred: bool, whole: str, binary: bool
) -> None:
    """Writes the transform to the principal axes of vectors, or of the rows of matrices; the whole one to `whole`.

    Empty entries, and those of another dimension than the first, are left out.
    """
    check_can_save(numbers_kind(binary), whole, output)
    count, total, squares = 0, np.zeros(0), np.zeros((0, 0))
    for key, each in finite_vectors_of(source) if of_vectors else _matrices_of(source):
        rows = np.atleast_2d(each).astype(np.float64)
        if rows.size and not count:
            total, squares = np.zeros(rows.shape[1]), np.zeros((rows.shape[1], rows.shape[1]))
        if not rows.size or rows.shape[1] != len(total):
            say(f"warning: '{key}' left out: " + (f"it has {rows.shape[1]} columns" if rows.size else "it is empty"))
            continue
        count, total, squares = count + len(rows), total + rows.sum(axis=0), squares + rows.T @ rows
    if not count:
        raise Nnet3Error(f"{source}: there is nothing to make a transform of")
    if dim > len(total):
        raise Nnet3Error(f"--dim={dim} is more than the {len(total)} columns of the data")
    mean = total / count
    variances, axes = principal_axes(squares / count - np.outer(mean, mean))
    if unit:
        axes = axes / np.sqrt(np.maximum(variances, _LEAST_VARIANCE))[:, np.newaxis]
    if centred:
        axes = np.concatenate([axes, -(axes @ mean)[:, np.newaxis]], axis=1)
    kinds = ((name, axes[: number if number > 0 else None]) for name, number in ((whole, 0), (output, dim)) if name)
    save_together(binary, *((name, partial(_write_rows, axes=rows)) for name, rows in kinds))
    kept = variances[: dim if dim > 0 else None].sum()
    say(f"Sum of PCA eigenvalues is {variances.sum():g}, sum of kept eigenvalues is {kept:g}")


def _write_rows(writer: object, axes: Doubles) -> None:
    writer.matrix(axes)  # type: ignore[attr-defined]


def _matrices_of(source: str) -> Iterator[tuple[str, Singles]]:
    with open_matrix_table(source) as table:
        for key, rows in table:
            if not np.isfinite(rows).all():
                raise Nnet3Error(f"{source}: {key}: the matrix has a NaN or an infinity")
            yield key, rows
