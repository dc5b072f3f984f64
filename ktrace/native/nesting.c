/* Slices that overlap, their lanes and the slice around each: ktrace/stages/order/nesting.py has the same in Python, and
   says what lanes are. */

#include "module.h"

#include <stdint.h>

/* Slices between two looks for Ctrl-C. */
#define BETWEEN_LOOKS 0xFFF

/* The ends of a lane's open slices, innermost last. */
typedef struct {
    int64_t *ends;
    size_t count, capacity;
} Lane;

/* Lanes, and a tree over the ends of their innermost slices: node n has the nodes 2n and 2n + 1 below it, node
   `capacity + number` is a lane. A lane without open slices has INT64_MAX. */
typedef struct {
    Lane *lanes;
    int64_t *least, *most;
    size_t capacity; /* a power of two */
} Lanes;

static void look_below(Lanes *all, size_t node) {
    size_t left = 2 * node, right = left + 1;
    all->least[node] = all->least[left] < all->least[right] ? all->least[left] : all->least[right];
    all->most[node] = all->most[left] > all->most[right] ? all->most[left] : all->most[right];
}

/* Tells the tree the end of a lane's innermost slice. */
static void tell(Lanes *all, size_t number) {
    const Lane *lane = &all->lanes[number];
    size_t node = all->capacity + number;
    all->least[node] = all->most[node] = lane->count ? lane->ends[lane->count - 1] : INT64_MAX;
    while (node >>= 1)
        look_below(all, node);
}

/* Grows to that many lanes. */
static int make_lanes(Lanes *all, size_t count) {
    size_t capacity = all->capacity ? all->capacity : 1, before = all->capacity;
    while (capacity < count)
        capacity *= 2;
    if (capacity == before)
        return 1;
    if (!grow((void **)&all->lanes, capacity, sizeof(Lane)) ||
        !grow((void **)&all->least, 2 * capacity, sizeof(int64_t)) ||
        !grow((void **)&all->most, 2 * capacity, sizeof(int64_t)))
        return 0;
    for (size_t number = before; number < capacity; number++)
        all->lanes[number] = (Lane){NULL, 0, 0};
    all->capacity = capacity;
    for (size_t number = 0; number < capacity; number++) {
        const Lane *lane = &all->lanes[number];
        int64_t end = lane->count ? lane->ends[lane->count - 1] : INT64_MAX;
        all->least[capacity + number] = all->most[capacity + number] = end;
    }
    for (size_t node = capacity - 1; node; node--)
        look_below(all, node);
    return 1;
}

static int push(Lanes *all, size_t number, int64_t end) {
    Lane *lane = &all->lanes[number];
    if (lane->count == lane->capacity) {
        size_t capacity = lane->capacity ? 2 * lane->capacity : 4;
        if (!grow((void **)&lane->ends, capacity, sizeof(int64_t)))
            return 0;
        lane->capacity = capacity;
    }
    lane->ends[lane->count++] = end;
    tell(all, number);
    return 1;
}

/* Whether a lane below the node is free for a slice, or has slices that ended before it begins. */
static int may_have(const Lanes *all, size_t node, int64_t begin, int64_t end) {
    return all->most[node] >= end || all->least[node] <= begin;
}

/* The first lane in which a slice nests; `capacity` if there is none. */
static size_t first_lane(Lanes *all, int64_t begin, int64_t end) {
    while (may_have(all, 1, begin, end)) {
        size_t node = 1;
        while (node < all->capacity) {
            node *= 2;
            node += !may_have(all, node, begin, end);
        }
        size_t number = node - all->capacity;
        if (all->least[node] > begin)
            return number;
        Lane *lane = &all->lanes[number];
        while (lane->count && lane->ends[lane->count - 1] <= begin)
            lane->count--;
        tell(all, number);
    }
    return all->capacity;
}

static int fill(Lanes *all, const int64_t *begin, const int64_t *end, int32_t *lane, Py_ssize_t first,
                Py_ssize_t count) {
    if (!make_lanes(all, 1))
        return 0;
    /* Open slices, which have a lane. In those from `count` on no other comes to lie: of so many, one before is free. */
    for (Py_ssize_t row = 0; row < first; row++)
        if (lane[row] < count &&
            (!make_lanes(all, (size_t)lane[row] + 1) || !push(all, (size_t)lane[row], end[row])))
            return 0;
    for (Py_ssize_t row = first; row < count; row++) {
        if ((row & BETWEEN_LOOKS) == 0 && PyErr_CheckSignals() < 0)
            return 0;
        size_t number = first_lane(all, begin[row], end[row]);
        if (number >= INT32_MAX || !make_lanes(all, number + 1) || !push(all, number, end[row]))
            return 0;
        lane[row] = (int32_t)number;
    }
    return 1;
}

/* Whether the arrays are of one length; else 0 with an exception. */
static int check_slices(const Array *begin, const Array *end, const Array *results, const char *name) {
    if (begin->count != results->count || end->count != results->count)
        PyErr_Format(PyExc_ValueError, "%s: %zd values for %zd of %s", begin->count != results->count ? "begin" : "end",
                     begin->count != results->count ? begin->count : end->count, results->count, name);
    return !PyErr_Occurred();
}

/* Whether the open slices, those before `first`, have lanes; else 0 with an exception. */
static int check_open(const Array *lane, Py_ssize_t first) {
    if (first < 0 || first > lane->count)
        PyErr_Format(PyExc_ValueError, "first: %zd of %zd slices", first, lane->count);
    for (Py_ssize_t row = 0; row < first && !PyErr_Occurred(); row++)
        if (((const int32_t *)lane->values)[row] < 0)
            PyErr_Format(PyExc_ValueError, "lane: %d, of slice %zd", (int)((const int32_t *)lane->values)[row], row);
    return !PyErr_Occurred();
}

/* lanes(begin, end, lane, first): arrays of int64, int64 and int32; fills lane[first:]. */
PyObject *lanes(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *starts, *stops, *numbers;
    Array begin, end, lane;
    Py_ssize_t first;
    if (!PyArg_ParseTuple(args, "OOOn:lanes", &starts, &stops, &numbers, &first) ||
        !read_array(starts, "begin", SIGNED, sizeof(int64_t), &begin) ||
        !read_array(stops, "end", SIGNED, sizeof(int64_t), &end) ||
        !read_results(numbers, "lane", "il", sizeof(int32_t), &lane) ||
        !check_slices(&begin, &end, &lane, "lane") || !check_open(&lane, first))
        return NULL;
    Lanes all = {NULL, NULL, NULL, 0};
    int filled = fill(&all, begin.values, end.values, lane.values, first, lane.count);
    for (size_t number = 0; all.lanes && number < all.capacity; number++)
        PyMem_Free(all.lanes[number].ends);
    PyMem_Free(all.lanes);
    PyMem_Free(all.least);
    PyMem_Free(all.most);
    if (!filled)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* enclosing(track, begin, end, found): arrays of int32 and int64; slices are grouped by track and sorted. Fills `found`
   with the position of the last slice of the track that began before each and is open then, or -1. */
PyObject *enclosing(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *numbers, *starts, *stops, *positions;
    Array tracks, begins, ends, found;
    if (!PyArg_ParseTuple(args, "OOOO:enclosing", &numbers, &starts, &stops, &positions) ||
        !read_array(numbers, "track", "il", sizeof(int32_t), &tracks) ||
        !read_array(starts, "begin", SIGNED, sizeof(int64_t), &begins) ||
        !read_array(stops, "end", SIGNED, sizeof(int64_t), &ends) ||
        !read_results(positions, "found", SIGNED, sizeof(int64_t), &found) ||
        !check_slices(&begins, &ends, &found, "found"))
        return NULL;
    if (tracks.count != found.count)
        return PyErr_Format(PyExc_ValueError, "track: %zd values for %zd of found", tracks.count, found.count);
    const int32_t *track = tracks.values;
    const int64_t *begin = begins.values, *end = ends.values;
    int64_t *around = found.values;
    /* Open slices, those that end first last: a later one that outlasts others hides them. */
    int64_t *open = NULL;
    size_t count = 0, capacity = 0;
    for (Py_ssize_t row = 0; row < found.count; row++) {
        if ((row & BETWEEN_LOOKS) == 0 && PyErr_CheckSignals() < 0)
            break;
        if (row && track[row] != track[row - 1])
            count = 0;
        while (count && end[open[count - 1]] <= begin[row])
            count--;
        around[row] = count ? open[count - 1] : -1;
        while (count && end[open[count - 1]] <= end[row])
            count--;
        if (count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            if (!grow((void **)&open, capacity, sizeof(int64_t))) {
                PyErr_NoMemory();
                break;
            }
        }
        open[count++] = row;
    }
    PyMem_Free(open);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}
