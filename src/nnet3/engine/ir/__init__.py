"""The intermediate representation: commands on sub-matrices, how they are printed, checked, analysed and rewritten."""
