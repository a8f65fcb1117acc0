# The console as an image. It needs no engine of its own: it reaches hosts over SSH.
#
#   docker build --tag gpuconsole .
#   docker run --rm -it -v ~/.ssh:/home/ops/.ssh:ro -v gpuconsole:/home/ops/.local \
#     -v ~/.config/gpuconsole:/home/ops/.config/gpuconsole:ro gpuconsole
ARG BASE=python:3.12-slim
FROM ${BASE}

# ssh for ProxyCommand and agents, bubblewrap to measure scripts apart from the rest.
RUN apt-get update -qq \
 && apt-get install -y -qq --no-install-recommends openssh-client bubblewrap \
 && rm -rf /var/lib/apt/lists/*

COPY . /opt/gpuconsole/source
RUN python -m pip install --no-cache-dir /opt/gpuconsole/source \
 && cp /opt/gpuconsole/source/gpuconsole/data/examples/mnist_cnn.py /opt/gpuconsole/example.py \
 && rm -rf /opt/gpuconsole/source

ARG UID=1000
RUN useradd --create-home --uid ${UID} ops \
 && install -d -o ops -g ops /home/ops/.config /home/ops/.local
USER ops
WORKDIR /home/ops
# Half blocks, braille and 24 bits of colour are drawn by the terminal in front.
ENV LANG=C.UTF-8 TERM=xterm-256color COLORTERM=truecolor
ENTRYPOINT ["gpuconsole"]
