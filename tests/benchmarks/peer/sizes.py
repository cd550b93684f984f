"""The models that PyTorch trains beside ddprun."""
import random

# Every dimension as in ddprun's presets of these names (core/ddprun/model/model_config.cpp).
SIZES = {
    "tiny": dict(vocab=10000, context=128, d_model=256, d_ff=1024, layers=4, heads=4, batch=4),
    "peer-small": dict(vocab=10000, context=256, d_model=512, d_ff=1344, layers=8, heads=8, batch=2),
    "laptop-70m": dict(vocab=32000, context=512, d_model=512, d_ff=1384, layers=12, heads=8, batch=1),
    "small": dict(vocab=10000, context=128, d_model=768, d_ff=3072, layers=12, heads=12, batch=4),
    "medium": dict(vocab=10000, context=128, d_model=1024, d_ff=4096, layers=24, heads=16, batch=4),
    "large": dict(vocab=10000, context=128, d_model=1280, d_ff=5120, layers=36, heads=20, batch=4),
    "xl-2025": dict(vocab=10000, context=128, d_model=1600, d_ff=6400, layers=48, heads=25, batch=4),
    "2.7B-2025": dict(vocab=10000, context=128, d_model=2560, d_ff=10240, layers=32, heads=32, batch=4),
}

DRAWN = "drawn-"


def drawn(seed):
    """A size that nobody tuned for, of some 500 tokens a rank: the same whenever this seed draws it."""
    draw = random.Random(seed)
    heads, head_dim = draw.randint(3, 9), draw.choice((32, 48, 64, 80, 96))
    d_model, context = heads * head_dim, draw.randrange(96, 385, 32)
    return dict(vocab=draw.randrange(4000, 24001, 500), context=context, d_model=d_model,
                d_ff=32 * round(d_model * draw.uniform(2.4, 4.0) / 32), layers=draw.randint(3, 9), heads=heads,
                batch=max(1, round(512 / context)))


def is_drawn(name):
    return name.startswith(DRAWN) and name[len(DRAWN):].isdigit()


def size_of(name):
    """Of a name of SIZES, or of "drawn-7": drawn by seed 7. ValueError: neither."""
    if is_drawn(name):
        return drawn(int(name[len(DRAWN):]))
    if name not in SIZES:
        raise ValueError(f"no size {name}; there are {', '.join(SIZES)}, and {DRAWN}SEED")
    return SIZES[name]
