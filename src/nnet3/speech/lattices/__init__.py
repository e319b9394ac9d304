"""Operations on lattices: determinization, composition, rescoring, best paths, times and confidences of words."""
