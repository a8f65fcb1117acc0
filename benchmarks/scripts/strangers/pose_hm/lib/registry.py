class Registry(dict):
    def __call__(self, name):
        def deco(obj):
            assert name not in self, name
            self[name] = obj
            return obj
        return deco


MODELS = Registry()
LOSSES = Registry()
