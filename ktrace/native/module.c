/* ktrace.native.compiled: what is too slow in Python, each with an equal in Python that runs where this isn't built. */

#include "module.h"

static PyMethodDef methods[] = {
    {"encode", encode, METH_VARARGS, NULL},
    {"lanes", lanes, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, add_events},
    {0, NULL},
};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "compiled", NULL, 0, methods, slots, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_compiled(void) {
    return PyModuleDef_Init(&definition);
}
