"""Lets transformers write a small model with everything that differs from our presets.

Usage: tiny.py FOLDER [--dtype float32|float16|bfloat16]
Grouped queries, a head of its own, another base of the angles and another epsilon.
"""

import argparse

import torch
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("folder")
parser.add_argument("--dtype", default="float32")
arguments = parser.parse_args()
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=300,
    hidden_size=64,
    intermediate_size=176,
    num_hidden_layers=3,
    num_attention_heads=8,
    num_key_value_heads=2,
    max_position_embeddings=64,
    tie_word_embeddings=False,
    rope_theta=50000.0,
    rms_norm_eps=1e-6,
    initializer_range=0.1,
)
model = LlamaForCausalLM(config).to(getattr(torch, arguments.dtype))
model.save_pretrained(arguments.folder)
