"""Holds our logits, loss and gradients against those of transformers' LlamaForCausalLM.

Usage: logits.py FOLDER [--gguf FILE | --original FOLDER] [--double]
FOLDER is what `compare_dump` wrote. With --gguf, transformers reads the weights from that file
itself instead of from our export, which checks our GGUF reader too; --original does the same for
a folder that transformers wrote and `compare_dump --from` read. With --double, transformers
computes in f64, which tells our rounding apart from its own.
"""

import argparse
import json
from pathlib import Path

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, LlamaForCausalLM

import formats


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gguf", type=Path)
    parser.add_argument("--original", type=Path)
    parser.add_argument("--double", action="store_true")
    arguments = parser.parse_args()
    model = load(arguments).eval()
    if arguments.double:
        model = model.double()
    expected = load_file(arguments.folder / "expected.safetensors")
    batch = formats.batches(arguments.folder / "batches.bin")[0]
    inputs, targets = batch[:, :-1], batch[:, 1:]
    logits = model(inputs).logits.flatten(0, 1)
    loss = torch.nn.functional.cross_entropy(logits, targets.flatten())
    loss.backward()
    names, worst = {}, (0.0, "")
    for name, parameter in model.named_parameters():
        ours = expected[f"gradient.{name}"]
        names[name] = (parameter.grad - ours).norm().item() / parameter.grad.norm().item()
        worst = max(worst, (names[name], name))
    theirs = torch.cat([p.grad.flatten() for p in model.parameters()])
    ours = torch.cat([expected[f"gradient.{n}"].flatten() for n, _ in model.named_parameters()])
    report = {
        "logits_max_abs_difference": (logits - expected["logits"]).abs().max().item(),
        "logits_max_abs": logits.abs().max().item(),
        "loss": loss.item(),
        "loss_ours": expected["loss"].item(),
        "gradient_relative_difference": ((ours - theirs).norm() / theirs.norm()).item(),
        "gradient_worst_tensor": worst[1],
        "gradient_worst_relative_difference": worst[0],
    }
    print(json.dumps(report, indent=2))
    close = report["logits_max_abs_difference"] < 1e-4
    if not (close and worst[0] < 1e-3):
        raise SystemExit("outside the bounds: 1e-4 for logits, 1e-3 for gradients")


def load(arguments: argparse.Namespace) -> torch.nn.Module:
    if arguments.original:
        return LlamaForCausalLM.from_pretrained(arguments.original, dtype=torch.float32)
    if arguments.gguf:
        folder, name = str(arguments.gguf.parent), arguments.gguf.name
        return AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
    model, info = LlamaForCausalLM.from_pretrained(
        arguments.folder / "model", output_loading_info=True
    )
    problems = {key: value for key, value in info.items() if value}
    if problems:
        raise SystemExit(f"transformers did not take the weights as they are: {problems}")
    return model


if __name__ == "__main__":
    main()
