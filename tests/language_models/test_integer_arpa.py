"""ARPA files of integers as arrays: blanks, comments, announced numbers, and files that are wrong."""

from __future__ import annotations

import numpy as np
import pytest

from nnet3.base.kaldi_io.reader import Reader
from nnet3.errors import ModelFormatError
from nnet3.speech.language_models.integer_arpa import Ngrams, read_integer_arpa

TEXT = """a comment
\\ of any kind

\\data\\
ngram 1=5
ngram  2 = 3
more

\\1-grams: \t
-99 1 -0.3
-0.7 2\r

-0.5\t3\t-0.2
-1e-1 7 0

\\2-grams:
-0.2 1 3
 -inf 3 2
\\end\\
anything
"""


def _read(text: str) -> list[Ngrams]:
    return read_integer_arpa(Reader(text.encode(), "lm.arpa", binary=False))


def test_numbers_and_words(caplog: pytest.LogCaptureFixture) -> None:
    one, two = _read(TEXT)
    assert one.words.tolist() == [[1], [2], [3], [7]]
    assert two.words.tolist() == [[1, 3], [3, 2]]
    np.testing.assert_allclose(one.log_prob, np.log(10) * np.array([-99, -0.7, -0.5, -0.1]), rtol=1e-6)
    np.testing.assert_allclose(one.back_off, np.log(10) * np.array([-0.3, 0, -0.2, 0]), rtol=1e-6)
    assert two.log_prob[1] == -np.inf
    assert not two.back_off.any()
    assert caplog.messages == ["lm.arpa: a line of \\data\\ that says nothing: 'more'"]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", "lm.arpa: there is no line \\data\\"),
        ("\\end\\", "end", "line 19, column 1: 'end' is not a number"),
        ("\\end\\\nanything\n", "", "line 19, column 1: there is no line \\end\\: the file is cut off"),
        ("ngram  2 = 3", "", "line 10, column 1: expected 2 fields of a 1-gram, got 3"),
        ("ngram 1=5", "", "expected lines such as 'ngram 1=200', for 1, 2, and so on"),
        ("ngram 1=5", "ngram 1=3", "expected 3 1-grams at most, as the file says, found 4"),
        ("\\2-grams:", "\\3-grams:", "expected \\2-grams:, got '\\3-grams:'"),
        ("\\2-grams:\n-0.2 1 3\n -inf 3 2\n", "", "expected \\2-grams:, got \\end\\"),
        ("-0.2 1 3", "-0.2 1 3 0", "line 17, column 1: expected 3 fields of a 2-gram, got 4"),
        ("-0.7 2\r", "-0.7", "line 11, column 1: expected 2 or 3 fields of a 1-gram, got 1"),
        ("-0.2 1 3", "-0.2 0 3", "line 17, column 1: expected 2 words that are integers above 0, got '-0.2 0 3'"),
        ("-0.5\t3", "-0.5\t0", "line 13, column 1: expected 1 words that are integers above 0, got '-0.5\t0\t-0.2'"),
        ("-0.2 1 3", "-0.2 1 3.0", "words that are integers above 0, got '-0.2 1 3.0'"),
        ("-0.2 1 3", "-0.2 1 2147483648", "words that are integers above 0"),
        ("-0.2 1 3", "-0.2 <s> 3", "line 17, column 6: '<s>' is not a number"),
        ("-0.2 1 3", "nan 1 3", "line 17, column 1: a NaN is not allowed"),
    ],
)
def test_what_is_wrong(old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(ModelFormatError) as error:
        _read(TEXT.replace(old, new, 1))
    assert message in str(error.value)
