"""Running networks over utterances, one or many, and over streams of frames: outputs, one vector, scores of them."""
