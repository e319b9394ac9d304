"""Writing a raw network: its nodes as config lines, then its components."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nnet3.kaldi_io import Writer
    from nnet3.nnet.network import Nnet


def write_nnet(nnet: Nnet, writer: Writer) -> None:
    """Write `<Nnet3> ... </Nnet3>`. The node lines are text in binary files too."""
    writer.token("<Nnet3>")
    writer.text_line("")
    for line in nnet.config_lines():
        writer.text_line(line)
    writer.text_line("")
    writer.token("<NumComponents>")
    writer.int32(len(nnet.components))
    writer.newline()
    for name, component in nnet.components.items():
        writer.token("<ComponentName>")
        writer.token(name)
        component.write_to(writer)
        writer.newline()
    writer.token("</Nnet3>")
