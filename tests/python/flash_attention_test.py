"""torch.ops.ddprun.flash_attention as a program in Python uses it. Arguments: the folder of the package ddprun, the folder of
PyTorch's virtual environment. Exit status 77: skipped, with the reason."""
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from helpers import torch_or_skip

FOLDER = Path(sys.argv[1])
torch = torch_or_skip(sys.argv[2])
sys.path.insert(0, str(FOLDER))
try:
    from ddprun import flash
except ImportError as refusal:
    print(f"skipped: {refusal}")
    sys.exit(77)


def attention(q, k, v, is_causal, scale=None):
    """In float64 and by definition. Returns the output and the log-sum-exp of the scores."""
    scores = q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        sees = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril()
        scores = scores.masked_fill(~sees, float("-inf"))
    return scores.softmax(-1) @ v, scores.logsumexp(-1)


def inputs(shape, keys, dtype):
    generator = torch.Generator().manual_seed(7)
    sizes = (shape, (*shape[:-2], keys, shape[-1]), (*shape[:-2], keys, shape[-1]))
    return [torch.randn(size, generator=generator).to(dtype).requires_grad_() for size in sizes]


def largest(actual, expected):
    return ((actual.double() - expected).abs().max() / expected.abs().max()).item()


SHAPES = [((2, 3, 65, 20), 65), ((1, 1, 130, 64), 200), ((3, 40, 16), 70), ((1, 7, 8), 7)]


class FlashAttention(unittest.TestCase):
    def compare(self, function, shape, keys, dtype, is_causal, bound):
        tensors = inputs(shape, keys, dtype)
        exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
        out = function(*tensors, is_causal)
        expected, _ = attention(*exact, is_causal)
        self.assertEqual(out.dtype, dtype)
        gradient = torch.randn(out.shape, generator=torch.Generator().manual_seed(8)).to(dtype)
        out.backward(gradient)
        expected.backward(gradient.double())
        self.assertLess(largest(out.detach(), expected.detach()), bound)
        for ours, theirs in zip(tensors, exact):
            self.assertLess(largest(ours.grad, theirs.grad), bound)

    def test_output_and_gradients_are_those_of_float64(self):
        for shape, keys in SHAPES:
            for is_causal in (False, True):
                for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 3e-2)):
                    for function in (flash.flash_attention, flash.FlashAttention.apply):
                        with self.subTest(shape=shape, keys=keys, is_causal=is_causal, dtype=dtype, function=function):
                            self.compare(function, shape, keys, dtype, is_causal, bound)

    def test_scale_is_a_factor_of_the_scores(self):
        q, k, v = (tensor.detach() for tensor in inputs((1, 2, 33, 16), 33, torch.float32))
        out = flash.flash_attention(q, k, v, scale=0.7)
        self.assertLess(largest(out, attention(q.double(), k.double(), v.double(), False, 0.7)[0]), 1e-5)

    def test_python_sees_one_saved_tensor_of_batch_and_queries(self):
        q, k, v = inputs((4, 128, 64), 128, torch.float32)
        out = flash.FlashAttention.apply(q, k, v, True)
        sums = [tensor for tensor in out.grad_fn.saved_tensors if tensor.shape == (4, 128)]
        self.assertEqual(len(sums), 1)
        self.assertLess(largest(sums[0], attention(q.detach().double(), k.detach().double(), v.detach().double(), True)[1]), 1e-5)

    def test_torch_finds_the_operators_well_made(self):
        q, k, v = inputs((2, 3, 40, 16), 40, torch.float32)
        torch.library.opcheck(flash.flash_attention.default, (q, k, v, True))
        plain = [tensor.detach() for tensor in (q, k, v)]
        torch.library.opcheck(flash.flash_attention_forward.default, (*plain, True))

    def test_bad_tensors_are_refused_in_words(self):
        q, k, v = (tensor.detach() for tensor in inputs((2, 3, 40, 16), 40, torch.float32))
        for arguments, words in (((q[0, 0], k, v), "or \\(batch, queries, width\\)"),
                                 ((q, k[..., :8], v[..., :8]), "differ in their number of rows alone"),
                                 ((q, k, v[:, :, :3]), "k and v must have one shape"),
                                 ((q.double(), k.double(), v.double()), "not in Double"),
                                 ((q, k.bfloat16(), v), "one dtype"),
                                 ((q, k[:, :, :0], v[:, :, :0]), "at least one key"),
                                 ((q, k, v, False, -1.0), "scale must be positive")):
            with self.subTest(words=words), self.assertRaisesRegex(RuntimeError, words):
                flash.flash_attention(*arguments)

    def test_second_derivatives_are_refused(self):
        q, k, v = inputs((1, 8, 8), 8, torch.float32)
        with self.assertRaisesRegex(RuntimeError, "no second derivatives"):
            torch.autograd.grad(flash.flash_attention(q, k, v).sum(), q, create_graph=True)

    def test_a_second_copy_of_the_library_does_no_harm(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = shutil.copy(flash.LIBRARY, Path(folder) / "libcopy.so")
            torch.ops.load_library(copy)
        self.test_scale_is_a_factor_of_the_scores()

    def test_another_torch_is_refused_before_the_library_is_loaded(self):
        program = f"import sys, torch; sys.path.insert(0, {str(FOLDER)!r}); torch.__version__ = '1.13.0'; import ddprun.flash"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("was built for torch", done.stderr)
        self.assertIn("this is torch 1.13.0", done.stderr)

    def test_there_is_one_openmp_runtime(self):
        self.assertEqual(len(flash.openmp_runtimes()), 1, flash.openmp_runtimes())

    def test_what_ddprun_describes_runs(self):
        program = FOLDER.parents[2] / "bin/ddprun"
        text = subprocess.run([program, "describe", "flash", "--python"], capture_output=True, text=True, check=True).stdout
        done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
        self.assertRegex(done.stdout, r"largest difference from scaled_dot_product_attention: \d\.\de-0[5-9]")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
