"""Config text: lines of key=value pairs with spans, and "did you mean"."""

from nnet3.base.text.blanks import BLANKS, is_word, words_of
from nnet3.base.text.config_line import (
    ConfigLine,
    ConfigValue,
    decode_config,
    is_valid_name,
    parse_config_line,
    read_config_lines,
)
from nnet3.base.text.json_text import read_json
from nnet3.base.text.other_formats import other_format
from nnet3.base.text.suggest import did_you_mean, misspelt
from nnet3.base.text.values import Value, read_number, whole_number
