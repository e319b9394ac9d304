"""Recognizers: from audio to words with a model directory of Vosk or Kaldi."""
