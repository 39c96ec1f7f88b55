"""Trains transformers' LlamaForCausalLM from the same weights on the same batches as we did.

Usage: curve.py FOLDER
Prints both loss curves as JSON, with the largest relative difference.
"""

import json
import sys
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

import formats


def main() -> None:
    folder = Path(sys.argv[1])
    ours = formats.curve(folder / "curve.json")
    model = LlamaForCausalLM.from_pretrained(folder / "model").float().train()
    optimiser = formats.optimiser(model, ours)
    theirs = []
    batches = formats.batches(folder / "batches.bin")[: len(ours["loss"])]
    for batch, rate in zip(batches, ours["learning_rates"], strict=True):
        logits = model(batch[:, :-1]).logits.flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, batch[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), ours["clip"])
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
        theirs.append(loss.item())
    apart = [abs(a - b) / b for a, b in zip(ours["loss"], theirs, strict=True)]
    report = {
        "steps": len(theirs),
        "largest_relative_difference": max(apart),
        "at_step": apart.index(max(apart)),
        "first": [ours["loss"][0], theirs[0]],
        "last": [ours["loss"][-1], theirs[-1]],
        "ours": ours["loss"],
        "theirs": theirs,
    }
    print(json.dumps(report))
    if max(apart) > 0.005:
        raise SystemExit("outside the bound: 0.5 %")


if __name__ == "__main__":
    main()
