#!/usr/bin/env python3
"""How fast text becomes tokens, beside Hugging Face's tokenizers and tiktoken, on one core each, with one vocabulary.

    PYTHON tests/benchmarks/tokenizer_speed.py --program build/release/bin/ddprun --site .deps/beside-site TEXT...

PYTHON is one that the libraries in --site are for. Rounds in which the sides take turns: each encodes the texts line by line as they
are; ours is timed as a whole command on one core, the others in the library's call alone. Training beside tokenizers too. Medians.
"""
import argparse
import base64
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from helpers import byte_characters  # noqa: E402  pylint: disable=wrong-import-position


def timed(work):
    begin = time.monotonic()
    work()
    return time.monotonic() - begin


def ours(program, *words):
    return timed(lambda: subprocess.run(["taskset", "-c", "0", program, *map(str, words)], check=True, stdout=subprocess.DEVNULL))


def tiktoken_of(tiktoken, vocabulary):
    read = json.loads(vocabulary.read_text())
    bytes_of = {character: byte for byte, character in enumerate(byte_characters())}
    ranks = {bytes(bytes_of[c] for c in token): number for token, number in read["model"]["vocab"].items()}
    return tiktoken.Encoding("x", pat_str=read["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"], mergeable_ranks=ranks, special_tokens={})


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--site", required=True)
    parser.add_argument("--pattern", default="gpt2")
    parser.add_argument("--size", default="8000")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("texts", nargs="+")
    args = parser.parse_args()
    os.sched_setaffinity(0, {0})
    os.environ |= {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
    sys.path.insert(0, args.site)
    import tiktoken  # pylint: disable=import-outside-toplevel
    import tokenizers  # pylint: disable=import-outside-toplevel
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = "\n".join(Path(each).read_text(encoding="utf-8", errors="replace") for each in args.texts)
        (folder / "text").write_text(text, encoding="utf-8")
        size = len(text.encode())
        vocabulary = folder / "v.json"
        train = ("tokenizer", "train", "--size", args.size, "--pattern", args.pattern, "--out", vocabulary, folder / "text")
        ours(args.program, *train)
        library, ranks = tokenizers.Tokenizer.from_file(str(vocabulary)), tiktoken_of(tiktoken, vocabulary)
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=int(args.size), show_progress=False,
                                                 initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
        sides = {"ddprun tokenize": lambda: ours(args.program, "tokenize", "--vocab", vocabulary, "--out", folder / "out", folder / "text"),
                 "tiktoken encode": lambda: timed(lambda: ranks.encode_ordinary(text)),
                 "tokenizers encode": lambda: timed(lambda: library.encode(text)),
                 "ddprun tokenizer train": lambda: ours(args.program, *train),
                 "tokenizers train": lambda: timed(lambda: library_to_train(tokenizers).train([str(folder / "text")], trainer))}
        seconds = {side: [] for side in sides}
        for _ in range(args.runs):
            for side, work in sides.items():
                seconds[side].append(work())
    print(f"{size / 1e6:.1f} MB, {args.pattern}, {args.size} tokens, one core, medians of {args.runs}\n\n| side | s | MB/s |\n|---|---|---|")
    for side, values in seconds.items():
        median = statistics.median(values)
        print(f"| {side} | {median:.2f} | {size / 1e6 / median:.1f} |")


def library_to_train(tokenizers):
    out = tokenizers.Tokenizer(tokenizers.models.BPE())
    out.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return out


if __name__ == "__main__":
    main()
