"""Trains transformers' LlamaForCausalLM from the same weights on the same batches as we did.

Usage: curve.py FOLDER [--control]
Prints both loss curves as JSON, with the largest relative difference. With --control, PyTorch
trains a second time in f64: how far its own f32 curve leaves that one is what rounding alone
does on these batches, and our distance can be judged against it.
"""

import argparse
import json
from pathlib import Path

import torch
from transformers import LlamaForCausalLM

import formats

BOUND = 0.005


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--control", action="store_true")
    arguments = parser.parse_args()
    ours = formats.curve(arguments.folder / "curve.json")
    single = train(arguments.folder, ours, torch.float32)
    report = {"steps": len(single), "ours_against_f32": apart(ours["loss"], single)}
    if arguments.control:
        double = train(arguments.folder, ours, torch.float64)
        report["ours_against_f64"] = apart(ours["loss"], double)
        report["f32_against_f64"] = apart(single, double)
        report["f64"] = double
    print(json.dumps({**report, "ours": ours["loss"], "f32": single}))
    if report["ours_against_f32"]["largest"] > BOUND:
        raise SystemExit("outside the bound: 0.5 %")


def train(folder: Path, settings: dict, dtype: torch.dtype) -> list[float]:
    model = LlamaForCausalLM.from_pretrained(folder / "model").to(dtype).train()
    optimiser = formats.optimiser(model, settings)
    batches = formats.batches(folder / "batches.bin")[: len(settings["loss"])]
    losses = []
    for batch, rate in zip(batches, settings["learning_rates"], strict=True):
        logits = model(batch[:, :-1]).logits.flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, batch[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings["clip"])
        for group in optimiser.param_groups:
            group["lr"] = rate
        optimiser.step()
        losses.append(loss.item())
    return losses


def apart(one: list[float], other: list[float]) -> dict:
    differences = [abs(a - b) / b for a, b in zip(one, other, strict=True)]
    largest = max(differences)
    return {
        "largest": largest,
        "at_step": differences.index(largest),
        "mean": sum(differences) / len(differences),
        "steps_over_bound": sum(it > BOUND for it in differences),
        "first_over_1e-5": next((i for i, it in enumerate(differences) if it > 1e-5), None),
    }


if __name__ == "__main__":
    main()
