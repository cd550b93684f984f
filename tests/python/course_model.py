"""The course's transformer (docs/model_and_data.md) in plain PyTorch, with the names that a checkpoint has."""
import torch
import torch.nn.functional as F
from torch import nn


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, 1e-5)


def linear(inputs, outputs):
    return nn.Linear(inputs, outputs, bias=False)


def rotate(x, angle):
    even, odd = x.unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((even * angle.cos() - odd * angle.sin(), even * angle.sin() + odd * angle.cos()), -1).flatten(-2)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (linear(width, width) for _ in range(4))

    def forward(self, x):
        q, k, v = (each(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for each in (self.q_proj, self.k_proj, self.v_proj))
        size = q.shape[-1]
        angle = torch.arange(x.shape[1])[:, None] * 10000.0 ** (-torch.arange(0, size, 2) / size)
        y = F.scaled_dot_product_attention(rotate(q, angle), rotate(k, angle), v, is_causal=True)
        return self.output_proj(y.transpose(1, 2).flatten(-2))


class FeedForward(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.w1, self.w3, self.w2 = linear(width, inner), linear(width, inner), linear(inner, width)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, width, inner, heads):
        super().__init__()
        self.ln1, self.attn = Norm(width), Attention(width, heads)
        self.ln2, self.ffn = Norm(width), FeedForward(width, inner)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.ffn(self.ln2(x))


class Transformer(nn.Module):
    def __init__(self, vocabulary, width, inner, layers, heads):
        super().__init__()
        self.token_embeddings = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Block(width, inner, heads) for _ in range(layers))
        self.ln_final, self.lm_head = Norm(width), linear(width, vocabulary)

    def loss(self, ids, targets):
        x = self.token_embeddings(ids)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.lm_head(self.ln_final(x)).flatten(0, 1), targets.flatten())
