"""Config text: lines of key=value pairs with spans, and "did you mean"."""

from nnet3.text.config_line import ConfigLine as ConfigLine
from nnet3.text.config_line import ConfigValue as ConfigValue
from nnet3.text.config_line import decode_config as decode_config
from nnet3.text.config_line import is_valid_name as is_valid_name
from nnet3.text.config_line import parse_config_line as parse_config_line
from nnet3.text.config_line import read_config_lines as read_config_lines
from nnet3.text.suggest import did_you_mean as did_you_mean
from nnet3.text.suggest import misspelt as misspelt
from nnet3.text.values import Value as Value
from nnet3.text.values import read_number as read_number
