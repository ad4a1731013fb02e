"""The classes that authors of environments subclass: `Model`, `BatchModel`, `MultiModel`."""
