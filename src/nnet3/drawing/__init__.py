"""Pictures of graphs: boxes and arcs as SVG, PNG or Graphviz text. Knows nothing of networks.

Graphviz arranges and paints them: the program `dot` of the machine, or what the package pygraphviz brings.
"""

from nnet3.drawing.dot import Arc as Arc, Box as Box, Graph as Graph, to_dot as to_dot
from nnet3.drawing.graphviz import (
    FORMS as FORMS,
    MOST_SHOWN_BOXES as MOST_SHOWN_BOXES,
    Picture as Picture,
    can_paint as can_paint,
    draw as draw,
    to_png as to_png,
    to_svg as to_svg,
)
