"""Verbs that copy, scale and sum vectors and matrices, and change the columns of features."""

from __future__ import annotations

from typing import Any

import click

from nnet3.cli import later
from nnet3.cli.options import arguments, binary_option, flag, ignored, number, text_option, whole_number
from nnet3.cli.verb import verb


@verb()
@ignored("--binary")
@arguments(source="FEATURES", vectors="VECTORS", output="FEATURES-OUT")
def append_vector_to_feats(**given: Any) -> int:
    """Put the vector of each utterance, such as an ivector, behind each of its frames, in tables or in files.

    nnet3 append-vector-to-feats scp:mfcc.scp ark:ivectors.ark ark:both.ark
    """
    return later.vector_tables.append_vectors(**given)


@verb()
@text_option("--utt2spk", metavar="RSPECIFIER", help="The first table is by utterance, the second by speaker.")
@flag("--b-is-affine", "is_affine", help="The last column of the second transform is an offset.")
@binary_option
@arguments(first="TRANSFORM", second="TRANSFORM", output="TRANSFORM-OUT")
def compose_transforms(**given: Any) -> int:
    """Multiply transforms of features, of which the second is applied first: matrices in files or in tables. --binary
    is about a file.

    nnet3 compose-transforms lda.mat ark:speaker.trans ark:both.trans
    """
    return later.vector_tables.compose(**given)


@verb()
@binary_option
@arguments(names="IN... OUT")
def concat_feats(names: tuple[str, ...], binary: bool) -> None:
    """Put the frames of matrices in files one behind the other.

    nnet3 concat-feats feats.ark:25 feats.ark:90125 both.mat
    """
    *sources, output = names
    if len(sources) < 2:
        raise click.UsageError("give at least two files of features, and the one to write")
    later.feature_tables.concatenate(sources, output, binary)


@verb()
@binary_option
@number("--scale", default=1.0, help="Multiplies all numbers.")
@flag("--apply-log", help="Logarithms; numbers below 1e-20 count as that.")
@flag("--apply-exp", help="Exponentials.")
@flag("--apply-softmax-per-row", "apply_softmax", help="The softmax of each row.")
@number("--apply-power", default=1.0, help="Powers, at last.")
@arguments(source="IN", output="OUT")
def copy_matrix(source: str, output: str, binary: bool, **changes: Any) -> int:
    """Copy a table of matrices, or the matrix in a file, with changes. --binary is about a file.

    nnet3 copy-matrix --apply-exp=true ark:log_posteriors.ark ark,t:-
    """
    if changes["apply_log"] + changes["apply_exp"] + changes["apply_softmax"] > 1:
        raise click.UsageError("give one of --apply-log, --apply-exp and --apply-softmax-per-row")
    change = later.matrix_changes.MatrixChange(**changes)
    return later.vector_tables.change_matrices(source, output, binary, change)


@verb()
@binary_option
@whole_number("--change-dim", "length", least=-1, default=-1, help="Cut vectors off, or add zeros (-1: neither).")
@number("--scale", default=1.0, help="Multiplies all numbers.")
@arguments(source="IN", output="OUT")
def copy_vector(source: str, output: str, binary: bool, length: int, scale: float) -> int:
    """Copy a table of vectors, or the vector in a file. --binary is about a file.

    nnet3 copy-vector --binary=false post.vec -
    """
    change = later.matrix_changes.VectorChange(length, scale)
    return later.vector_tables.change_vectors(source, output, binary, change)


@verb()
@arguments(source="IN")
def matrix_dim(source: str) -> int:
    """Print the rows and columns of the matrix in a file, or, behind their keys, of the matrices of a table.

    nnet3 matrix-dim final.mat
    """
    return later.vector_tables.print_dims(source, click.echo)


@verb()
@binary_option
@number("--scale1", default=1.0, help="Scale of the first table.")
@number("--scale2", default=1.0, help="Scale of the second table.")
@flag("--average", help="Means instead of sums.")
@arguments(names="IN... OUT")
def matrix_sum(names: tuple[str, ...], binary: bool, scale1: float, scale2: float, average: bool) -> int:
    """Sum matrices: those of equal keys of several tables into a table, all of a table into a file, those in files into
    a file. Scales are for tables into a table; --binary is about a file.

    nnet3 matrix-sum --scale1=0.5 --scale2=0.5 ark:a.ark ark:b.ark ark:mean.ark
    """
    if len(names) < 2:
        raise click.UsageError("give at least one table or file to read, and the one to write")
    return later.vector_tables.sum_matrices(names[:-1], names[-1], binary, (scale1, scale2), average)


@verb()
@arguments(columns="COLUMNS", source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def select_feats(columns: str, source: str, output: str) -> int:
    """Take some columns of features, counted from 0, in the order that they are given in.

    nnet3 select-feats 0-12,15 scp:feats.scp ark:some.ark
    """
    return later.vector_tables.select_columns(columns, source, output)


@verb()
@whole_number("--shift", "frames", default=0, help="Frames that features come later (negative: earlier).")
@binary_option
@arguments(source="FEATURES", output="FEATURES-OUT")
def shift_feats(**given: Any) -> int:
    """Shift features in time, in a table or in a file; the first or last frame fills up. --binary is about a file.

    nnet3 shift-feats --shift=1 scp:feats.scp ark:later.ark
    """
    return later.feature_tables.shift(**given)


@verb()
@whole_number("--n", "most", default=-1, help="Copy so many, the first ones (negative: all).")
@text_option("--include", metavar="FILE", help="Only those with keys that begin a line of it.")
@text_option("--exclude", metavar="FILE", help="Only those with other keys.")
@arguments(source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def subset_feats(include: str, exclude: str, most: int, **given: Any) -> int:
    """Copy some of the features of a table.

    nnet3 subset-feats --n=10 scp:feats.scp ark:few.ark
    """
    if include and exclude:
        raise click.UsageError("give --include or --exclude, not both")
    if (include or exclude) and most >= 0:
        raise click.UsageError("--n is for a table without --include and --exclude")
    return later.vector_tables.take_some(include=include, exclude=exclude, most=most, **given)


@verb()
@text_option("--utt2spk", metavar="RSPECIFIER", help="The speaker of each utterance, whose transform it takes.")
@arguments(transforms="TRANSFORMS", source="FEATURES-RSPECIFIER", output="FEATURES-WSPECIFIER")
def transform_feats(**given: Any) -> int:
    """Multiply features with a matrix, the one in a file or that of each utterance or speaker; a column more than the
    features have is an offset.

    nnet3 transform-feats final.mat scp:spliced.scp ark:lda.ark
    """
    return later.vector_tables.transform(**given)


@verb()
@binary_option
@number("--scale", default=1.0, help="Multiplies all numbers.")
@arguments(source="IN", output="OUT")
def vector_scale(source: str, output: str, binary: bool, scale: float) -> None:
    """Multiply the vectors of a table, or the vector in a file, with a number. --binary is about a file.

    nnet3 vector-scale --scale=-1.0 mean.vec negative.vec
    """
    later.vector_tables.change_vectors(source, output, binary, later.matrix_changes.VectorChange(scale=scale))
