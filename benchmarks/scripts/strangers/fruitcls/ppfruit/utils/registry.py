class Registry(dict):
    """name -> class table, used as a decorator"""

    def __init__(self, name):
        super().__init__()
        self._name = name

    def register(self, obj):
        key = obj.__name__
        if key in self:
            raise KeyError("{} is already in {}".format(key, self._name))
        self[key] = obj
        return obj

    def build(self, cfg, **extra):
        cfg = dict(cfg)
        name = cfg.pop("name")
        cfg.update(extra)
        return self[name](**cfg)


ARCHS = Registry("arch")
DATASETS = Registry("dataset")
TRANSFORMS = Registry("transform")
LOSSES = Registry("loss")
