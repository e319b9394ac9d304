"""Verbs of the words, phones and frames of lattices."""

from __future__ import annotations

from typing import Any

import click

from nnet3.base.text.values import Integer, bounds, within
from nnet3.cli import later
from nnet3.cli.options import (
    Decorator,
    all_of,
    arguments,
    click_type,
    flag,
    ignored,
    number,
    whole_number,
    word_symbols_option,
)
from nnet3.cli.verb import verb

_scales: Decorator = all_of(
    number("--acoustic-scale", default=1.0, help="Scale of acoustic costs."),
    number("--lm-scale", default=1.0, help="Scale of graph costs."),
)
_frame_shift: Decorator = number(
    "--frame-shift", rule=bounds(above=0, maximum=3600), default=0.01, help="Seconds from frame to frame."
)
_silence: Decorator = flag("--print-silence", help="Also write where no word is.")
_broken: Decorator = flag(
    "--output-error-lats",
    "keeps_broken",
    default=True,
    show_default=True,
    help="Also write lattices that are broken off.",
)


def _always(name: str, why: str) -> Decorator:
    """An option of Kaldi that must stay true."""

    def check(context: click.Context, parameter: click.Parameter, value: bool) -> None:
        if not value:
            raise click.UsageError(f"{name}=false: {why}", context)

    return flag(name, default=True, hidden=True, expose_value=False, callback=check)


_reorder_option = _always("--reorder", "graphs whose self-loops come first are not aligned here")


def _scaled(given: dict[str, Any]) -> Any:
    return later.lattice_words.Scales(given.pop("acoustic_scale"), given.pop("lm_scale"))


@verb()
@_broken
@flag("--replace-output-symbols", "replaces", help="Labels are phones, not words.")
@_always("--remove-epsilon", "arcs without a phone are always removed")
@_reorder_option
@arguments(model="MODEL", lattices="LATTICE-RSPECIFIER", output="LATTICE-WSPECIFIER")
def lattice_align_phones(**given: Any) -> int:
    """Cut lattices so that each arc has the transition-ids of one phone.

    nnet3 lattice-align-phones --replace-output-symbols=true final.mdl ark:lat.ark ark:phones.ark
    """
    return later.lattice_words.align_phones(**given)


@verb()
@whole_number("--silence-label", default=0, help="Label of silence.")
@whole_number("--partial-word-label", default=0, help="Label of parts of words, where a search was broken off.")
@_broken
@ignored("--test")
@number("--max-expand", default=0.0, help="Leave out lattices that grow more than so many times; 0: none.")
@_reorder_option
@arguments(boundaries="WORD-BOUNDARIES", model="MODEL", lattices="LATTICE-RSPECIFIER", output="LATTICE-WSPECIFIER")
def lattice_align_words(silence_label: int, partial_word_label: int, **given: Any) -> int:
    """Cut lattices so that each arc has the transition-ids of one word, or of silence, by a file with the place of each
    phone in words.

    nnet3 lattice-align-words lang/phones/word_boundary.int final.mdl ark:lat.ark ark:aligned.ark
    """
    labels = later.timed_lattice.OtherLabels(silence_label, partial_word_label)
    return later.lattice_words.align_words(labels=labels, **given)


@verb()
@_scales
@number("--min-post", "least", default=0.0001, help="Leave out arcs that are no likelier.")
@flag("--print-alignment", help="Also the transition-ids.")
@click.argument("names", metavar="[MODEL] LATTICE-RSPECIFIER OUT", nargs=-1, required=True)
def lattice_arc_post(names: tuple[str, ...], **given: Any) -> int:
    """Write a line for each arc of lattices, tabs between: key, first frame, number of frames, posterior, word, maybe
    transition-ids, and with a model the phones.

    nnet3 lattice-arc-post --acoustic-scale=0.1 final.mdl ark:aligned.ark arcs.txt
    """
    if len(names) not in (2, 3):
        raise click.UsageError("give a table of lattices and the file to write; a model may come before them")
    model = names[0] if len(names) == 3 else ""
    return later.lattice_measures.write_arc_posteriors(model, names[-2], names[-1], _scaled(given), **given)


@verb()
@arguments(lattices="LATTICE-RSPECIFIER", output="[DEPTHS-WSPECIFIER]")
def lattice_depth(lattices: str, output: str) -> int:
    """Write how many arcs of each lattice cross a frame, on average.

    nnet3 lattice-depth ark:lat.ark ark,t:-
    """
    return later.lattice_measures.write_depths(lattices, output)


@verb()
@arguments(lattices="LATTICE-RSPECIFIER", output="DEPTHS-WSPECIFIER", copied="[LATTICE-WSPECIFIER]")
def lattice_depth_per_frame(**given: Any) -> int:
    """Write how many arcs cross each frame of lattices, and copy the lattices if a second table is given.

    nnet3 lattice-depth-per-frame ark:lat.ark ark,t:-
    """
    return later.lattice_measures.write_depths_by_frame(**given)


@verb()
@_scales
@word_symbols_option
@flag("--one-best-times", help="Times of words, not of bins.")
@arguments(
    lattices="LATTICE-RSPECIFIER",
    words="WORDS-WSPECIFIER",
    risks="[RISKS-WSPECIFIER",
    sausage_table="[SAUSAGES-WSPECIFIER",
    times="[TIMES-WSPECIFIER]]]",
)
def lattice_mbr_decode(**given: Any) -> int:
    """Write the words with the fewest expected errors, how many are expected, the words that compete at each place with
    their probabilities, and times in frames, which lattice-align-words makes exact.

    nnet3 lattice-mbr-decode --acoustic-scale=0.1 ark:lat.ark ark,t:words.txt ark,t:risk.txt ark:sausages.ark
    """
    return later.lattice_words.decode_least_risk(scales=_scaled(given), **given)


@verb()
@_scales
@number("--inv-acoustic-scale", default=1.0, help="Divides acoustic costs instead.")
@_frame_shift
@click.option(
    "--confidence-digits", type=click_type(Integer(within(0, 20))), default=2, show_default=True, help="Decimal digits."
)
@flag("--decode-mbr", "decode", default=True, show_default=True, help="Words with the fewest expected errors.")
@_silence
@click.argument(
    "names", metavar="LATTICE-RSPECIFIER [WORDS-RSPECIFIER [TIMES-RSPECIFIER]] CTM", nargs=-1, required=True
)
def lattice_to_ctm_conf(names: tuple[str, ...], inv_acoustic_scale: float, **given: Any) -> int:
    """Write words with times and confidences: key, 1, first second, seconds, word, confidence. The words are those with
    the fewest expected errors, found from the best path on, or from a table of words; with --decode-mbr=false these
    stay. A table of times changes nothing.

    nnet3 lattice-align-words word_boundary.int final.mdl ark:lat.ark ark:- | nnet3 lattice-to-ctm-conf ark:- 1.ctm
    """
    if not 2 <= len(names) <= 4:
        raise click.UsageError("give a table of lattices and the file to write; tables of words and times in between")
    if inv_acoustic_scale == 0 or (given["acoustic_scale"] != 1 and inv_acoustic_scale != 1):
        raise click.UsageError("give --acoustic-scale, or an --inv-acoustic-scale that is not 0")
    given["acoustic_scale"] /= inv_acoustic_scale
    first = names[1] if len(names) > 2 else ""
    return later.lattice_words.write_confidences(names[0], first, names[-1], _scaled(given), **given)


@verb()
@flag("--replace-words", default=True, show_default=True, help="Phones for words; false: for transition-ids.")
@arguments(model="MODEL", lattices="LATTICE-RSPECIFIER", output="LATTICE-WSPECIFIER")
def lattice_to_phone_lattice(**given: Any) -> int:
    """Put phones in the place of the words, or of the transition-ids, of lattices.

    nnet3 lattice-to-phone-lattice final.mdl ark:lat.ark ark:phones.ark
    """
    return later.lattice_measures.write_phones(**given)


@verb()
@_scales
@arguments(lattices="LATTICE-RSPECIFIER", output="POSTERIORS-WSPECIFIER", log_likelihoods="[LOGLIKES-WSPECIFIER]")
def lattice_to_post(**given: Any) -> int:
    """Write posteriors of the transition-ids of each frame, by forward-backward over lattices.

    nnet3 lattice-to-post --acoustic-scale=0.1 ark:lat.ark ark:post.ark
    """
    if given["acoustic_scale"] == 0:
        raise click.UsageError("--acoustic-scale must not be 0")
    return later.lattice_measures.write_posteriors(scales=_scaled(given), **given)


@verb()
@_frame_shift
@click.option("--precision", type=click_type(Integer(within(0, 20))), default=2, show_default=True, help="Digits.")
@_silence
@arguments(lattices="NBEST-RSPECIFIER", output="CTM")
def nbest_to_ctm(**given: Any) -> int:
    """Write the words of lattices of one path, aligned by lattice-align-words, with times: key, 1, first second,
    seconds, word.

    nnet3 lattice-1best ark:aligned.ark ark:- | nnet3 nbest-to-ctm ark:- 1.ctm
    """
    return later.lattice_words.write_linear_times(**given)
