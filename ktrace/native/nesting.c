/* Lanes of slices that overlap: ktrace/stages/order/nesting.py has the same in Python, and says what lanes are. */

#include "module.h"

#include <stdint.h>

/* The ends of a lane's open slices, innermost last. */
typedef struct {
    int64_t *ends;
    size_t count, room;
} Lane;

typedef struct {
    Lane *lanes;
    size_t count, room;
} Lanes;

static int push(Lane *lane, int64_t end) {
    if (lane->count == lane->room) {
        size_t room = lane->room ? 2 * lane->room : 8;
        int64_t *ends = PyMem_Realloc(lane->ends, room * sizeof(int64_t));
        if (!ends)
            return 0;
        lane->ends = ends;
        lane->room = room;
    }
    lane->ends[lane->count++] = end;
    return 1;
}

static int make_lanes(Lanes *all, size_t count) {
    if (count > all->room) {
        size_t room = 2 * count + 8;
        Lane *lanes = PyMem_Realloc(all->lanes, room * sizeof(Lane));
        if (!lanes)
            return 0;
        all->lanes = lanes;
        all->room = room;
    }
    for (; all->count < count; all->count++)
        all->lanes[all->count] = (Lane){NULL, 0, 0};
    return 1;
}

/* Slices between two looks for Ctrl-C. */
#define BETWEEN_LOOKS 0xFFF

/* The first lane in which a slice nests, where it is put; -1 if there is no memory. */
static int64_t put(Lanes *all, int64_t begin, int64_t end) {
    for (size_t number = 0; number < all->count; number++) {
        Lane *lane = &all->lanes[number];
        while (lane->count && lane->ends[lane->count - 1] <= begin)
            lane->count--;
        if (!lane->count || lane->ends[lane->count - 1] >= end)
            return push(lane, end) ? (int64_t)number : -1;
    }
    if (!make_lanes(all, all->count + 1) || !push(&all->lanes[all->count - 1], end))
        return -1;
    return (int64_t)all->count - 1;
}

static int fill(Lanes *all, const int64_t *begin, const int64_t *end, int32_t *lane, Py_ssize_t first,
                Py_ssize_t count) {
    for (Py_ssize_t row = 0; row < first; row++) /* open slices, which have a lane */
        if (lane[row] < 0 || !make_lanes(all, (size_t)lane[row] + 1) || !push(&all->lanes[lane[row]], end[row]))
            return 0;
    for (Py_ssize_t row = first; row < count; row++) {
        if ((row & BETWEEN_LOOKS) == 0 && PyErr_CheckSignals() < 0)
            return 0;
        int64_t number = put(all, begin[row], end[row]);
        if (number < 0 || number > INT32_MAX)
            return 0;
        lane[row] = (int32_t)number;
    }
    return 1;
}

/* lanes(begin, end, lane, first, count): addresses of int64, int64 and int32; fills lane[first:count]. */
PyObject *lanes(PyObject *Py_UNUSED(module), PyObject *args) {
    long long begin, end, lane;
    Py_ssize_t first, count;
    if (!PyArg_ParseTuple(args, "LLLnn:lanes", &begin, &end, &lane, &first, &count))
        return NULL;
    Lanes all = {NULL, 0, 0};
    int filled = fill(&all, (const int64_t *)(intptr_t)begin, (const int64_t *)(intptr_t)end,
                      (int32_t *)(intptr_t)lane, first, count);
    for (size_t number = 0; number < all.count; number++)
        PyMem_Free(all.lanes[number].ends);
    PyMem_Free(all.lanes);
    if (!filled)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_RETURN_NONE;
}
