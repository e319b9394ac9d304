from nnet3.base.drawing import MOST_SHOWN_BOXES as MOST_SHOWN_BOXES, Picture as Picture, can_paint as can_paint
from nnet3.inference.whole_utterance import compute_utterance as compute_utterance
from nnet3.model.nnet.from_torch.known import parts_of as parts_of
from nnet3.model.nnet.picture import group_nodes as group_nodes, network_graph as network_graph
from nnet3.model.xconfig.describe import describe as describe
from nnet3.model.xconfig.expand import is_xconfig as is_xconfig
from nnet3.model.xconfig.layer_types import LAYER_TYPES as LAYER_TYPES
from nnet3.model.xconfig.network_parts import apply_xconfig as apply_xconfig
