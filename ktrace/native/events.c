/* Reads lists of trace events into columns: ktrace/kit/trace_json/decode.py uses it.

   A text is taken whole, or refused as a whole: whatever doesn't match a known shape exactly, or is rare, is left to the
   reader in Python, which decides what it means. So there is no second opinion about faults here. */

#include "module.h"

#include "columns.h"

#define FLOWS "stf"
#define EDGE ((int64_t)1 << 40) /* as in trace_json/dialect.py */

/* Where bytes of a text that was repaired are in the document: from offset `from[n]` on they moved by `by[n]`. */
typedef struct {
    const int64_t *from, *by;
    Py_ssize_t count;
} Moves;

/* The members whose texts are tags, in the order of preference. */
static const char *const TAG_FIELDS[] = {"cat", "ph"};
enum { BY_CATEGORY, BY_PHASE, TAGS };

/* Times that were rounded: how many, and what the source has for the first ones. */
#define MOST_LISTED 64
typedef struct {
    Py_ssize_t count;
    int listed;
    struct {
        Py_ssize_t event; /* where it begins in the text */
        Text text;
        size_t size;
    } first[MOST_LISTED];
} Rounded;

typedef struct {
    PyObject_HEAD
    Shape *shapes;
    int count;
    int last;        /* the shape of the last event */
    int only_phases; /* there are no shapes by category */
} Events;

/* ---- reading ---- */

/* The tag field that a key is; `TAGS` if it is none. */
static inline int tag_of(Text key, size_t size) {
    int tag = 0;
    while (tag < TAGS && (size != strlen(TAG_FIELDS[tag]) || memcmp(key, TAG_FIELDS[tag], size)))
        tag++;
    return tag;
}

/* The shape with a tag, which begins with its quote; NULL if there is none, or if the tag has an escape. */
static Shape *shape_with(Events *events, int field, Text tag, size_t size) {
    if (memchr(tag + 1, '\\', size))
        return NULL;
    for (int tried = 0, number = events->last; tried < events->count; tried++, number++) {
        if (number >= events->count)
            number = 0;
        Shape *shape = &events->shapes[number];
        if (shape->tag_field == field && shape->tag_size == size && !memcmp(shape->tag, tag + 1, size)) {
            events->last = number;
            return shape;
        }
    }
    return NULL;
}

/* The shape of the event whose object begins here: by its category, or by its phase if it has none; NULL if none fits. */
static Shape *shape_of(Events *events, Text at, Text end) {
    Text phase = NULL;
    size_t phase_size = 0;
    at = skip_blank(at + 1);
    while (*at == '"') {
        Text key = at + 1;
        if (!(at = skip_string(at, end)))
            return NULL;
        size_t size = (size_t)(at - 1 - key);
        Text value = skip_colon(at);
        if (!value || !(at = skip_value(value, end, 0)))
            return NULL;
        int tag = tag_of(key, size);
        if (tag < TAGS) {
            if (*value != '"')
                return NULL;
            size = (size_t)(at - value - 2);
            if (tag == BY_CATEGORY && !events->only_phases)
                return shape_with(events, tag, value, size);
            if (tag == BY_PHASE) {
                phase = value;
                phase_size = size;
                if (events->only_phases)
                    break;
            }
        }
        at = skip_blank(at);
        if (*at != ',')
            break;
        at = skip_blank(at + 1);
    }
    return phase ? shape_with(events, BY_PHASE, phase, phase_size) : NULL;
}

/* Whether the text is the key of a column, up to its quote. */
static inline int is_key(const Column *column, Text text, Text end) {
    return (size_t)(end - text) > column->size && text[column->size] == '"' && !memcmp(column->key, text, column->size);
}

/* The column of a key, searched from `next` on, where the keys of the last event lead one to expect it; -1: none. */
static inline int find_column(const Shape *shape, int next, int first, int stop, Text key, size_t size) {
    for (int tried = first, number = next; tried < stop; tried++, number++) {
        if (number >= stop)
            number = first;
        const Column *column = &shape->columns[number];
        if (column->size == size && !memcmp(column->key, key, size))
            return number;
    }
    return -1;
}

/* Reads an object into the columns from `first` to `stop` of the last row, and counts its values. */
static Text read_object(Shape *shape, int first, int stop, Text at, Text end, int *values) {
    int next = first, nested = 0, tagged = 0;
    if (*at != '{')
        return NULL;
    at = skip_blank(at + 1);
    if (*at == '}')
        return at + 1;
    for (;;) {
        if (*at != '"')
            return NULL;
        Text key = at + 1;
        int number = next < stop && is_key(&shape->columns[next], key, end) ? next : -1;
        if (!(at = number < 0 ? skip_string(at, end) : key + shape->columns[number].size + 1))
            return NULL;
        size_t size = (size_t)(at - 1 - key);
        if (!(at = skip_colon(at)))
            return NULL;
        if (number < 0)
            number = find_column(shape, next, first, stop, key, size);
        if (number >= 0) {
            uint64_t bit = (uint64_t)1 << (number & 63);
            if (shape->seen[number >> 6] & bit) /* a key twice */
                return NULL;
            shape->seen[number >> 6] |= bit;
            if (!(at = put_value(shape, &shape->columns[number], at, end)))
                return NULL;
            next = number + 1;
            ++*values;
        } else if (!first && size == 4 && !memcmp(key, "args", 4) && !nested++) {
            if (!(at = read_object(shape, shape->members, shape->count, at, end, values)))
                return NULL;
        } else if (!first && tag_of(key, size) == shape->tag_field && !tagged++) {
            if (!(at = skip_string(at, end)))
                return NULL;
        } else {
            return NULL;
        }
        at = skip_blank(at);
        if (*at == '}')
            return at + 1;
        if (*at++ != ',')
            return NULL;
        at = skip_blank(at);
    }
}

/* A phase that is spelled with an escape. */
#define ESCAPED 1

/* The phase of the last row: one letter, `ESCAPED`, or 0 for anything else. */
static char phase_of(const Shape *shape) {
    if (shape->phase < 0)
        return shape->tag_field == BY_PHASE && shape->tag_size == 1 ? shape->tag[0] : 0;
    const Column *column = &shape->columns[shape->phase];
    int32_t code = column->codes[shape->rows];
    if (code < 0)
        return 0;
    const Entry *entry = &column->texts.entries[code];
    const unsigned char *text = column->texts.bytes + entry->at;
    if (memchr(text, '\\', entry->size))
        return ESCAPED;
    return entry->size == 3 && *text == '"' ? (char)text[1] : 0;
}

/* Whether the last row is an edge of a graph: its id is EDGE or more, above all correlations. */
static int is_edge(const Shape *shape) {
    const Column *column = shape->id < 0 ? NULL : &shape->columns[shape->id];
    if (!column)
        return 0;
    if (!is_coded(column))
        return column->states[shape->rows] == IS_WHOLE && column->numbers[shape->rows] >= EDGE;
    int32_t code = column->codes[shape->rows];
    if (code < 0)
        return 0;
    const Entry *entry = &column->texts.entries[code];
    const unsigned char *text = column->texts.bytes + entry->at;
    int64_t value = 0;
    for (size_t at = 0; at < entry->size; at++) {
        if (text[at] < '0' || text[at] > '9' || at >= 18)
            return 0;
        value = 10 * value + (text[at] - '0');
    }
    return value >= EDGE;
}

/* Takes note of the times of the last row that were rounded; of a row that is dropped, nothing was. */
static void note_rounded(Shape *shape, int is_dropped, Py_ssize_t offset, Rounded *rounded) {
    for (int number = 0; is_dropped && number < shape->members; number++)
        clear_codes(&shape->columns[number], shape->rows, shape->rows + 1);
    for (int number = 0; !is_dropped && number < shape->rounded; number++, rounded->count++)
        if (rounded->listed < MOST_LISTED) {
            rounded->first[rounded->listed].event = offset;
            rounded->first[rounded->listed].text = shape->own[number].text;
            rounded->first[rounded->listed++].size = shape->own[number].size;
        }
}

/* Reads the events of a list. Returns 0 if it is refused. */
static int read_list(Events *events, Text at, Text end, int64_t byte, Moves moves, Py_ssize_t *count,
                     Py_ssize_t *folded, Rounded *rounded) {
    Text start = at;
    Py_ssize_t moved = 0;
    at = skip_blank(at);
    if (*at++ != '[')
        return 0;
    at = skip_blank(at);
    if (*at == ']')
        return skip_blank(at + 1) == end;
    for (;; ++*count) {
        Shape *shape = *at == '{' ? shape_of(events, at, end) : NULL;
        if (!shape || !grow_columns(shape))
            return 0;
        memset(shape->seen, 0, sizeof(shape->seen));
        shape->rounded = 0;
        int64_t offset = at - start;
        int values = 0;
        if (!(at = read_object(shape, 0, shape->members, at, end, &values)))
            return 0;
        fill_row(shape, values);
        char phase = phase_of(shape);
        if (phase == ESCAPED)
            return 0;
        int is_dropped = shape->folded && phase && strchr(FLOWS, phase) && is_plain(shape) && !is_edge(shape);
        if (shape->rounded)
            note_rounded(shape, is_dropped, offset, rounded);
        if (is_dropped) {
            ++*folded;
        } else {
            while (moved < moves.count && moves.from[moved] <= offset)
                moved++;
            uint64_t place = (uint64_t)byte + (uint64_t)offset + (uint64_t)(moved ? moves.by[moved - 1] : 0);
            shape->ats[shape->rows++] = (int64_t)place;
        }
        at = skip_blank(at);
        if (*at == ']') {
            ++*count;
            return skip_blank(at + 1) == end;
        }
        if (*at++ != ',')
            return 0;
        at = skip_blank(at);
    }
}

/* [(where its event begins in the text, what the source has for it)] of the first times that were rounded. */
static PyObject *first_rounded(const Rounded *rounded) {
    PyObject *list = PyList_New(rounded->listed);
    for (int number = 0; list && number < rounded->listed; number++) {
        PyObject *pair = Py_BuildValue("ny#", rounded->first[number].event, (const char *)rounded->first[number].text,
                                       (Py_ssize_t)rounded->first[number].size);
        if (!pair || PyList_SetItem(list, number, pair) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    return list;
}

/* take(text, byte, offsets, by): a list that is UTF-8, and where it is in the document, as `Moves` in Python says it. Returns
   how many events were taken, how many of them folded, how many times were rounded, and the first of these; or, of a list
   that is refused, how many events precede the cause. */
static PyObject *take(Events *events, PyObject *args) {
    PyObject *text, *offsets, *moved;
    long long byte;
    char *start;
    Py_ssize_t size, count = 0, folded = 0;
    Array from, by;
    if (!PyArg_ParseTuple(args, "SLOO:take", &text, &byte, &offsets, &moved) ||
        PyBytes_AsStringAndSize(text, &start, &size) < 0 ||
        !read_array(offsets, "offsets", SIGNED, sizeof(int64_t), &from) ||
        !read_array(moved, "by", SIGNED, sizeof(int64_t), &by))
        return NULL;
    if (from.count != by.count) {
        PyErr_Format(PyExc_ValueError, "by: %zd values for %zd offsets", by.count, from.count);
        return NULL;
    }
    Moves moves = {from.values, by.values, from.count};
    Rounded rounded = {.count = 0, .listed = 0};
    for (int number = 0; number < events->count; number++)
        begin_text(&events->shapes[number]);
    Text end = (Text)start + size;
    if (read_list(events, (Text)start, end, byte, moves, &count, &folded, &rounded)) {
        PyObject *first = first_rounded(&rounded);
        return first ? Py_BuildValue("nnnN", count, folded, rounded.count, first) : NULL;
    }
    for (int number = 0; number < events->count; number++)
        if (!take_back(&events->shapes[number]))
            return PyErr_NoMemory();
    return PyLong_FromSsize_t(count);
}

/* ---- results ---- */

static PyObject *new_texts(Texts *texts) {
    PyObject *list = PyList_New(texts->count - texts->told);
    for (int32_t code = texts->told; list && code < texts->count; code++) {
        const Entry *entry = &texts->entries[code];
        PyObject *text = PyBytes_FromStringAndSize((const char *)texts->bytes + entry->at, entry->size);
        if (!text || PyList_SetItem(list, code - texts->told, text) < 0) {
            Py_DECREF(list);
            return NULL;
        }
    }
    texts->told = texts->count;
    return list;
}

/* (numbers, states) of a column without codes; of one with times that were rounded also the codes and texts of these. */
static PyObject *finished_numbers(Column *column, Py_ssize_t rows) {
    Py_ssize_t size = rows * (Py_ssize_t)sizeof(int64_t);
    if (!column->texts.count)
        return Py_BuildValue("y#y#", (char *)column->numbers, size, (char *)column->states, rows);
    PyObject *list = new_texts(&column->texts);
    if (!list)
        return NULL;
    if (!forget_texts(&column->texts, 0)) {
        Py_DECREF(list);
        return PyErr_NoMemory();
    }
    column->texts.told = 0;
    PyObject *result = Py_BuildValue("y#y#y#N", (char *)column->numbers, size, (char *)column->states, rows,
                                     (char *)column->codes, (Py_ssize_t)(rows * sizeof(int32_t)), list);
    clear_codes(column, 0, rows);
    return result;
}

static PyObject *finished_column(Column *column, Py_ssize_t rows, int32_t most) {
    if (!is_coded(column))
        return finished_numbers(column, rows);
    PyObject *list = new_texts(&column->texts);
    if (!list)
        return NULL;
    if (column->texts.count > most) {
        if (!forget_texts(&column->texts, 0)) {
            Py_DECREF(list);
            return PyErr_NoMemory();
        }
        column->texts.told = 0;
    }
    return Py_BuildValue("y#N", (char *)column->codes, (Py_ssize_t)(rows * sizeof(int32_t)), list);
}

static PyObject *finished_shape(Shape *shape, int number, int32_t most) {
    PyObject *columns = PyList_New(shape->count);
    for (int at = 0; columns && at < shape->count; at++) {
        PyObject *column = finished_column(&shape->columns[at], shape->rows, most);
        if (!column || PyList_SetItem(columns, at, column) < 0) {
            Py_DECREF(columns);
            return NULL;
        }
    }
    if (!columns)
        return NULL;
    Py_ssize_t size = shape->rows * (Py_ssize_t)sizeof(int64_t);
    shape->rows = 0;
    return Py_BuildValue("iy#N", number, (char *)shape->ats, size, columns);
}

/* Forgets the texts of events that were dropped. */
static void forget_all(Shape *shape) {
    for (int number = 0; number < shape->count; number++)
        forget_texts(&shape->columns[number].texts, 0);
}

static PyObject *finish(Events *events, PyObject *args) {
    int most;
    if (!PyArg_ParseTuple(args, "i:finish", &most))
        return NULL;
    PyObject *list = PyList_New(0);
    for (int number = 0; list && number < events->count; number++) {
        if (!events->shapes[number].rows) {
            if (events->shapes[number].folded)
                forget_all(&events->shapes[number]);
            continue;
        }
        PyObject *shape = finished_shape(&events->shapes[number], number, most);
        if (!shape || PyList_Append(list, shape) < 0) {
            Py_XDECREF(shape);
            Py_DECREF(list);
            return NULL;
        }
        Py_DECREF(shape);
    }
    return list;
}

/* ---- the type ---- */

static char *copied(const char *text, Py_ssize_t size) {
    char *copy = PyMem_Malloc((size_t)size + 1);
    if (copy)
        memcpy(copy, text, (size_t)size + 1);
    else
        PyErr_NoMemory();
    return copy;
}

static int add_column(Column *column, PyObject *tuple, int *plain) {
    const char *key;
    Py_ssize_t size;
    int kind;
    if (!PyTuple_Check(tuple)) {
        PyErr_SetString(PyExc_TypeError, "column: not a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(tuple, "y#ip:column", &key, &size, &kind, plain))
        return 0;
    if (kind < RAW || kind > CLOCK) {
        PyErr_Format(PyExc_ValueError, "kind: %d", kind);
        return 0;
    }
    if (!(column->key = copied(key, size)))
        return 0;
    column->size = (size_t)size;
    column->kind = (Kind)kind;
    return 1;
}

/* (number of the tag's field, tag, folded, [(key, kind, plain) of members], [(key, kind, plain) of args]) */
static int add_shape(Shape *shape, PyObject *given) {
    const char *tag;
    Py_ssize_t size;
    PyObject *members, *args;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "shapes: not a tuple");
        return 0;
    }
    if (!PyArg_ParseTuple(given, "iy#pO!O!:shape", &shape->tag_field, &tag, &size, &shape->folded, &PyList_Type,
                          &members, &PyList_Type, &args))
        return 0;
    if (shape->tag_field < 0 || shape->tag_field >= TAGS) {
        PyErr_Format(PyExc_ValueError, "tag: member %d", shape->tag_field);
        return 0;
    }
    if (PyList_Size(members) > MOST_COLUMNS || PyList_Size(args) > MOST_COLUMNS - PyList_Size(members)) {
        PyErr_Format(PyExc_ValueError, "shapes: %zd members and %zd args", PyList_Size(members), PyList_Size(args));
        return 0;
    }
    shape->members = (int)PyList_Size(members);
    int count = shape->members + (int)PyList_Size(args);
    shape->tag_size = (size_t)size;
    shape->phase = shape->id = -1;
    if (!(shape->tag = copied(tag, size)))
        return 0;
    if (!(shape->columns = PyMem_Calloc((size_t)count + 1, sizeof(Column)))) {
        PyErr_NoMemory();
        return 0;
    }
    shape->count = count;
    for (int number = 0; number < count; number++) {
        int of_args = number >= shape->members, plain;
        Column *column = &shape->columns[number];
        PyObject *described = PyList_GetItem(of_args ? args : members, of_args ? number - shape->members : number);
        if (!add_column(column, described, &plain))
            return 0;
        shape->plain[number >> 6] |= (uint64_t)(plain != 0) << (number & 63);
        if (!of_args && is_coded(column) && column->size == 2 && !memcmp(column->key, "ph", 2))
            shape->phase = number;
        if (!of_args && column->size == 2 && !memcmp(column->key, "id", 2))
            shape->id = number;
    }
    return 1;
}

static PyObject *new_events(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(keywords)) {
    PyObject *shapes;
    if (!PyArg_ParseTuple(args, "O!:Events", &PyList_Type, &shapes))
        return NULL;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Events *events = (Events *)allocate(type, 0);
    if (!events)
        return NULL;
    size_t count = (size_t)PyList_Size(shapes);
    if (!(events->shapes = PyMem_Calloc(count + 1, sizeof(Shape)))) {
        Py_DECREF(events);
        return PyErr_NoMemory();
    }
    events->only_phases = 1;
    for (; (size_t)events->count < count; events->count++)
        if (!add_shape(&events->shapes[events->count], PyList_GetItem(shapes, events->count))) {
            events->count++;
            Py_DECREF(events);
            return NULL;
        } else if (events->shapes[events->count].tag_field == BY_CATEGORY) {
            events->only_phases = 0;
        }
    return (PyObject *)events;
}

static void free_events(Events *events) {
    PyTypeObject *type = Py_TYPE((PyObject *)events);
    for (int number = 0; number < events->count; number++)
        free_shape(&events->shapes[number]);
    PyMem_Free(events->shapes);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(events);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"take", (PyCFunction)take, METH_VARARGS, NULL},
    {"finish", (PyCFunction)finish, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, new_events},
    {Py_tp_dealloc, free_events},
    {Py_tp_methods, methods},
    {0, NULL},
};

static PyType_Spec spec = {"ktrace.native.compiled.Events", sizeof(Events), 0, Py_TPFLAGS_DEFAULT, slots};

/* Fills the key of hashes. Returns 0 with an exception if the system has no random bytes. */
static int make_hash_key(void) {
    PyObject *os = PyImport_ImportModule("os");
    PyObject *bytes = os ? PyObject_CallMethod(os, "urandom", "n", (Py_ssize_t)sizeof(hash_key)) : NULL;
    char *random = bytes ? PyBytes_AsString(bytes) : NULL;
    if (random)
        memcpy(hash_key, random, sizeof(hash_key));
    Py_XDECREF(bytes);
    Py_XDECREF(os);
    return random != NULL;
}

int add_events(PyObject *module) {
    if (!make_hash_key())
        return -1;
    PyObject *type = PyType_FromSpec(&spec);
    if (!type)
        return -1;
    int failed = PyModule_AddObjectRef(module, "Events", type);
    Py_DECREF(type);
    return failed ? failed : PyModule_AddIntConstant(module, "interface", INTERFACE);
}
