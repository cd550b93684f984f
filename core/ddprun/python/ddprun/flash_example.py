import importlib.util

if importlib.util.find_spec("torch") is None:
    sys.exit(f"this program needs torch, which {sys.executable} has not: {WITH_TORCH}")
import ddprun
import torch

q, k, v = (torch.randn(1, 8, 1024, 64, requires_grad=True) for _ in range(3))
out = ddprun.flash_attention(q, k, v, is_causal=True)
out.square().sum().backward()
expected = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
print(f"largest difference from scaled_dot_product_attention: {(out - expected).abs().max().item():.1e}")
print(f"gradient of q: {tuple(q.grad.shape)}")
