/* A pool and a channel in C: a parent makes both, a child that was forked off before attaches by references, and messages say
 * where in the pool the bytes are that the two exchange.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define PATIENCE_MS 60000
#define ROUNDS 100
/* Bytes of what the child hands over: more than a block of a channel. */
#define LARGE 5000

struct reference {
    size_t length;
    unsigned char bytes[512];
};

/* What the parent tells the child over a pipe. */
struct start {
    struct reference pool, requests, answers, memory;
};

/* Takes texts out of the pool, turns them round in place, and says so. */
static int child(int from_parent)
{
    struct start start;
    umbra_pool pool;
    umbra_channel requests, answers, memory;
    umbra_allocation last;
    uint64_t hints;
    void *end;
    doing = "the child";
    CHECK(read(from_parent, &start, sizeof start) == (ssize_t)sizeof start);
    must(umbra_pool_attach_reference(start.pool.bytes, start.pool.length, &pool));
    must(umbra_channel_attach_reference(start.requests.bytes, start.requests.length, &requests));
    must(umbra_channel_attach_reference(start.answers.bytes, start.answers.length, &answers));
    must(umbra_channel_attach_reference(start.memory.bytes, start.memory.length, &memory));
    do {
        struct reference text;
        umbra_allocation allocation;
        uint64_t length, i;
        void *address;
        must(umbra_channel_receive(requests, text.bytes, sizeof text.bytes, UMBRA_WAIT_IDLE, PATIENCE_MS, &text.length,
                                   &hints));
        must(umbra_allocation_find(pool, text.bytes, text.length, &allocation, &address, &length));
        for (i = 0; i < length / 2; i++) {
            char *front = (char *)address + i, *back = (char *)address + length - 1 - i, kept = *front;
            *front = *back;
            *back = kept;
        }
        must(umbra_channel_send(answers, &allocation, sizeof allocation, hints, UMBRA_WAIT_ADAPTIVE, PATIENCE_MS));
    } while (hints + 1 < ROUNDS);
    must(umbra_pool_alloc(pool, LARGE, 0, 0, &last, &end));
    memset(end, 'x', LARGE);
    must(umbra_channel_send_memory(memory, pool, last, 0, LARGE, 0, ROUNDS, UMBRA_WAIT_IDLE, PATIENCE_MS));
    CHECK(umbra_allocation_free(pool, last) == -UMBRA_ESTALE);
    must(umbra_channel_detach(memory));
    must(umbra_channel_detach(requests));
    must(umbra_channel_detach(answers));
    must(umbra_pool_detach(pool));
    return 0;
}

static void refer(int (*to)(uint64_t, void *, size_t, size_t *), uint64_t object, struct reference *reference)
{
    size_t needed = 0;
    CHECK(to(object, reference->bytes, 1, &needed) == -UMBRA_ESIZE && needed > 1);
    must(to(object, reference->bytes, sizeof reference->bytes, &reference->length));
    CHECK(reference->length == needed);
}

static void exchange(umbra_pool pool, umbra_channel requests, umbra_channel answers)
{
    uint64_t round;
    doing = "exchange";
    for (round = 0; round < ROUNDS; round++) {
        struct reference text;
        umbra_allocation allocation, answered = 0;
        void *address;
        size_t length = 0;
        uint64_t hints = 0;
        must(umbra_pool_alloc(pool, 6, 1, 0, &allocation, &address));
        memcpy(address, "abcdef", 6);
        must(umbra_allocation_reference(pool, allocation, text.bytes, sizeof text.bytes, &text.length));
        must(umbra_channel_send(requests, text.bytes, text.length, round, UMBRA_WAIT_ADAPTIVE, PATIENCE_MS));
        must(umbra_channel_receive(answers, &answered, sizeof answered, UMBRA_WAIT_IDLE, PATIENCE_MS, &length, &hints));
        CHECK(length == sizeof answered && answered == allocation && hints == round);
        CHECK(memcmp(address, "fedcba", 6) == 0);
        must(umbra_allocation_free(pool, allocation));
        CHECK(umbra_allocation_free(pool, allocation) == -UMBRA_ESTALE);
    }
}

static void refusals(umbra_pool pool, umbra_channel channel)
{
    struct umbra_pool_statistics statistics;
    struct reference reference;
    umbra_allocation allocation = 0, all;
    umbra_pool other = 0;
    struct umbra_pool_options options;
    char name[32];
    umbra_pool named = 0;
    struct umbra_channel_options twins;
    umbra_channel twin = 0, taken = 0;
    uint64_t result = 0, length = 0;
    char pad[2048];
    size_t got = 0;
    void *address = NULL;
    doing = "refusals";
    CHECK(umbra_pool_alloc(pool, UINT64_MAX, 0, UMBRA_FOREVER, &allocation, &address) == -UMBRA_ENEVER);
    CHECK(umbra_pool_alloc(pool, 1, 0, 0, NULL, &address) == -UMBRA_EINVAL);
    CHECK(umbra_pool_alloc(channel, 1, 0, 0, &allocation, &address) == -UMBRA_EKIND);
    must(umbra_pool_alloc(pool, 1 << 20, 0, 0, &all, &address));
    CHECK(umbra_pool_alloc(pool, 1, 0, 0, &allocation, &address) == -UMBRA_EFULL);
    CHECK(umbra_pool_alloc(pool, 1, 0, 5, &allocation, &address) == -UMBRA_ETIMEOUT);
    must(umbra_allocation_look(pool, all, &address, &length));
    CHECK(length == 1 << 20 && allocation == 0);
    must(umbra_pool_list(pool, UINT32_MAX, &allocation, NULL, 1, &got));
    CHECK(got == 1 && allocation == all);
    CHECK(umbra_pool_list(pool, UINT32_MAX, NULL, NULL, 0, &got) == -UMBRA_ESIZE && got == 1);
    must(umbra_pool_list(pool, 77, NULL, NULL, 0, &got));
    CHECK(got == 0);
    allocation = 0;
    statistics.size = sizeof statistics;
    must(umbra_pool_statistics(pool, &statistics));
    CHECK(statistics.bytes == 1 << 20 && statistics.asked_bytes == 1 << 20 && statistics.allocations == 1);
    must(umbra_allocation_free(pool, all));
    must(umbra_pool_reclaim(pool));
    refer(umbra_pool_reference, pool, &reference);
    reference.bytes[30] ^= 1;
    CHECK(umbra_pool_attach_reference(reference.bytes, reference.length, &other) == -UMBRA_EINVAL && other == 0);
    memset(&twins, 0, sizeof twins);
    twins.size = sizeof twins;
    CHECK(umbra_uid_draw(NULL) == -UMBRA_EINVAL);
    must(umbra_uid_draw(&twins.uid));
    must(umbra_channel_create(&twins, &twin));
    CHECK(umbra_channel_create(&twins, &taken) == -UMBRA_EINVAL && taken == 0);
    must(umbra_channel_detach(twin));
    CHECK(umbra_pool_attach("no/name", &other) == -UMBRA_EINVAL);
    CHECK(umbra_pool_attach("umbra-c-none", &other) == -UMBRA_ENOPOOL);
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.bytes = 1 << 16;
    snprintf(name, sizeof name, "umbra-c-%ld", (long)getpid());
    must(umbra_pool_create(name, &options, &named));
    CHECK(umbra_pool_create(name, &options, &other) == -UMBRA_EEXISTS && other == 0);
    must(umbra_pool_detach(named));
    CHECK(umbra_channel_receive(channel, pad, sizeof pad, 0, 0, &got, NULL) == -UMBRA_EEMPTY);
    CHECK(umbra_channel_receive(channel, pad, sizeof pad, 0, 5, &got, NULL) == -UMBRA_ETIMEOUT);
    CHECK(umbra_channel_peek(channel, pad, sizeof pad, 0, 0, &got, NULL) == -UMBRA_EEMPTY);
    CHECK(umbra_channel_peek(channel, NULL, 1, 0, 0, &got, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_channel_send(channel, pad, sizeof pad, 0, 0, 0) == -UMBRA_ENEVER);
    CHECK(umbra_channel_send(channel, NULL, 1, 0, 0, 0) == -UMBRA_EINVAL);
    CHECK(umbra_channel_send(channel, "hello", 5, 0, 9, 0) == -UMBRA_EINVAL);
    must(umbra_channel_send(channel, "hello", 5, UINT64_MAX, 0, 0));
    memset(pad, 0, sizeof pad);
    must(umbra_channel_peek(channel, pad, 4, 0, 0, &got, &result));
    CHECK(got == 5 && memcmp(pad, "hell\0", 5) == 0 && result == UINT64_MAX);
    CHECK(umbra_channel_receive(channel, pad, 4, 0, 0, &got, NULL) == -UMBRA_ESIZE && got == 5);
    must(umbra_channel_poll(channel, UMBRA_POLL_SIZE, 0, 0, &result));
    CHECK(result == 1);
    must(umbra_channel_receive(channel, pad, sizeof pad, 0, 0, &got, &result));
    CHECK(got == 5 && memcmp(pad, "hello", 5) == 0 && result == UINT64_MAX);
    CHECK(umbra_channel_poll(channel, UMBRA_POLL_IN, UMBRA_WAIT_IDLE, 5, NULL) == -UMBRA_ETIMEOUT);
    CHECK(umbra_channel_poll(channel, 0, 0, 0, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_channel_poll(channel, -30000, 0, 0, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_channel_poll(channel, UMBRA_POLL_SEMAPHORE_P, 0, 0, NULL) == -UMBRA_EKIND);
}

/* What a process leaves allocated that ends without freeing it. */
static void of_the_dead(umbra_pool pool)
{
    struct umbra_pool_statistics before, after;
    umbra_allocation own, left;
    size_t freed = 77;
    void *address;
    int status = 1, i;
    pid_t pid;
    doing = "what the dead had";
    before.size = after.size = sizeof before;
    must(umbra_pool_statistics(pool, &before));
    must(umbra_pool_alloc(pool, 64, 0, 0, &own, &address));
    CHECK(umbra_pool_free_allocations_of(pool, (uint32_t)getpid(), &freed) == -UMBRA_EINUSE && freed == 77);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        for (i = 0; i < 3 && umbra_pool_alloc(pool, 64, 0, 0, &left, &address) == 0; i++)
            ;
        _exit(i == 3 ? 0 : 1);
    }
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(umbra_pool_free_allocations_of(pool, (uint32_t)pid, NULL) == -UMBRA_EINVAL);
    must(umbra_pool_free_allocations_of(pool, (uint32_t)pid, &freed));
    CHECK(freed == 3);
    must(umbra_pool_free_allocations_of(pool, (uint32_t)pid, &freed));
    CHECK(freed == 0);
    must(umbra_allocation_free(pool, own));
    must(umbra_pool_statistics(pool, &after));
    CHECK(after.allocations == before.allocations);
}

/* Parts of allocations, in two pools of which one is small. */
static void contents(umbra_pool pool)
{
    struct umbra_pool_options options;
    struct reference reference;
    umbra_allocation one, two, same = 0, found = 0, none = 0;
    umbra_pool small;
    uint64_t hash = 0, other = 0, length = 0;
    size_t needed = 0;
    void *at, *at_two, *at_same = NULL, *at_found = NULL;
    int is_equal = 7;
    doing = "contents";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.bytes = 1 << 16;
    must(umbra_pool_create(NULL, &options, &small));
    must(umbra_pool_alloc(pool, 10000, 5, 0, &one, &at));
    must(umbra_pool_alloc(small, 10000, 0, 0, &two, &at_two));
    memset(at, 'x', 10000);
    memset(at_two, 'x', 10000);
    ((char *)at_two)[9999] = 'y';

    must(umbra_allocation_equal(pool, one, 0, small, two, 0, 10000, &is_equal));
    CHECK(is_equal == 0);
    must(umbra_allocation_equal(pool, one, 0, small, two, 0, 9999, &is_equal));
    CHECK(is_equal == 1);
    must(umbra_allocation_equal(pool, one, 0, pool, one, 5000, 5000, &is_equal));
    CHECK(is_equal == 1);
    must(umbra_allocation_hash(pool, one, 100, 9000, &hash));
    must(umbra_allocation_hash(small, two, 0, 9000, &other));
    CHECK(hash == other && hash != 0);
    must(umbra_allocation_hash(small, two, 1000, 9000, &other));
    CHECK(hash != other);

    must(umbra_allocation_copy(small, two, 9000, 1000, pool, 0, &same, &at_same));
    must(umbra_allocation_look(pool, same, &at_found, &length));
    CHECK(length == 1000 && at_found == at_same && memcmp(at_same, (char *)at_two + 9000, 1000) == 0);
    must(umbra_allocation_copy(pool, one, 10000, 0, small, 0, &found, &at_found));
    must(umbra_allocation_copy(pool, one, 0, 10000, pool, 5, &found, &at_found));
    CHECK(umbra_pool_list(pool, 5, &none, NULL, 1, &needed) == -UMBRA_ESIZE && needed == 2);
    must(umbra_allocation_free(pool, found));

    must(umbra_allocation_part_reference(small, two, 9999, 1, reference.bytes, sizeof reference.bytes, &reference.length));
    must(umbra_allocation_find(small, reference.bytes, reference.length, &found, &at_found, &length));
    CHECK(found == two && length == 1 && *(char *)at_found == 'y');

    none = 0;
    CHECK(umbra_allocation_hash(pool, one, 9999, 2, &hash) == -UMBRA_EBOUNDS);
    CHECK(umbra_allocation_hash(pool, one, UINT64_MAX, 2, &hash) == -UMBRA_EBOUNDS);
    CHECK(umbra_allocation_hash(pool, one, 0, 1, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_allocation_equal(pool, one, 0, small, two, 1, 10000, &is_equal) == -UMBRA_EBOUNDS);
    CHECK(umbra_allocation_part_reference(small, two, 1, 10000, reference.bytes, 512, &needed) == -UMBRA_EBOUNDS);
    must(umbra_pool_alloc(pool, 100000, 0, 0, &found, &at_found));
    CHECK(umbra_allocation_copy(pool, found, 0, 100000, small, 0, &none, &at_same) == -UMBRA_ENEVER);
    CHECK(umbra_allocation_copy(pool, found, 0, 60000, small, 0, &none, &at_same) == -UMBRA_EFULL);
    CHECK(umbra_allocation_copy(pool, found, 0, 60000, small, 5, &none, &at_same) == -UMBRA_ETIMEOUT && none == 0);
    must(umbra_allocation_free(pool, found));
    CHECK(umbra_allocation_copy(pool, found, 0, 1, pool, 0, &none, &at_same) == -UMBRA_ESTALE);
    must(umbra_allocation_free(pool, one));
    CHECK(umbra_allocation_equal(small, two, 0, pool, one, 0, 10, &is_equal) == -UMBRA_ESTALE);
    must(umbra_allocation_free(pool, same));
    must(umbra_pool_detach(small));
}

static void semaphores_and_barriers(void)
{
    struct umbra_channel_options options;
    umbra_channel semaphore, alone;
    uint64_t before = 0;
    uint32_t came = 7;
    doing = "semaphore";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.kind = UMBRA_CHANNEL_SEMAPHORE;
    options.bounded = 1;
    options.initial = 1;
    must(umbra_channel_create(&options, &semaphore));
    CHECK(umbra_channel_poll(semaphore, UMBRA_POLL_SEMAPHORE_V, 0, 0, NULL) == -UMBRA_EFULL);
    must(umbra_channel_poll(semaphore, UMBRA_POLL_SEMAPHORE_P, 0, 0, &before));
    CHECK(before == 1);
    CHECK(umbra_channel_poll(semaphore, UMBRA_POLL_SEMAPHORE_P, 0, 0, NULL) == -UMBRA_ETIMEOUT);
    must(umbra_channel_destroy(semaphore));
    CHECK(umbra_channel_destroy(semaphore) == -UMBRA_EDESTROYED);
    must(umbra_channel_detach(semaphore));
    CHECK(umbra_channel_detach(semaphore) == -UMBRA_ESTALE);
    doing = "barrier";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.capacity = 1;
    must(umbra_channel_create(&options, &alone));
    must(umbra_channel_barrier(alone, 0, PATIENCE_MS, &came));
    CHECK(came == 0);
    must(umbra_channel_poll(alone, UMBRA_POLL_BARRIER_ABORT, 0, 0, NULL));
    CHECK(umbra_channel_barrier(alone, 0, PATIENCE_MS, &came) == -UMBRA_EBROKEN);
    must(umbra_channel_detach(alone));
}

/* A party of a barrier that ended is one no more as soon as somebody asks for it. */
static void what_the_dead_held(void)
{
    struct umbra_channel_options options;
    umbra_channel channel;
    uint64_t is_broken = 7;
    int status = 1;
    pid_t pid;
    doing = "reclaim";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.capacity = 2;
    must(umbra_channel_create(&options, &channel));
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        _exit(umbra_channel_poll(channel, UMBRA_POLL_BARRIER_WAIT, UMBRA_WAIT_IDLE, 0, NULL) == 0 ? 0 : 1);
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    must(umbra_channel_poll(channel, UMBRA_POLL_BARRIER_IS_BROKEN, 0, 0, &is_broken));
    CHECK(is_broken == 0);
    must(umbra_channel_reclaim(channel));
    must(umbra_channel_poll(channel, UMBRA_POLL_BARRIER_IS_BROKEN, 0, 0, &is_broken));
    CHECK(is_broken == 1);
    must(umbra_channel_detach(channel));
    CHECK(umbra_channel_reclaim(channel) == -UMBRA_ESTALE);
}

/* What the child sent at the end is this process's now. */
static void handed_over(umbra_pool pool, umbra_channel channel)
{
    struct umbra_received received;
    must(umbra_channel_receive_memory(channel, pool, UMBRA_WAIT_IDLE, PATIENCE_MS, &received));
    CHECK(received.pool == pool && received.length == LARGE && received.arg == ROUNDS && received.lent == 0);
    CHECK(((char *)received.address)[0] == 'x' && memcmp(received.address, (char *)received.address + 1, LARGE - 1) == 0);
    must(umbra_allocation_free(pool, received.allocation));
    must(umbra_channel_destroy(channel));
    must(umbra_channel_detach(channel));
}

/* Handed over, lent, put into a pool, and refused. */
static void memory_through_channels(umbra_pool pool)
{
    struct umbra_channel_options options;
    struct umbra_pool_options small;
    struct umbra_received received;
    struct umbra_pool_statistics before, after;
    umbra_channel channel, plain;
    umbra_pool other;
    umbra_allocation text, elsewhere;
    char long_text[2000], copy[2000];
    size_t length = 0;
    uint64_t hints = 0;
    void *address, *at;

    doing = "memory through channels";
    before.size = after.size = sizeof before;
    must(umbra_pool_statistics(pool, &before));
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.capacity = 2;
    must(umbra_channel_create_in(pool, &options, &channel));
    must(umbra_channel_create(&options, &plain));
    CHECK(umbra_channel_create_in(plain, &options, &plain) == -UMBRA_EKIND);
    must(umbra_pool_alloc(pool, 100, 7, 0, &text, &address));
    memcpy(address, "0123456789", 10);

    /* Lent: a part, which is read where it is, and stays the sender's. */
    must(umbra_channel_send_memory(channel, pool, text, 3, 4, 1, 5, 0, 0));
    must(umbra_channel_receive_memory(channel, pool, 0, 0, &received));
    CHECK(received.lent == 1 && received.allocation == text && received.arg == 5 && received.length == 4);
    CHECK((char *)received.address == (char *)address + 3 && memcmp(received.address, "3456", 4) == 0);
    /* Into another pool it is copied, and the copy is the receiver's. */
    memset(&small, 0, sizeof small);
    small.size = sizeof small;
    small.bytes = 1 << 16;
    must(umbra_pool_create(NULL, &small, &other));
    must(umbra_channel_send_memory(channel, pool, text, 0, 10, 1, 6, 0, 0));
    must(umbra_channel_receive_memory(channel, other, 0, 0, &received));
    CHECK(received.lent == 0 && received.pool == other && memcmp(received.address, "0123456789", 10) == 0);
    /* Of another pool nothing is sent, through a channel of none nothing at all; all is as before then. */
    elsewhere = received.allocation;
    CHECK(umbra_channel_send_memory(channel, other, elsewhere, 0, 10, 0, 0, 0, 0) == -UMBRA_EINVAL);
    CHECK(umbra_channel_send_memory(plain, pool, text, 0, 10, 0, 0, 0, 0) == -UMBRA_EINVAL);
    CHECK(umbra_channel_send_memory(channel, pool, text, 91, 10, 0, 0, 0, 0) == -UMBRA_EBOUNDS);
    CHECK(umbra_channel_send_memory(channel, pool, text, 0, 10, 2, 0, 0, 0) == -UMBRA_EINVAL);
    CHECK(umbra_channel_receive_memory(channel, pool, 0, 0, &received) == -UMBRA_EEMPTY);
    CHECK(umbra_channel_receive_memory(channel, pool, 0, 0, NULL) == -UMBRA_EINVAL);
    must(umbra_allocation_free(other, elsewhere));

    /* Handed over: the number is another one; as bytes it is freed. */
    must(umbra_channel_send_memory(channel, pool, text, 0, 10, 0, 7, 0, 0));
    CHECK(umbra_channel_send_memory(channel, pool, text, 0, 10, 0, 7, 0, 0) == -UMBRA_ESTALE);
    must(umbra_channel_receive_memory(channel, pool, 0, 0, &received));
    CHECK(received.address == address && received.allocation != text && received.lent == 0);
    must(umbra_channel_send_memory(channel, pool, received.allocation, 2, 8, 0, 8, 0, 0));
    must(umbra_channel_receive(channel, copy, sizeof copy, 0, 0, &length, &hints));
    CHECK(length == 8 && hints == 8 && memcmp(copy, "23456789", 8) == 0);
    CHECK(umbra_allocation_look(pool, received.allocation, &at, &hints) == -UMBRA_ESTALE);
    /* What is longer than a block goes through the pool. */
    memset(long_text, 'l', sizeof long_text);
    must(umbra_channel_send(channel, long_text, sizeof long_text, 9, 0, 0));
    CHECK(umbra_channel_receive(channel, copy, sizeof copy - 1, 0, 0, &length, &hints) == -UMBRA_ESIZE && length == sizeof copy);
    must(umbra_channel_receive(channel, copy, sizeof copy, 0, 0, &length, &hints));
    CHECK(length == sizeof copy && memcmp(copy, long_text, sizeof copy) == 0);
    CHECK(umbra_channel_send(plain, long_text, sizeof long_text, 9, 0, 0) == -UMBRA_ENEVER);

    /* What nobody received is freed with the channel, and the channel with its last user. */
    must(umbra_channel_send(channel, long_text, sizeof long_text, 9, 0, 0));
    must(umbra_channel_destroy(channel));
    must(umbra_channel_detach(channel));
    must(umbra_channel_detach(plain));
    must(umbra_pool_detach(other));
    must(umbra_pool_statistics(pool, &after));
    CHECK(before.allocations == after.allocations);
}

int main(void)
{
    struct umbra_pool_options options;
    struct umbra_channel_options channels;
    struct start start;
    umbra_pool pool;
    umbra_channel requests, answers, memory;
    int to_child[2], status = 1;
    pid_t pid;

    /* The child attaches for itself: it is made before there is anything. */
    CHECK(pipe(to_child) == 0);
    pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(to_child[1]);
        return child(to_child[0]);
    }
    close(to_child[0]);

    doing = "set up";
    memset(&options, 0, sizeof options);
    options.bytes = 1 << 20;
    CHECK(umbra_pool_create(NULL, &options, &pool) == -UMBRA_ESTRUCT);
    options.size = sizeof options;
    options.memory = 9;
    CHECK(umbra_pool_create(NULL, &options, &pool) == -UMBRA_EINVAL);
    options.memory = UMBRA_MEMORY_SHARED;
    must(umbra_pool_create(NULL, &options, &pool));
    memset(&channels, 0, sizeof channels);
    channels.size = sizeof channels;
    channels.capacity = 4;
    must(umbra_channel_create(&channels, &requests));
    must(umbra_channel_create(&channels, &answers));
    /* What the child hands over without a copy is of the pool in which the channel lies. */
    must(umbra_channel_create_in(pool, &channels, &memory));
    memset(&start, 0, sizeof start);
    refer(umbra_pool_reference, pool, &start.pool);
    refer(umbra_channel_reference, requests, &start.requests);
    refer(umbra_channel_reference, answers, &start.answers);
    refer(umbra_channel_reference, memory, &start.memory);
    CHECK(write(to_child[1], &start, sizeof start) == (ssize_t)sizeof start);

    exchange(pool, requests, answers);
    handed_over(pool, memory);
    doing = "the child's end";
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    refusals(pool, answers);
    of_the_dead(pool);
    contents(pool);
    memory_through_channels(pool);
    semaphores_and_barriers();
    what_the_dead_held();

    doing = "the end";
    must(umbra_pool_destroy(pool));
    CHECK(umbra_pool_destroy(pool) == -UMBRA_EDESTROYED);
    must(umbra_pool_detach(pool));
    must(umbra_channel_detach(requests));
    must(umbra_channel_detach(answers));
    printf("all is right\n");
    return 0;
}
