from .archs import *
from .data import build_dataloader
from .loss import build_loss
from .optim import build_optimizer
