"""The files that `compare_dump` writes, as README.md describes them."""

import json
from pathlib import Path

import numpy
import torch


def batches(path: Path) -> torch.Tensor:
    """All batches as [count, rows, sequence + 1] tokens."""
    raw = path.read_bytes()
    if raw[:8] != b"ATOLLBAT":
        raise SystemExit(f"{path}: no batches file")
    version, count, rows, sequence = numpy.frombuffer(raw, "<u4", 4, 8).tolist()
    if version != 1:
        raise SystemExit(f"{path}: version {version}, not 1")
    tokens = numpy.frombuffer(raw, "<u4", offset=24).astype("int64")
    return torch.from_numpy(tokens.reshape(count, rows, sequence + 1))


def curve(path: Path) -> dict:
    """Our loss curve and the settings it was trained with."""
    return json.loads(path.read_text())


def optimiser(model: torch.nn.Module, settings: dict) -> torch.optim.AdamW:
    """AdamW as ours: only tensors of two dimensions decay."""
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": settings["weight_decay"]},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(
        groups,
        betas=(settings["beta1"], settings["beta2"]),
        eps=settings["epsilon"],
        fused=True,
    )
