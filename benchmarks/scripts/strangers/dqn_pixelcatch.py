"""Double DQN on a tiny 'catch the ball' game played from stacked 42x42 frames."""
import argparse

import numpy as np
import paddle
import paddle.nn as nn
import paddle.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--memory_size", type=int, default=600)
parser.add_argument("--warmup", type=int, default=300, help="random transitions before learning")
parser.add_argument("--updates", type=int, default=12)
parser.add_argument("--target_every", type=int, default=5)
parser.add_argument("--gamma", type=float, default=0.97)
parser.add_argument("--lr", type=float, default=3e-4)
args = parser.parse_args()

SIZE, STACK, N_ACT = 42, 4, 3


class CatchEnv:
    def __init__(self, seed=0):
        self.rng = np.random.RandomState(seed)

    def reset(self):
        self.ball = [0, self.rng.randint(2, SIZE - 2)]
        self.paddle_x = SIZE // 2
        self.frames = np.zeros((STACK, SIZE, SIZE), "uint8")
        self._push()
        return self.frames.copy()

    def _push(self):
        f = np.zeros((SIZE, SIZE), "uint8")
        f[self.ball[0], self.ball[1] - 1:self.ball[1] + 2] = 255
        f[SIZE - 1, max(0, self.paddle_x - 3):self.paddle_x + 4] = 255
        self.frames = np.concatenate([self.frames[1:], f[None]])

    def step(self, a):
        self.paddle_x = int(np.clip(self.paddle_x + (a - 1) * 2, 3, SIZE - 4))
        self.ball[0] += 2
        done = self.ball[0] >= SIZE - 2
        reward = 0.0
        if done:
            reward = 1.0 if abs(self.ball[1] - self.paddle_x) <= 4 else -1.0
        self._push()
        return self.frames.copy(), reward, done


class ReplayMemory:
    def __init__(self, capacity):
        self.obs = np.zeros((capacity, STACK, SIZE, SIZE), "uint8")
        self.next_obs = np.zeros_like(self.obs)
        self.act = np.zeros(capacity, "int64")
        self.rew = np.zeros(capacity, "float32")
        self.done = np.zeros(capacity, "float32")
        self.capacity, self.size, self.pos = capacity, 0, 0

    def append(self, o, a, r, o2, d):
        i = self.pos
        self.obs[i], self.act[i], self.rew[i], self.next_obs[i], self.done[i] = o, a, r, o2, d
        self.pos = (i + 1) % self.capacity
        self.size = min(self.size + 1, self.capacity)

    def sample(self, n, rng):
        i = rng.randint(0, self.size, n)
        return (self.obs[i].astype("float32") / 255.0, self.act[i], self.rew[i],
                self.next_obs[i].astype("float32") / 255.0, self.done[i])


class QNet(nn.Layer):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(STACK, 32, 5, stride=1, padding=2), nn.ReLU(), nn.MaxPool2D(2),
            nn.Conv2D(32, 64, 4, stride=2), nn.ReLU(),
            nn.Conv2D(64, 64, 3, stride=1), nn.ReLU(), nn.Flatten())
        self.value = nn.Sequential(nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, 1))
        self.adv = nn.Sequential(nn.Linear(64 * 7 * 7, 512), nn.ReLU(), nn.Linear(512, N_ACT))

    def forward(self, x):
        h = self.features(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(axis=1, keepdim=True)


def batches(memory, batch_size, n):
    rng = np.random.RandomState(1)
    for _ in range(n):
        yield memory.sample(batch_size, rng)


def act(q_net, obs, eps, rng):
    if rng.rand() < eps:
        return rng.randint(N_ACT)
    with paddle.no_grad():
        return int(q_net(paddle.to_tensor(obs[None].astype("float32") / 255.0)).argmax())


def main():
    paddle.seed(0)
    rng = np.random.RandomState(0)
    env, memory = CatchEnv(), ReplayMemory(args.memory_size)
    obs = env.reset()
    for _ in range(args.warmup):
        a = rng.randint(N_ACT)
        nxt, r, d = env.step(a)
        memory.append(obs, a, r, nxt, float(d))
        obs = env.reset() if d else nxt

    q_net, target = QNet(), QNet()
    target.set_state_dict(q_net.state_dict())
    target.eval()
    opt = paddle.optimizer.Adam(args.lr, parameters=q_net.parameters(), grad_clip=nn.ClipGradByNorm(10.0))

    for it, (o, a, r, o2, d) in enumerate(batches(memory, args.batch_size, args.updates)):
        o, o2 = paddle.to_tensor(o), paddle.to_tensor(o2)
        a, r, d = paddle.to_tensor(a), paddle.to_tensor(r), paddle.to_tensor(d)
        with paddle.no_grad():
            best = q_net(o2).argmax(axis=1)
            q_next = (target(o2) * F.one_hot(best, N_ACT)).sum(axis=1)
            y = r + args.gamma * (1.0 - d) * q_next
        q = (q_net(o) * F.one_hot(a, N_ACT)).sum(axis=1)
        loss = F.smooth_l1_loss(q, y)
        loss.backward()
        opt.step()
        opt.clear_grad()
        if (it + 1) % args.target_every == 0:
            target.set_state_dict(q_net.state_dict())
        # one more move of the agent after every update
        a_env = act(q_net, obs, max(0.1, 1 - it / args.updates), rng)
        nxt, rew, done = env.step(a_env)
        memory.append(obs, a_env, rew, nxt, float(done))
        obs = env.reset() if done else nxt
        print("update %d loss %.5f q %.3f" % (it, float(loss), float(q.mean())))


if __name__ == "__main__":
    main()
