/* Distinct texts, each with a code: 0, 1, 2, ... in the order of first occurrence. */

#ifndef KTRACE_TEXTS_H
#define KTRACE_TEXTS_H

#include "module.h"

#include <stdint.h>
#include <string.h>

typedef struct {
    size_t at; /* in `bytes` */
    uint32_t size;
    uint32_t hash;
} Entry;

typedef struct {
    unsigned char *bytes; /* of all texts, one after the other */
    size_t used, room;
    Entry *entries;
    int32_t count, entry_room;
    int32_t *slots; /* an open hash table of codes + 1; 0 is free */
    uint32_t slot_mask;
    int32_t last; /* the code of the last text: texts often repeat at once */
    int32_t told; /* texts that Python knows already */
} Texts;

static inline uint32_t hash_text(const unsigned char *text, size_t size) {
    uint64_t hash = size * 0x9E3779B97F4A7C15u, word;
    for (; size >= 8; size -= 8, text += 8) {
        memcpy(&word, text, 8);
        hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
        hash ^= hash >> 32;
    }
    word = 0;
    memcpy(&word, text, size);
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDu;
    hash ^= hash >> 29;
    hash *= 0xC4CEB9FE1A85EC53u;
    return (uint32_t)(hash >> 32);
}

/* Makes the table of slots anew, for at least twice as many texts as there are. */
static int spread_slots(Texts *texts) {
    size_t room = 64;
    while (room < 4 * (size_t)texts->count)
        room *= 2;
    if (room > texts->slot_mask + (size_t)1 && !grow((void **)&texts->slots, room, sizeof(int32_t)))
        return 0;
    room = room > texts->slot_mask + (size_t)1 ? room : texts->slot_mask + (size_t)1;
    memset(texts->slots, 0, room * sizeof(int32_t));
    texts->slot_mask = (uint32_t)(room - 1);
    for (int32_t code = 0; code < texts->count; code++) {
        uint32_t slot = texts->entries[code].hash & texts->slot_mask;
        while (texts->slots[slot])
            slot = (slot + 1) & texts->slot_mask;
        texts->slots[slot] = code + 1;
    }
    return 1;
}

static inline int is_text(const Texts *texts, int32_t code, const unsigned char *text, size_t size) {
    const Entry *entry = &texts->entries[code];
    return entry->size == size && !memcmp(texts->bytes + entry->at, text, size);
}

static int32_t add_text(Texts *texts, uint32_t slot, uint32_t hash, const unsigned char *text, size_t size) {
    if (texts->count == texts->entry_room) {
        int32_t room = texts->entry_room ? 2 * texts->entry_room : 32;
        if (texts->count > INT32_MAX / 4 || !grow((void **)&texts->entries, room, sizeof(Entry)))
            return -1;
        texts->entry_room = room;
    }
    if (texts->used + size > texts->room) {
        size_t room = 2 * texts->room + size + 256;
        if (!grow((void **)&texts->bytes, room, 1))
            return -1;
        texts->room = room;
    }
    memcpy(texts->bytes + texts->used, text, size);
    texts->entries[texts->count] = (Entry){texts->used, (uint32_t)size, hash};
    texts->used += size;
    texts->slots[slot] = ++texts->count;
    if (2 * (uint32_t)texts->count > texts->slot_mask && !spread_slots(texts))
        return -1;
    return texts->last = texts->count - 1;
}

/* The code of a text; -1 if there is no memory. */
static inline int32_t code_of(Texts *texts, const unsigned char *text, size_t size) {
    if (texts->count && is_text(texts, texts->last, text, size))
        return texts->last;
    if (size > UINT32_MAX || (!texts->slots && !spread_slots(texts)))
        return -1;
    uint32_t hash = hash_text(text, size), slot = hash & texts->slot_mask;
    for (int32_t code; (code = texts->slots[slot]); slot = (slot + 1) & texts->slot_mask)
        if (texts->entries[code - 1].hash == hash && is_text(texts, code - 1, text, size))
            return texts->last = code - 1;
    return add_text(texts, slot, hash, text, size);
}

/* Forgets all texts from a code on. */
static int forget_texts(Texts *texts, int32_t count) {
    if (count == texts->count)
        return 1;
    texts->used = texts->entries[count].at;
    texts->count = count;
    texts->last = 0;
    return spread_slots(texts);
}

static void free_texts(Texts *texts) {
    PyMem_Free(texts->bytes);
    PyMem_Free(texts->entries);
    PyMem_Free(texts->slots);
}

#endif
