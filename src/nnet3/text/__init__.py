"""Config text: lines of key=value pairs with spans, and "did you mean"."""

from nnet3.text.config_line import (
    ConfigLine as ConfigLine,
    ConfigValue as ConfigValue,
    decode_config as decode_config,
    is_valid_name as is_valid_name,
    parse_config_line as parse_config_line,
    read_config_lines as read_config_lines,
)
from nnet3.text.suggest import did_you_mean as did_you_mean, misspelt as misspelt
from nnet3.text.values import Value as Value, read_number as read_number
