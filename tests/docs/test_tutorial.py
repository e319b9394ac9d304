"""docs/tutorial.md does what it says."""

from __future__ import annotations

from nnet3.base.drawing import to_svg
from nnet3.model.nnet import Nnet
from nnet3.model.nnet.unrolled import Frames, unrolled_graph
from tests.docs.doctest_page import DOCS, run_page
from tests.docs.svg_contents import svg_contents


def test_every_line_of_the_tutorial() -> None:
    assert run_page("tutorial.md") > 90


def test_the_part_on_learning_stands_alone() -> None:
    assert run_page("tutorial.md", heading="## Part 3") > 20


def test_the_picture_is_what_is_drawn_now() -> None:
    config = """
        component name=affine type=AffineComponent input-dim=4 output-dim=2
        component name=tanh type=TanhComponent dim=2
        input-node name=input dim=2
        component-node name=sum component=affine input=Append(input, IfDefined(Offset(h, -1)))
        component-node name=h component=tanh input=sum
        output-node name=output input=h objective=quadratic
    """
    drawn = to_svg(unrolled_graph(Nnet.from_config(config), Frames(0, 2, 0, 2)), use_graphviz=False)
    assert svg_contents((DOCS / "unrolled.svg").read_text()) == svg_contents(drawn)
