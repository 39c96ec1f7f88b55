"""Tokens per second of PyTorch training a preset's shape. Prints one JSON object.

Usage: speed.py --preset nano [--rows 8] [--sequence N] [--threads 2] [--seconds 20]
                [--compile] [--bf16] [--processes 2]
With --processes N, N processes of one thread each train on their share of the rows without
exchanging gradients, and their speeds are added: more than real data parallelism could reach.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time


def main() -> None:
    arguments = parse()
    print(json.dumps(parallel(arguments) if arguments.processes > 1 else single(arguments)))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--preset", default="nano")
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--sequence", type=int)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--bf16", action="store_true", help="products in bf16, by autocast")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--wait", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def single(arguments: argparse.Namespace) -> dict:
    import torch

    from llama import Llama

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    plain = Llama(arguments.preset)
    model = torch.compile(plain) if arguments.compile else plain
    sequence = arguments.sequence or plain.context
    groups = [
        {"params": [p for p in plain.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in plain.parameters() if p.dim() == 1], "weight_decay": 0.0},
    ]
    optimiser = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), fused=True)
    batches = torch.randint(plain.vocab, (16, arguments.rows, sequence + 1))

    def step(index: int) -> float:
        batch = batches[index % len(batches)]
        with torch.autocast("cpu", torch.bfloat16, enabled=arguments.bf16):
            loss = model(batch[:, :-1], batch[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        return loss.item()

    for index in range(3):
        step(index)
    if arguments.wait:
        # The processes of one measurement begin together, when all have compiled and warmed up.
        print("ready", flush=True)
        sys.stdin.readline()
    times, begin = [], time.perf_counter()
    while time.perf_counter() - begin < arguments.seconds or len(times) < 5:
        start = time.perf_counter()
        loss = step(len(times))
        times.append(time.perf_counter() - start)
    tokens = arguments.rows * sequence
    return {
        "tokens_per_second": tokens * len(times) / sum(times),
        "median_tokens_per_second": tokens / statistics.median(times),
        "steps": len(times),
        "loss": loss,
        "parameters": sum(p.numel() for p in plain.parameters()),
        "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "torch": torch.__version__,
    }


def parallel(arguments: argparse.Namespace) -> dict:
    count = arguments.processes
    if arguments.rows % count:
        raise SystemExit(f"{arguments.rows} rows cannot be shared by {count} processes")
    command = [sys.executable, __file__, "--preset", arguments.preset, "--threads", "1", "--wait"]
    command += ["--rows", str(arguments.rows // count), "--seconds", str(arguments.seconds)]
    if arguments.sequence:
        command += ["--sequence", str(arguments.sequence)]
    command += [flag for flag in ("--compile", "--bf16") if getattr(arguments, flag[2:])]
    pipe = subprocess.PIPE
    children = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) for _ in range(count)]
    for child in children:
        child.stdout.readline()
    for child in children:
        child.stdin.write("go\n")
        child.stdin.flush()
    results = [json.loads(child.communicate()[0]) for child in children]
    total = {key: sum(result[key] for result in results) for key in SUMMED}
    return {**results[0], **total, "processes": count}


SUMMED = ("tokens_per_second", "median_tokens_per_second", "peak_rss_bytes")

if __name__ == "__main__":
    main()
