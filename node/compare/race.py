"""Alternates our trainer with PyTorch and prints the ratio of every round and the medians.

Usage: race.py [--presets nano micro mini] [--rivals eager compile processes one busy bf16 ...]
               [--rounds 5] [--seconds 20] -- COMMAND...
COMMAND runs our bench: it prints one JSON object with tokens_per_second and peak_rss_bytes (as
its last line of output), and {preset}, {threads}, {rows} and {seconds} in it are replaced.
The side that begins alternates too, so that a machine that slows down favours nobody.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

# Per rival: our threads, PyTorch's arguments, and whether a foreign thread is busy meanwhile.
RIVALS = {
    "eager": (2, ["--threads", "2"], False),
    "compile": (2, ["--threads", "2", "--compile"], False),
    "processes": (2, ["--processes", "2"], False),
    "one": (1, ["--threads", "1"], False),
    "busy": (2, ["--threads", "2"], True),
    "bf16": (2, ["--threads", "2", "--bf16"], False),
    "bf16-processes": (2, ["--processes", "2", "--bf16"], False),
    "bf16-busy": (2, ["--threads", "2", "--bf16"], True),
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--presets", nargs="+", default=["nano", "micro", "mini"])
    parser.add_argument("--rivals", nargs="+", default=list(RIVALS), choices=list(RIVALS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("command", nargs="+")
    arguments = parser.parse_args()
    for preset in arguments.presets:
        for rival in arguments.rivals:
            race(arguments, preset, rival)


def race(arguments: argparse.Namespace, preset: str, rival: str) -> None:
    threads, options, busy = RIVALS[rival]
    rows, seconds = str(arguments.rows), str(arguments.seconds)
    values = {"preset": preset, "threads": str(threads), "rows": rows, "seconds": seconds}
    ours = [fill(word, values) for word in arguments.command]
    speed = str(Path(__file__).with_name("speed.py"))
    theirs = [sys.executable, speed, "--preset", preset, "--rows", rows, "--seconds", seconds]
    theirs += options
    rounds = []
    for number in range(arguments.rounds):
        sides = [("ours", ours), ("torch", theirs)]
        if number % 2:
            sides.reverse()
        result = {name: measured(command, busy) for name, command in sides}
        result = dict(sorted(result.items()))
        result["ratio"] = result["ours"]["tokens_per_second"] / result["torch"]["tokens_per_second"]
        result["memory_ratio"] = result["ours"]["peak_rss_bytes"] / result["torch"]["peak_rss_bytes"]
        rounds.append(result)
        print(json.dumps({"preset": preset, "rival": rival, "round": number + 1, **result}))
        sys.stdout.flush()
    median = {
        "preset": preset,
        "rival": rival,
        "median_ratio": statistics.median(it["ratio"] for it in rounds),
        "ratios": [round(it["ratio"], 3) for it in rounds],
        "median_ours": statistics.median(it["ours"]["tokens_per_second"] for it in rounds),
        "median_torch": statistics.median(it["torch"]["tokens_per_second"] for it in rounds),
        "median_memory_ratio": statistics.median(it["memory_ratio"] for it in rounds),
    }
    print(json.dumps(median), flush=True)


def fill(word: str, values: dict) -> str:
    for key, value in values.items():
        word = word.replace("{" + key + "}", value)
    return word


def measured(command: list[str], busy: bool) -> dict:
    foreign = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
    try:
        run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    finally:
        if foreign:
            foreign.kill()
            foreign.wait()
    if run.returncode:
        raise SystemExit(f"{command} ended with {run.returncode}")
    return json.loads(run.stdout.strip().splitlines()[-1])


if __name__ == "__main__":
    main()
