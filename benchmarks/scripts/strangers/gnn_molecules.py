"""
Graph property regression with a GIN written from scratch: message passing is
gather + paddle.geometric.segment_sum / scatter, mini batches are disjoint unions of graphs.
Every "molecule" is a ring of ring_size atoms with `branches` side atoms, so all
graphs have the same number of nodes and edges.
"""
import numpy as np
import paddle
import paddle.nn as nn

from dataclasses import dataclass


@dataclass
class Config:
    ring_size: int = 24
    branches: int = 12
    num_atom_types: int = 16
    num_bond_types: int = 4
    hidden: int = 128
    num_layers: int = 4
    dropout: float = 0.2
    n_graphs: int = 800
    lr: float = 1e-3
    max_steps: int = 10
    log_every: int = 2


NUM_GRAPHS_PER_BATCH = 64
cfg = Config()


def make_graph(rng, cfg):
    n = cfg.ring_size + cfg.branches
    ring = np.arange(cfg.ring_size)
    src = np.concatenate([ring, rng.choice(cfg.ring_size, cfg.branches, replace=False)])
    dst = np.concatenate([(ring + 1) % cfg.ring_size, cfg.ring_size + np.arange(cfg.branches)])
    edges = np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])])     # both directions
    atoms = rng.randint(0, cfg.num_atom_types, n)
    bonds = np.tile(rng.randint(0, cfg.num_bond_types, len(src)), 2)
    target = np.float32(np.sin(atoms).sum() + 0.1 * bonds.sum())
    return atoms, bonds, edges, target


def build_dataset(cfg, seed=0):
    rng = np.random.RandomState(seed)
    return [make_graph(rng, cfg) for _ in range(cfg.n_graphs)]


def batch_reader(graphs, batch_size, shuffle=True):
    order = np.random.permutation(len(graphs)) if shuffle else np.arange(len(graphs))
    for start in range(0, len(order) - batch_size + 1, batch_size):
        atoms, bonds, edges, graph_id, ys, offset = [], [], [], [], [], 0
        for g, idx in enumerate(order[start:start + batch_size]):
            a, b, e, y = graphs[idx]
            atoms.append(a)
            bonds.append(b)
            edges.append(e + offset)
            graph_id.append(np.full(len(a), g))
            ys.append(y)
            offset += len(a)
        edges = np.concatenate(edges, axis=1)
        bonds = np.concatenate(bonds)
        by_dst = np.argsort(edges[1], kind='stable')    # segment_sum wants sorted ids
        yield (np.asarray(ys, dtype='float32')[:, None], np.concatenate(atoms).astype('int64'),
               bonds[by_dst].astype('int64'), edges[:, by_dst].astype('int64'),
               np.concatenate(graph_id).astype('int64'))


class GINLayer(nn.Layer):
    def __init__(self, hidden, num_bond_types, dropout):
        super().__init__()
        self.bond_emb = nn.Embedding(num_bond_types, hidden)
        self.eps = self.create_parameter([1], default_initializer=nn.initializer.Constant(0.0))
        self.mlp = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.BatchNorm1D(2 * hidden), nn.ReLU(),
                                 nn.Linear(2 * hidden, hidden))
        self.norm = nn.BatchNorm1D(hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, h, bonds, src, dst):
        msg = nn.functional.relu(paddle.gather(h, src) + self.bond_emb(bonds))
        agg = paddle.geometric.segment_sum(msg, dst)
        out = self.mlp((1 + self.eps) * h + agg)
        return h + self.dropout(nn.functional.relu(self.norm(out)))


class VirtualNode(nn.Layer):
    def __init__(self, hidden):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())

    def forward(self, h, graph_id, num_graphs):
        pool = paddle.zeros([num_graphs, h.shape[1]])
        pool = paddle.scatter(pool, graph_id, h, overwrite=False)
        return h + paddle.gather(self.fc(pool), graph_id)


class GIN(nn.Layer):
    def __init__(self, cfg):
        super().__init__()
        self.atom_emb = nn.Embedding(cfg.num_atom_types, cfg.hidden)
        self.layers = nn.LayerList([GINLayer(cfg.hidden, cfg.num_bond_types, cfg.dropout)
                                    for _ in range(cfg.num_layers)])
        self.virtual = VirtualNode(cfg.hidden)
        self.readout = nn.Sequential(nn.Linear(2 * cfg.hidden, cfg.hidden), nn.ReLU(), nn.Linear(cfg.hidden, 1))

    def forward(self, atoms, bonds, edges, graph_id, num_graphs):
        src, dst = edges[0], edges[1]
        h = self.atom_emb(atoms)
        for i, layer in enumerate(self.layers):
            h = layer(h, bonds, src, dst)
            if i == 1:
                h = self.virtual(h, graph_id, num_graphs)
        pooled = paddle.concat([paddle.geometric.segment_mean(h, graph_id),
                                paddle.geometric.segment_max(h, graph_id)], axis=1)
        return self.readout(pooled)


if __name__ == '__main__':
    paddle.seed(42)
    np.random.seed(42)
    graphs = build_dataset(cfg)
    ys = np.array([g[3] for g in graphs])
    mu, sd = float(ys.mean()), float(ys.std())

    net = GIN(cfg)
    opt = paddle.optimizer.Adam(cfg.lr, parameters=net.parameters())
    mse = nn.MSELoss()
    step = 0
    net.train()
    for y, atoms, bonds, edges, gid in batch_reader(graphs, NUM_GRAPHS_PER_BATCH):
        pred = net(paddle.to_tensor(atoms), paddle.to_tensor(bonds), paddle.to_tensor(edges),
                   paddle.to_tensor(gid), y.shape[0])
        loss = mse(pred, (paddle.to_tensor(y) - mu) / sd)
        loss.backward()
        opt.step()
        opt.clear_grad()
        step += 1
        if step % cfg.log_every == 0:
            print(f'step {step:3d}  mse {loss.item():.4f}  nodes {atoms.shape[0]}  edges {edges.shape[1]}')
        if step >= cfg.max_steps:
            break
