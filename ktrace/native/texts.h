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
    size_t used, capacity;
    Entry *entries;
    int32_t count, entry_capacity;
    int32_t *slots; /* an open hash table of codes + 1; 0 is free */
    uint32_t slot_mask;
    int32_t last; /* the code of the last text: texts often repeat at once */
    int32_t told; /* texts that Python knows already */
} Texts;

/* The key of all hashes: random in each process, so that no file can be made of texts that collide. */
static uint64_t hash_key[2];

#define ROTATED(word, by) ((word) << (by) | (word) >> (64 - (by)))

static inline void sip_round(uint64_t state[4]) {
    state[0] += state[1];
    state[2] += state[3];
    state[1] = ROTATED(state[1], 13) ^ state[0];
    state[3] = ROTATED(state[3], 16) ^ state[2];
    state[0] = ROTATED(state[0], 32) + state[3];
    state[2] += state[1];
    state[1] = ROTATED(state[1], 17) ^ state[2];
    state[3] = ROTATED(state[3], 21) ^ state[0];
    state[2] = ROTATED(state[2], 32);
}

/* SipHash-1-3 (Aumasson and Bernstein, 2012), half of its bits. */
static inline uint32_t hash_text(const unsigned char *text, size_t size) {
    uint64_t word = 0, state[4] = {hash_key[0] ^ 0x736F6D6570736575u, hash_key[1] ^ 0x646F72616E646F6Du,
                                   hash_key[0] ^ 0x6C7967656E657261u, hash_key[1] ^ 0x7465646279746573u};
    uint64_t last = (uint64_t)size << 56;
    for (; size >= 8; size -= 8, text += 8) {
        memcpy(&word, text, 8);
        state[3] ^= word;
        sip_round(state);
        state[0] ^= word;
    }
    for (size_t at = 0; at < size; at++)
        last |= (uint64_t)text[at] << 8 * at;
    state[3] ^= last;
    sip_round(state);
    state[0] ^= last;
    state[2] ^= 0xFF;
    for (int round = 0; round < 3; round++)
        sip_round(state);
    return (uint32_t)(state[0] ^ state[1] ^ state[2] ^ state[3]);
}

/* Makes the table of slots anew, for at least twice as many texts as there are. */
static int spread_slots(Texts *texts) {
    size_t capacity = 64;
    while (capacity < 4 * (size_t)texts->count)
        capacity *= 2;
    if (capacity > texts->slot_mask + (size_t)1 && !grow((void **)&texts->slots, capacity, sizeof(int32_t)))
        return 0;
    capacity = capacity > texts->slot_mask + (size_t)1 ? capacity : texts->slot_mask + (size_t)1;
    memset(texts->slots, 0, capacity * sizeof(int32_t));
    texts->slot_mask = (uint32_t)(capacity - 1);
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
    if (texts->count == texts->entry_capacity) {
        int32_t capacity = texts->entry_capacity ? 2 * texts->entry_capacity : 32;
        if (texts->count > INT32_MAX / 4 || !grow((void **)&texts->entries, capacity, sizeof(Entry)))
            return -1;
        texts->entry_capacity = capacity;
    }
    if (texts->used + size > texts->capacity) {
        size_t capacity = 2 * texts->capacity + size + 256;
        if (!grow((void **)&texts->bytes, capacity, 1))
            return -1;
        texts->capacity = capacity;
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
