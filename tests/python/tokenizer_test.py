"""Our tokenizer beside Hugging Face's tokenizers and tiktoken, on MEGABYTES (2; of the environment) of mixed text. Arguments: the command ddprun, the folder of
PyTorch's virtual environment (whose Python tiktoken is for), the folder of the libraries. Exit status 77: skipped, with the reason."""
import array
import base64
import functools
import json
import os
import random
import subprocess
import sys
import unittest
from pathlib import Path

from helpers import byte_characters, fetched, imported, own_folder

PROGRAM, SITE = sys.argv[1], sys.argv[3]
sys.path.insert(0, SITE)
tiktoken = imported("tiktoken", sys.argv[2])  # None: it is for another Python than this one
tokenizers = fetched("tokenizers", SITE)

END = "<|endoftext|>"
SCRIPTS = [(0x20, 0x7E), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A), (0x900, 0x97F), (0xE00, 0xE3A),
           (0x3041, 0x30FF), (0x4E00, 0x9FA5), (0xAC00, 0xD7A3), (0x1F600, 0x1F64F), (0x300, 0x36F), (0x2000, 0x206F), (0x85, 0xA0)]
CODE = "def f(x):\n    return x ** 2  # it's 12345\n\n\tif (a != b) {\r\n  printf(\"%d\\n\", 0x1F); }\r\n"
PROSE = "It's the DON'T of WE'LL, they'd've said; 3.14159 or 1,000,000 -- naïve café   \n\n\n  and so on...  "


def mixed(size, seed):
    """Code, prose, words of many scripts, emoji, combining marks, runs of white space, digits."""
    dice, parts, length = random.Random(seed), [], 0
    spaces = [" ", "  ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0", "\u0085", "\u3000", "   \n"]
    while length < size:
        drawn = dice.random()
        if drawn < 0.1:
            part = dice.choice((CODE, PROSE, PROSE.upper()))
        elif drawn < 0.3:
            part = dice.choice(spaces)
        elif drawn < 0.4:
            part = str(dice.randrange(10 ** dice.randrange(1, 9)))
        elif drawn < 0.41:
            part = END
        else:
            low, high = dice.choice(SCRIPTS)
            part = dice.choice(("", " ", "'")) + "".join(chr(dice.randint(low, high)) for _ in range(dice.randrange(1, 9)))
        parts.append(part)
        length += len(part.encode())
    return "".join(parts)


def ddprun(*words):
    done = subprocess.run([PROGRAM, *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)
    return done.stdout


class Tokenizer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = own_folder(cls)
        cls.text = mixed(int(os.environ.get("MEGABYTES", "2")) * 1_000_000, 1)
        cls.write("text", cls.text)
        cls.write("some", mixed(400_000, 2))

    @classmethod
    def write(cls, name, text):
        (cls.folder / name).write_bytes(text.encode())

    @classmethod
    def ours(cls, vocabulary, *options):
        ddprun("tokenize", "--vocab", vocabulary, "--out", cls.folder / "out.bin", *options, cls.folder / "text")
        return array.array("H", (cls.folder / "out.bin").read_bytes()).tolist()

    @classmethod
    @functools.cache
    def trained(cls, pattern):
        """The file of a vocabulary, and the tokens of the text."""
        file = cls.folder / f"{pattern}.json"
        ddprun("tokenizer", "train", "--size", 3000, "--special", END, "--pattern", pattern, "--out", file, cls.folder / "some")
        return file, cls.ours(file)

    def assert_same(self, ours, theirs):
        """A difference of millions takes unittest hours to show."""
        if ours == theirs:
            return
        at = next((i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b), min(len(ours), len(theirs)))
        self.fail(f"{len(ours)} and {len(theirs)} tokens differ from number {at} on: {ours[at:at + 5]} and {theirs[at:at + 5]}")

    def test_hugging_faces_library_reads_ours_and_encodes_alike(self):
        for pattern in ("gpt2", "cl100k", "o200k"):
            with self.subTest(pattern=pattern):
                file, ours = self.trained(pattern)
                theirs = tokenizers.Tokenizer.from_file(str(file))
                self.assertEqual(theirs.get_vocab_size(), 3000)
                self.assert_same(ours, theirs.encode(self.text).ids)
                self.assertTrue(theirs.decode(ours, skip_special_tokens=False) == self.text)

    @unittest.skipIf(tiktoken is None, "tiktoken is for another Python")
    def test_tiktoken_encodes_alike(self):
        for pattern in ("gpt2", "cl100k", "o200k"):
            with self.subTest(pattern=pattern):
                file, ours = self.trained(pattern)
                read = json.loads(file.read_text())
                bytes_of = {character: byte for byte, character in enumerate(byte_characters())}
                ranks = {bytes(bytes_of[c] for c in token): number for token, number in read["model"]["vocab"].items()}
                split = read["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"]
                theirs = tiktoken.Encoding("test", pat_str=split, mergeable_ranks=ranks, special_tokens={END: 2999})
                expected = theirs.encode(self.text, allowed_special="all")
                self.assert_same(ours, expected)
                lines = "".join(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
                self.write("ranks.tiktoken", lines)
                plain = theirs.encode(self.text.replace(END, ""))
                self.write("text", self.text.replace(END, ""))
                try:
                    self.assert_same(self.ours(self.folder / "ranks.tiktoken", "--pattern", pattern), plain)
                finally:
                    self.write("text", self.text)

    def test_we_read_what_the_library_trains(self):
        theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
        theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        theirs.decoder = tokenizers.decoders.ByteLevel()
        trainer = tokenizers.trainers.BpeTrainer(vocab_size=2000, special_tokens=[END], show_progress=False,
                                                 initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
        theirs.train([str(self.folder / "some")], trainer)
        theirs.save(str(self.folder / "theirs.json"))
        self.assert_same(self.ours(self.folder / "theirs.json"), theirs.encode(self.text).ids)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
