"""What every wing uses: text, options, index arithmetic, files of Kaldi, drawing, native code."""
