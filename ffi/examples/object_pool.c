/* A pool of objects in C: owners that threads share, and handles that go over a wire and come back.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define THREADS 4
#define ROUNDS 2000

static umbra_object_pool pool;
static unsigned char *arena;

static struct umbra_object_pool_statistics told(void)
{
    struct umbra_object_pool_statistics statistics;
    memset(&statistics, 0, sizeof statistics);
    statistics.size = sizeof statistics;
    must(umbra_object_pool_statistics(pool, &statistics));
    return statistics;
}

static int is_valid(struct umbra_weak weak)
{
    int valid = -1;
    must(umbra_object_is_valid(pool, weak, &valid));
    return valid;
}

static unsigned char *bytes_of(umbra_owner owner)
{
    uint64_t offset;
    must(umbra_object_place(pool, owner, &offset, NULL));
    return arena + offset;
}

static void make(const struct umbra_object_class *classes, size_t count, uint32_t owners)
{
    struct umbra_object_pool_options options;
    uint64_t bytes;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.classes = classes;
    options.class_count = count;
    options.owners = owners;
    must(umbra_object_pool_create(&options, &pool));
    must(umbra_object_pool_arena(pool, &bytes));
    arena = malloc((size_t)bytes);
    CHECK(arena != NULL);
}

static void end(void)
{
    must(umbra_object_pool_destroy(pool));
    CHECK(umbra_object_pool_destroy(pool) == -UMBRA_ESTALE);
    free(arena);
}

/* Sends a handle as the bytes that it is, and receives it. */
static struct umbra_weak over_a_wire(umbra_channel channel, struct umbra_weak weak)
{
    struct umbra_weak came;
    size_t length = 0;
    must(umbra_channel_send(channel, &weak, sizeof weak, 0, UMBRA_WAIT_IDLE, 1000));
    must(umbra_channel_receive(channel, &came, sizeof came, UMBRA_WAIT_IDLE, 1000, &length, NULL));
    CHECK(length == 8);
    return came;
}

static void round_trip(void)
{
    const struct umbra_object_class classes[2] = {{1024, 2}, {4096, 1}};
    struct umbra_channel_options options;
    struct umbra_object_pool_statistics statistics;
    struct umbra_weak weak, came;
    umbra_channel channel;
    umbra_owner owner, in_flight, upgraded, next;
    uint64_t offset;
    uint32_t length;
    int last;

    doing = "round trip";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    must(umbra_channel_create(&options, &channel));
    make(classes, 2, 0);
    must(umbra_object_get(pool, 1000, &owner));
    must(umbra_object_place(pool, owner, &offset, &length));
    CHECK(offset == 0 && length == 1024);
    memset(bytes_of(owner), 7, length);
    must(umbra_object_weak(pool, owner, &weak));
    came = over_a_wire(channel, weak);
    CHECK(memcmp(&came, &weak, sizeof weak) == 0 && is_valid(came));
    must(umbra_object_upgrade(pool, came, &upgraded));
    CHECK(upgraded != owner && bytes_of(upgraded) == bytes_of(owner));

    doing = "owners";
    must(umbra_object_share(pool, owner, &in_flight));
    statistics = told();
    CHECK(statistics.live == 1 && statistics.owners == 3 && statistics.bytes == 1024 && statistics.free == 2);
    must(umbra_object_drop(pool, owner, &last));
    CHECK(last == 0);
    /* A second time takes nothing from the others. */
    CHECK(umbra_object_drop(pool, owner, &last) == -UMBRA_ESTALE);
    CHECK(umbra_object_share(pool, owner, &next) == -UMBRA_ESTALE);
    CHECK(umbra_object_place(pool, owner, &offset, &length) == -UMBRA_ESTALE);
    CHECK(umbra_object_weak(pool, owner, &weak) == -UMBRA_ESTALE);
    must(umbra_object_drop(pool, upgraded, NULL));
    CHECK(is_valid(came) && bytes_of(in_flight)[1023] == 7);
    CHECK(umbra_object_pool_destroy(pool) == -UMBRA_EINUSE);
    must(umbra_object_drop(pool, in_flight, &last));
    CHECK(last == 1);

    doing = "stale handles";
    came = over_a_wire(channel, came);
    CHECK(!is_valid(came) && umbra_object_upgrade(pool, came, &upgraded) == -UMBRA_ESTALE);
    must(umbra_object_get(pool, 1000, &next));
    must(umbra_object_weak(pool, next, &weak));
    CHECK(weak.index == came.index && weak.generation != came.generation);
    CHECK(is_valid(weak) && !is_valid(came) && umbra_object_upgrade(pool, came, &upgraded) == -UMBRA_ESTALE);
    must(umbra_object_drop(pool, next, NULL));
    must(umbra_channel_destroy(channel));
    must(umbra_channel_detach(channel));
    end();
}

static void garbage(void)
{
    const struct umbra_object_class classes[2] = {{8, 4}, {16, 4}};
    const struct umbra_weak ends[3] = {{0, 0}, {UINT32_MAX, UINT32_MAX}, {8, 1}};
    struct umbra_weak known[3], weak;
    umbra_owner owners[3], other;
    uint64_t random = 88172645463325252u, made_up;
    int at, bit, last;

    doing = "garbage";
    make(classes, 2, 0);
    for (at = 0; at < 3; at++) {
        must(umbra_object_get(pool, 8, &owners[at]));
        must(umbra_object_weak(pool, owners[at], &known[at]));
        CHECK(umbra_object_upgrade(pool, ends[at], &other) == -UMBRA_ESTALE);
    }
    for (at = 0; at < 20000; at++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        /* Nothing but the numbers that were handed out, with small ones and small changes among them. */
        made_up = at % 3 == 0 ? random : at % 3 == 1 ? (random & 0xf0000000f) : owners[random % 3] ^ (1ull << (random >> 58));
        if (made_up == owners[0] || made_up == owners[1] || made_up == owners[2])
            continue;
        CHECK(umbra_object_drop(pool, made_up, &last) == -UMBRA_ESTALE);
        CHECK(umbra_object_share(pool, made_up, &other) == -UMBRA_ESTALE);
    }
    for (at = 0; at < 3; at++) {
        for (bit = 0; bit < 64; bit++) {
            weak = known[at];
            if (bit < 32)
                weak.index ^= 1u << bit;
            else
                weak.generation ^= 1u << (bit - 32);
            if (memcmp(&weak, &known[0], 8) == 0 || memcmp(&weak, &known[1], 8) == 0 || memcmp(&weak, &known[2], 8) == 0)
                continue;
            CHECK(!is_valid(weak) && umbra_object_upgrade(pool, weak, &other) == -UMBRA_ESTALE);
        }
    }
    for (at = 0; at < 3; at++) {
        CHECK(is_valid(known[at]));
        must(umbra_object_drop(pool, owners[at], &last));
        CHECK(last == 1);
    }
    CHECK(umbra_object_get(0, 8, &other) == -UMBRA_ESTALE);
    CHECK(umbra_object_get(pool, 8, NULL) == -UMBRA_EINVAL && umbra_object_share(pool, 1, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_cache_destroy(pool) == -UMBRA_EKIND && told().live == 0 && told().owners == 0);
    end();
}

struct given {
    uint64_t bytes;
    int calls;
};

/* What a program would do with madvise. */
static void give_back(void *context, uint64_t offset, uint32_t length)
{
    struct given *given = context;
    umbra_owner owner;
    memset(arena + offset, 0, length);
    given->bytes += length;
    given->calls++;
    CHECK(umbra_object_get(pool, 1, &owner) == -UMBRA_EBUSY && umbra_object_pool_reset(pool) == -UMBRA_EBUSY);
}

static void limits(void)
{
    const struct umbra_object_class classes[2] = {{64, 2}, {128, 1}}, wrong[2] = {{64, 1}, {64, 1}};
    const struct umbra_object_class many[2] = {{8, UINT32_MAX}, {16, UINT32_MAX}}, none = {0, 1};
    struct umbra_object_pool_options options;
    struct umbra_weak old;
    struct given given = {0, 0};
    umbra_owner owners[3], more;
    umbra_object_pool other;
    uint64_t bytes = 0;
    uint32_t size;

    doing = "limits";
    memset(&options, 0, sizeof options);
    CHECK(umbra_object_pool_create(&options, &other) == -UMBRA_ESTRUCT);
    options.size = sizeof options;
    options.class_count = 2;
    CHECK(umbra_object_pool_create(&options, &other) == -UMBRA_EINVAL);
    options.classes = wrong;
    CHECK(umbra_object_pool_create(&options, &other) == -UMBRA_EINVAL);
    options.classes = many;
    CHECK(umbra_object_pool_create(&options, &other) == -UMBRA_EINVAL);
    options.classes = &none;
    options.class_count = 1;
    CHECK(umbra_object_pool_create(&options, &other) == -UMBRA_EINVAL);
    options.classes = classes;
    CHECK(umbra_object_pool_create(&options, NULL) == -UMBRA_EINVAL);
    must(umbra_object_class_for(65, &size));
    CHECK(size == 80 && umbra_object_class_for(UINT32_MAX, &size) == -UMBRA_ENEVER && size == 80);

    make(classes, 2, 4);
    must(umbra_object_get(pool, 64, &owners[0]));
    must(umbra_object_get(pool, 64, &owners[1]));
    /* A larger one helps out. */
    must(umbra_object_get(pool, 64, &owners[2]));
    CHECK(umbra_object_get(pool, 1, &more) == -UMBRA_EFULL && umbra_object_get(pool, 129, &more) == -UMBRA_ENEVER);
    CHECK(told().failures == 2 && told().high_water == 3 && told().bytes == 256);
    must(umbra_object_share(pool, owners[0], &more));
    CHECK(umbra_object_share(pool, owners[0], &more) == -UMBRA_EFULL && told().owners == 4);
    must(umbra_object_drop(pool, more, NULL));
    must(umbra_object_drop(pool, owners[1], NULL));
    must(umbra_object_get(pool, 64, &owners[1]));

    doing = "trim";
    must(umbra_object_drop(pool, owners[2], NULL));
    CHECK(umbra_object_pool_trim(pool, NULL, NULL, NULL) == -UMBRA_EINVAL);
    must(umbra_object_pool_trim(pool, give_back, &given, &bytes));
    CHECK(bytes == 128 && given.bytes == 128 && given.calls == 1);

    doing = "epochs";
    must(umbra_object_weak(pool, owners[0], &old));
    must(umbra_object_pool_reset(pool));
    CHECK(!is_valid(old) && umbra_object_drop(pool, owners[0], NULL) == -UMBRA_ESTALE);
    CHECK(told().live == 0 && told().owners == 0 && told().free == 3);
    must(umbra_object_get(pool, 64, &more));
    CHECK(more != owners[0] && !is_valid(old) && umbra_object_drop(pool, owners[0], NULL) == -UMBRA_ESTALE);
    must(umbra_object_drop(pool, more, NULL));
    end();
}

/* The last handle that a thread has put up for the others. */
static struct umbra_weak shown;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Writes its number into objects of its own, while others become owners of them and go. */
static void *work(void *number)
{
    unsigned char mine = *(unsigned char *)number;
    int round;
    for (round = 0; round < ROUNDS; round++) {
        struct umbra_weak weak;
        umbra_owner owner, other, guest;
        int code = umbra_object_get(pool, 32, &owner);
        if (code == -UMBRA_EFULL)
            continue;
        must(code);
        memset(bytes_of(owner), mine, 32);
        must(umbra_object_weak(pool, owner, &weak));
        CHECK(pthread_mutex_lock(&lock) == 0);
        {
            struct umbra_weak before = shown;
            shown = weak;
            weak = before;
        }
        CHECK(pthread_mutex_unlock(&lock) == 0);
        if (umbra_object_upgrade(pool, weak, &guest) == 0) {
            /* Whose object it is has written all of it, and nobody else. */
            const unsigned char *theirs = bytes_of(guest);
            CHECK(theirs[0] == theirs[31]);
            must(umbra_object_drop(pool, guest, NULL));
        }
        must(umbra_object_share(pool, owner, &other));
        must(umbra_object_drop(pool, owner, NULL));
        CHECK(umbra_object_drop(pool, owner, NULL) == -UMBRA_ESTALE);
        CHECK(bytes_of(other)[0] == mine && bytes_of(other)[31] == mine);
        must(umbra_object_drop(pool, other, NULL));
    }
    return NULL;
}

static void threads(void)
{
    const struct umbra_object_class classes[1] = {{32, THREADS + 1}};
    pthread_t running[THREADS];
    unsigned char numbers[THREADS];
    int at;

    doing = "threads";
    make(classes, 1, 0);
    for (at = 0; at < THREADS; at++) {
        numbers[at] = (unsigned char)(at + 1);
        CHECK(pthread_create(&running[at], NULL, work, &numbers[at]) == 0);
    }
    for (at = 0; at < THREADS; at++)
        CHECK(pthread_join(running[at], NULL) == 0);
    CHECK(told().live == 0 && told().owners == 0 && told().free == THREADS + 1);
    CHECK(told().high_water >= 1 && told().high_water <= THREADS + 1);
    end();
}

int main(void)
{
    round_trip();
    garbage();
    limits();
    threads();
    return 0;
}
