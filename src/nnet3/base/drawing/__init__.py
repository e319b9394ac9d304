"""Pictures of graphs: boxes and arcs as SVG, PNG or Graphviz text. Knows nothing of networks.

Graphviz arranges and paints them: the program `dot` of the machine, or what the package pygraphviz brings.
"""

from nnet3.base.drawing.dot import Arc, Box, Graph, to_dot
from nnet3.base.drawing.graphviz import FORMATS, MOST_SHOWN_BOXES, Picture, can_paint, draw, to_svg
