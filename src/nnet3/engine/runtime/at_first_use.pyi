from nnet3.engine.runtime.link_proof import LinkProof as LinkProof
from nnet3.engine.runtime.proof import MEANINGS as MEANINGS, prove_plan as prove_plan
