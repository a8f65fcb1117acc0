"""Answers over HTTP with the net of `mnist_cnn.py`; its task file is `serve_mnist.yaml`.

    python serve_mnist.py --weights model.pdparams --port 8040

`GET /health` answers once the net is ready. `POST /predict` takes `{"images": [...]}`, each 28 x 28
numbers, and answers with a digit for each. The net runs once with the largest batch before the
server listens: the first user waits for nothing, and what it needs of a device is known.
"""

import argparse
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import paddle
from mnist_cnn import Net

LARGEST_BODY = 64 * 1024 * 1024


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default="model.pdparams")
    parser.add_argument("--port", type=int, default=8040)
    parser.add_argument("--batch-size", type=int, default=64)
    return parser.parse_args()


class Digits:
    """The net, asked by one request at a time, in batches of a fixed size."""

    def __init__(self, weights, batch_size):
        self.batch_size = batch_size
        self.lock = threading.Lock()
        self.model = Net()
        self.model.set_state_dict(paddle.load(weights))
        self.model.eval()

    def predict(self, images):
        found = []
        with self.lock, paddle.no_grad():
            for begin in range(0, len(images), self.batch_size):
                batch = paddle.to_tensor(images[begin : begin + self.batch_size])
                found += [int(label) for label in self.model(batch).argmax(axis=1)]
        return found


class Handler(BaseHTTPRequestHandler):
    digits = None

    def do_GET(self):
        if self.path == "/health":
            self.answer(200, {"status": "ready"})
        else:
            self.answer(404, {"error": f"no page {self.path}"})

    def do_POST(self):
        length = int(self.headers.get("Content-Length", 0))
        if self.path != "/predict" or length > LARGEST_BODY:
            self.answer(404, {"error": "POST /predict takes up to 64 MiB"})
            return
        try:
            images = np.asarray(json.loads(self.rfile.read(length))["images"], dtype="float32")
            images = images.reshape([-1, 1, 28, 28])
        except (ValueError, KeyError, TypeError) as error:
            self.answer(400, {"error": f"expected 28 x 28 numbers for each image: {error}"})
            return
        self.answer(200, {"digits": self.digits.predict(images)})

    def answer(self, status, document):
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main():
    args = parse()
    digits = Digits(args.weights, args.batch_size)
    with paddle.no_grad():
        digits.model(paddle.zeros([args.batch_size, 1, 28, 28]))
    Handler.digits = digits
    server = ThreadingHTTPServer(("127.0.0.1", args.port), Handler)
    print(f"listening on port {args.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
