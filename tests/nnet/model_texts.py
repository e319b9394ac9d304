"""Small models in Kaldi's text form, to be damaged, and the same in binary spelt out byte by byte."""

# ruff: noqa: W291 (Kaldi writes a blank at the end of most lines)

from __future__ import annotations

RAW_TEXT = """<Nnet3> 
input-node name=input dim=2
component-node name=aff component=aff.c input=input
output-node name=output input=aff objective=quadratic

<NumComponents> 1 
<ComponentName> aff.c <NaturalGradientAffineComponent> <MaxChange> 0.75 <LearningRate> 0.001 <LinearParams>  [
  0.5 -0.25 ]
<BiasParams>  [ 1 ]
<RankIn> 1 <RankOut> 1 <UpdatePeriod> 4 <NumSamplesHistory> 2000 <Alpha> 4 </NaturalGradientAffineComponent> 
</Nnet3> """

RAW_BINARY = (
    b"\0B<Nnet3> \n"
    b"input-node name=input dim=2\n"
    b"component-node name=aff component=aff.c input=input\n"
    b"output-node name=output input=aff objective=quadratic\n\n"
    b"<NumComponents> \x04\x01\0\0\0"
    b"<ComponentName> aff.c <NaturalGradientAffineComponent> "
    b"<MaxChange> \x04\0\0\x40\x3f<LearningRate> \x04\x6f\x12\x83\x3a"
    b"<LinearParams> FM \x04\x01\0\0\0\x04\x02\0\0\0\0\0\0\x3f\0\0\x80\xbe"
    b"<BiasParams> FV \x04\x01\0\0\0\0\0\x80\x3f"
    b"<RankIn> \x04\x01\0\0\0<RankOut> \x04\x01\0\0\0<UpdatePeriod> \x04\x04\0\0\0"
    b"<NumSamplesHistory> \x04\0\0\xfa\x44<Alpha> \x04\0\0\x80\x40"
    b"</NaturalGradientAffineComponent> </Nnet3> "
)

TRANSITIONS_TEXT = """<TransitionModel> 
<Topology> 
<TopologyEntry> 
<ForPhones> 
1 3 
</ForPhones> 
<State> 0 <PdfClass> 0 <Transition> 0 0.75 <Transition> 1 0.25 </State> 
<State> 1 <PdfClass> 1 <Transition> 1 0.5 <Transition> 2 0.5 </State> 
<State> 2 </State> 
</TopologyEntry> 
</Topology> 
<Triples> 3 
1 0 0 
1 1 1 
3 0 2 
</Triples> 
<LogProbs> 
 [ 0 -0.25 -1.5 -0.75 -0.75 -0.25 -1.5 ]
</LogProbs> 
</TransitionModel> 
"""

CHAIN_TRANSITIONS_TEXT = """<TransitionModel> 
<Topology> 
<TopologyEntry> 
<ForPhones> 
2 
</ForPhones> 
<State> 0 <ForwardPdfClass> 0 <SelfLoopPdfClass> 1 <Transition> 0 0.5 <Transition> 1 0.5 </State> 
<State> 1 </State> 
</TopologyEntry> 
</Topology> 
<Tuples> 2 
2 0 0 1 
2 0 4 1 
</Tuples> 
<LogProbs> 
 [ 0 -0.5 -1 -0.5 -1 ]
</LogProbs> 
</TransitionModel> 
"""

CONTEXTS_TEXT = "<LeftContext> 0 <RightContext> 0 <Priors>  [ 0.5 ]\n"
MDL_TEXT = TRANSITIONS_TEXT + RAW_TEXT + CONTEXTS_TEXT
