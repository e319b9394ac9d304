from nnet3.engine.driver.ragged_family import RaggedFamily as RaggedFamily, program_of_frames as program_of_frames
from nnet3.engine.families.ragged_check import CheckedLengths as CheckedLengths
