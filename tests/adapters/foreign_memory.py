"""Arrays over memory that no array owns, as C extensions make them."""

import ctypes

import numpy as np


def over(memory):
    """Returns an array of float32 over a ctypes array: it has no base, and does not own its memory."""
    core = np._core if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else np.core
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(core._multiarray_umath._ARRAY_API, None), ctypes.POINTER(ctypes.c_void_p))
    kinds = [ctypes.py_object, ctypes.c_int, ctypes.c_void_p, ctypes.c_int, *[ctypes.c_void_p] * 2]
    new = ctypes.PYFUNCTYPE(ctypes.py_object, *kinds, ctypes.c_int, ctypes.c_int, ctypes.c_void_p)(table[93])
    shape = (ctypes.c_ssize_t * 1)(len(memory))
    array = new(np.ndarray, 1, shape, np.dtype(np.float32).num, None, ctypes.addressof(memory), 0, 0x501, None)
    assert array.base is None
    assert not array.flags.owndata
    return array
