"""The page docs/benchmarks.md: networks of recipes at full width, beside the same ones hand-written in PyTorch."""
