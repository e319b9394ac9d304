"""Layers with restricted self-attention."""

from __future__ import annotations

from nnet3.model.xconfig.layers import attention
from tests.xconfig.layer_contract import layer_contract

TestAttention = layer_contract(attention)
