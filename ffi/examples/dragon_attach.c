/* Attaching in the words of Dragon's core, over Umbra: several processes attach one pool, one channel and one allocation again and
 * again, detach in any order, and use what is left until the last one.
 *
 *     dragon_attach [TIMES]
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dragon_check.h"

#define PARTIES 4
#define KINDS 3

static const char text[] = "what all of them see";

/* An attached pool, channel or allocation. */
struct attached {
    int kind, is_there;
    dragonMemoryPoolDescr_t pool;
    dragonChannelDescr_t channel;
    dragonMemoryDescr_t memory;
};

static void attach(struct attached *to, int kind, const dragonSerial_t *serial)
{
    memset(to, 0, sizeof *to);
    to->kind = kind;
    to->is_there = 1;
    if (kind == 0)
        OK(dragon_memory_pool_attach(&to->pool, serial));
    else if (kind == 1)
        OK(dragon_channel_attach(serial, &to->channel));
    else
        OK(dragon_memory_attach(&to->memory, serial));
}

static void use(struct attached *one)
{
    dragonMemoryDescr_t memory;
    dragonULInt muid = 0;
    uint64_t count = 9;
    void *address = NULL;
    if (one->kind == 0) {
        OK(dragon_memory_pool_muid(&one->pool, &muid));
        CHECK(muid == 44);
        OK(dragon_memory_alloc(&memory, &one->pool, 100));
        OK(dragon_memory_free(&memory));
    } else if (one->kind == 1) {
        OK(dragon_channel_message_count(&one->channel, &count));
        CHECK(count == 0);
    } else {
        OK(dragon_memory_get_pointer(&one->memory, &address));
        CHECK(memcmp(address, text, sizeof text) == 0);
    }
}

static void detach(struct attached *one)
{
    dragonMemoryPoolDescr_t pool = one->pool;
    uint64_t size = 0;
    if (one->kind == 0) {
        OK(dragon_memory_pool_detach(&one->pool));
        IS(INVALID_ARGUMENT, dragon_memory_pool_get_free_size(&pool, &size));
    } else if (one->kind == 1) {
        OK(dragon_channel_detach(&one->channel));
    } else {
        OK(dragon_memory_detach(&one->memory));
    }
    one->is_there = 0;
}

/* Attaches each so many times, and detaches in an order that is different in each process. */
static void come_and_go(const dragonSerial_t serials[KINDS], int times, unsigned seed)
{
    const int all = times * KINDS;
    struct attached *attached = malloc((size_t)all * sizeof *attached);
    int left, last[KINDS], i;
    CHECK(attached != NULL);
    for (i = 0; i < all; i++)
        attach(&attached[i], i % KINDS, &serials[i % KINDS]);
    for (left = all; left > 0; left--) {
        seed = seed * 1103515245 + 12345;
        i = (int)(seed >> 8) % left;
        detach(&attached[i]);
        attached[i] = attached[left - 1];
        /* One of each kind that is left is used. */
        last[0] = last[1] = last[2] = -1;
        for (i = 0; i < left - 1 && (last[0] < 0 || last[1] < 0 || last[2] < 0); i++)
            last[attached[i].kind] = i;
        for (i = 0; i < KINDS; i++)
            if (last[i] >= 0)
                use(&attached[last[i]]);
    }
    free(attached);
}

/* What is attached of one pool again and again takes one handle of it in all, also if some is never detached. */
static void share(const dragonSerial_t serials[KINDS], int times)
{
    dragonMemoryPoolDescr_t own, first, of;
    dragonMemoryDescr_t memory, other;
    dragonChannelDescr_t channel;
    uint64_t size = 0;
    int i;

    /* The last of those who share it releases it. */
    OK(dragon_memory_attach(&memory, &serials[2]));
    OK(dragon_memory_attach(&other, &serials[2]));
    OK(dragon_memory_get_pool(&other, &of));
    OK(dragon_memory_detach(&memory));
    OK(dragon_memory_pool_get_free_size(&of, &size));
    OK(dragon_memory_detach(&other));
    IS(INVALID_ARGUMENT, dragon_memory_pool_get_free_size(&of, &size));

    OK(dragon_channel_attach(&serials[1], &channel));
    OK(dragon_channel_get_pool(&channel, &first));
    OK(dragon_channel_detach(&channel));
    for (i = 0; i < times; i++) {
        OK(dragon_channel_attach(&serials[1], &channel));
        OK(dragon_channel_get_pool(&channel, &of));
        CHECK(memcmp(&of, &first, sizeof of) == 0);
        OK(dragon_channel_detach(&channel));
        OK(dragon_memory_attach(&memory, &serials[2]));
        OK(dragon_memory_get_pool(&memory, &of));
        CHECK(memcmp(&of, &first, sizeof of) == 0);
    }
    OK(dragon_memory_pool_get_free_size(&first, &size));
    /* What is attached as a pool is a handle of its own. */
    OK(dragon_memory_pool_attach(&own, &serials[0]));
    CHECK(memcmp(&own, &first, sizeof own) != 0);
    OK(dragon_memory_pool_detach(&own));
    OK(dragon_memory_pool_get_free_size(&first, &size));
}

/* Whatever becomes of a descriptor that was attached, its use of the pool is given up once, by the last detach. */
static void keep_its_use(const dragonSerial_t *of_memory, const dragonSerial_t *of_nothing)
{
    dragonMemoryPoolDescr_t of;
    dragonMemoryDescr_t memory, other;
    dragonMessage_t message;
    uint64_t size = 0;

    OK(dragon_memory_attach(&memory, of_memory));
    OK(dragon_memory_get_pool(&memory, &of));
    OK(dragon_memory_descr_move(&memory, &memory));
    OK(dragon_memory_descr_move(&other, &memory));
    IS(INVALID_ARGUMENT, dragon_memory_detach(&memory));
    OK(dragon_memory_detach(&other));
    IS(INVALID_ARGUMENT, dragon_memory_pool_get_free_size(&of, &size));

    /* A message has a copy, or what was moved into it. */
    OK(dragon_memory_attach(&memory, of_memory));
    OK(dragon_memory_get_pool(&memory, &of));
    OK(dragon_channel_message_init(&message, &memory, NULL));
    OK(dragon_channel_message_get_mem(&message, &other));
    OK(dragon_memory_detach(&other));
    OK(dragon_memory_pool_get_free_size(&of, &size));
    OK(dragon_channel_message_init_move(&message, &memory, NULL));
    IS(INVALID_ARGUMENT, dragon_memory_detach(&memory));
    OK(dragon_channel_message_get_mem(&message, &other));
    OK(dragon_memory_detach(&other));
    IS(INVALID_ARGUMENT, dragon_memory_pool_get_free_size(&of, &size));

    /* Nothing that becomes an allocation is of the pool as before, also if there is no room for it at first. */
    OK(dragon_memory_attach(&memory, of_nothing));
    OK(dragon_memory_get_pool(&memory, &of));
    IS(DYNHEAP_REQUESTED_SIZE_TOO_LARGE, dragon_memory_modify_size(&memory, SIZE_MAX, NULL));
    OK(dragon_memory_modify_size(&memory, 10, NULL));
    OK(dragon_memory_free(&memory));
    OK(dragon_memory_detach(&memory));
    IS(INVALID_ARGUMENT, dragon_memory_pool_get_free_size(&of, &size));

    /* With what is freed with its message. */
    OK(dragon_memory_attach(&memory, of_nothing));
    OK(dragon_memory_get_pool(&memory, &of));
    OK(dragon_memory_modify_size(&memory, 10, NULL));
    OK(dragon_channel_message_init_move(&message, &memory, NULL));
    OK(dragon_channel_message_destroy(&message, true));
    IS(INVALID_ARGUMENT, dragon_memory_pool_get_free_size(&of, &size));
}

static int child(int from_parent, int times, unsigned seed)
{
    dragonSerial_t serials[KINDS];
    int i;
    for (i = 0; i < KINDS; i++)
        serials[i] = get(from_parent);
    come_and_go(serials, times, seed);
    come_and_go(serials, times, seed + 1);
    for (i = 0; i < KINDS; i++)
        OK(dragon_memory_serial_free(&serials[i]));
    return 0;
}

int main(int argc, char **argv)
{
    const int times = argc > 1 ? atoi(argv[1]) : 200;
    dragonMemoryPoolDescr_t pool;
    dragonMemoryPoolAllocations_t allocs;
    dragonChannelDescr_t channel;
    dragonMemoryDescr_t memory, nothing;
    dragonULInt hash = 0, other = 0;
    dragonSerial_t serials[KINDS], of_nothing;
    pid_t pids[PARTIES];
    int to[PARTIES], ends[2], status = 1, i, j;
    void *address;
    char name[30];

    /* The children attach for themselves: they are made before there is anything. */
    for (i = 0; i < PARTIES; i++) {
        CHECK(pipe(ends) == 0);
        pids[i] = fork();
        CHECK(pids[i] >= 0);
        if (pids[i] == 0) {
            /* A parent that fails ends what its children read. */
            close(ends[1]);
            for (j = 0; j < i; j++)
                close(to[j]);
            return child(ends[0], times, (unsigned)i);
        }
        close(ends[0]);
        to[i] = ends[1];
    }
    snprintf(name, sizeof name, "c-attach-%ld", (long)getpid());
    OK(dragon_memory_pool_create(&pool, 1 << 20, name, 44, NULL));
    OK(dragon_channel_create(&channel, 45, &pool, NULL));
    OK(dragon_memory_alloc(&memory, &pool, sizeof text));
    OK(dragon_memory_get_pointer(&memory, &address));
    memcpy(address, text, sizeof text);
    OK(dragon_memory_pool_serialize(&serials[0], &pool));
    OK(dragon_channel_serialize(&channel, &serials[1]));
    OK(dragon_memory_serialize(&serials[2], &memory));
    OK(dragon_memory_alloc(&nothing, &pool, 0));
    OK(dragon_memory_serialize(&of_nothing, &nothing));
    for (i = 0; i < PARTIES; i++)
        for (j = 0; j < KINDS; j++)
            put(to[i], &serials[j]);

    keep_its_use(&serials[2], &of_nothing);
    share(serials, times);
    come_and_go(serials, times, 77);
    for (i = 0; i < PARTIES; i++) {
        CHECK(waitpid(pids[i], &status, 0) == pids[i] && status == 0);
        close(to[i]);
    }

    OK(dragon_memory_hash(&memory, &hash));
    ((char *)address)[0] ^= 1;
    OK(dragon_memory_hash(&memory, &other));
    CHECK(hash != other);
    IS(INVALID_ARGUMENT, dragon_memory_hash(&memory, NULL));
    for (j = 0; j < KINDS; j++)
        OK(dragon_memory_serial_free(&serials[j]));
    OK(dragon_memory_serial_free(&of_nothing));
    OK(dragon_memory_free(&memory));
    OK(dragon_memory_pool_get_allocations(&pool, &allocs));
    CHECK(allocs.nallocs == 0);
    OK(dragon_memory_pool_allocations_destroy(&allocs));
    OK(dragon_channel_destroy(&channel));
    OK(dragon_memory_pool_destroy(&pool));
    printf("all is right\n");
    return 0;
}
