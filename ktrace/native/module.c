/* ktrace.native.compiled: what is too slow in Python. Where it isn't built, Python gives the same, slowly. */

#include "module.h"

#include <string.h>

/* An attribute of a memoryview as a number; -1 with an exception. */
static Py_ssize_t number_of(PyObject *view, const char *name) {
    PyObject *found = PyObject_GetAttrString(view, name);
    Py_ssize_t number = found ? PyLong_AsSsize_t(found) : -1;
    Py_XDECREF(found);
    return number;
}

/* Whether the values are such as are wanted, one after the other; else 0 with an exception. */
static int check_view(PyObject *view, const char *name, const char *formats, Py_ssize_t width) {
    PyObject *format = PyObject_GetAttrString(view, "format");
    Py_ssize_t size = 0;
    const char *letters = format ? PyUnicode_AsUTF8AndSize(format, &size) : NULL;
    Py_ssize_t itemsize = number_of(view, "itemsize"), dimensions = number_of(view, "ndim");
    Py_ssize_t dense = number_of(view, "c_contiguous");
    int right = !PyErr_Occurred() && size == 1 && strchr(formats, letters[0]) && itemsize == width;
    if (!PyErr_Occurred() && !right)
        PyErr_Format(PyExc_TypeError, "%s: values of the format %s, %zd bytes each, instead of %s, %zd bytes", name,
                     letters, itemsize, formats, width);
    else if (right && dimensions != 1)
        PyErr_Format(PyExc_ValueError, "%s: %zd dimensions instead of 1", name, dimensions);
    else if (right && !dense)
        PyErr_Format(PyExc_ValueError, "%s: values with gaps between them", name);
    Py_XDECREF(format);
    return !PyErr_Occurred();
}

/* The stable interface of 3.10 has no buffers but those of "y#", whose owner can't move them. The format of an array that
   isn't aligned has more than its letter. */
int read_array(PyObject *object, const char *name, const char *formats, Py_ssize_t width, Array *array) {
    PyObject *view = PyMemoryView_FromObject(object);
    const char *bytes;
    Py_ssize_t size;
    if (!view) {
        PyErr_Format(PyExc_TypeError, "%s: not an array", name);
        return 0;
    }
    int right = check_view(view, name, formats, width);
    Py_DECREF(view);
    if (!right)
        return 0;
    if (!PyArg_Parse(object, "y#", &bytes, &size)) {
        PyErr_Format(PyExc_TypeError, "%s: an array that may move", name);
        return 0;
    }
    *array = (Array){(void *)(uintptr_t)bytes, size / width};
    return 1;
}

int read_results(PyObject *object, const char *name, const char *formats, Py_ssize_t width, Array *array) {
    if (!read_array(object, name, formats, width, array))
        return 0;
    PyObject *view = PyMemoryView_FromObject(object), *readonly = view ? PyObject_GetAttrString(view, "readonly") : NULL;
    if (readonly && PyObject_IsTrue(readonly))
        PyErr_Format(PyExc_ValueError, "%s: an array that can't be written", name);
    Py_XDECREF(readonly);
    Py_XDECREF(view);
    return !PyErr_Occurred();
}

static PyMethodDef methods[] = {
    {"encode", encode, METH_VARARGS, NULL},
    {"enclosing", enclosing, METH_VARARGS, NULL},
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
