"""A plain Llama decoder, written for speed in eager PyTorch; see README.md for why it is not
transformers' own."""

import torch
import torch.nn.functional as F
from torch import nn

# As in protocol/src/genesis/model.rs: vocab, width, layers, heads, kv heads, hidden, context, tied.
PRESETS = {
    "nano": (256, 128, 4, 4, 4, 512, 128, True),
    "micro": (256, 256, 6, 8, 8, 768, 256, True),
    "mini": (256, 512, 10, 8, 8, 1280, 512, True),
    "small": (32_000, 768, 14, 12, 12, 2048, 1024, True),
    "1b": (32_000, 2048, 22, 32, 4, 5632, 2048, False),
}


class Attention(nn.Module):
    """One projection for queries, keys and values together, and PyTorch's fused attention."""

    def __init__(self, width: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.side = heads, kv_heads, width // heads
        self.project = nn.Linear(width, (heads + 2 * kv_heads) * self.side, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        rows, sequence, width = x.shape
        heads, kv_heads = self.heads, self.kv_heads
        x = self.project(x).view(rows, sequence, heads + 2 * kv_heads, self.side).transpose(1, 2)
        turning, value = x.split((heads + kv_heads, kv_heads), dim=1)
        # Queries and keys turn in one go.
        first, second = turning.chunk(2, dim=-1)
        turned = torch.cat((-second, first), dim=-1)
        query, key = (turning * cosines + turned * sines).split((heads, kv_heads), dim=1)
        grouped = heads != kv_heads
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=grouped)
        return self.output(mixed.transpose(1, 2).reshape(rows, sequence, width))


class Block(nn.Module):
    def __init__(self, width: int, heads: int, kv_heads: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.attention_norm = nn.RMSNorm(width, eps=1e-5)
        self.attention = Attention(width, heads, kv_heads)
        self.feed_norm = nn.RMSNorm(width, eps=1e-5)
        self.gate_up = nn.Linear(width, 2 * hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x: torch.Tensor, cosines: torch.Tensor, sines: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.attention_norm(x), cosines, sines)
        gate, up = self.gate_up(self.feed_norm(x)).split(self.hidden, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Llama(nn.Module):
    def __init__(self, preset: str) -> None:
        super().__init__()
        vocab, width, layers, heads, kv_heads, hidden, context, tied = PRESETS[preset]
        self.context, self.vocab = context, vocab
        self.embedding = nn.Embedding(vocab, width)
        self.blocks = nn.ModuleList(Block(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = nn.RMSNorm(width, eps=1e-5)
        self.head = nn.Linear(width, vocab, bias=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        if tied:
            self.head.weight = self.embedding.weight
        side = width // heads
        frequencies = 10_000.0 ** -(torch.arange(0, side, 2) / side)
        angles = torch.outer(torch.arange(context).float(), frequencies).repeat(1, 2)
        self.register_buffer("cosines", angles.cos())
        self.register_buffer("sines", angles.sin())

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        sequence = tokens.shape[1]
        cosines, sines = self.cosines[:sequence], self.sines[:sequence]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cosines, sines)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())
