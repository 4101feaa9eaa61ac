/* A rank that keeps what it reads of another rank's memory in a slot cache: threads ask the cache for blocks, and whoever finds a slot
 * empty reads the block into it.
 *
 * usage: loads CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS
 *
 * Every rank of the job runs this program. It checks what it is told and exits with 0 only if all of it is right. Ranks hand each
 * other tickets as files beside the sockets; a real program sends them with its own messages.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "umbra.h"

#define PATIENCE_MS 60000
#define BLOCK 4096
#define BLOCKS 64
#define SLOTS 8
#define THREADS 3

static umbra_session session;
static umbra_cache cache;
static struct umbra_ticket ticket;
static unsigned char slots[SLOTS][BLOCK];

static unsigned char byte_of(uint32_t rank, uint32_t round, uint64_t block)
{
    return (unsigned char)(block * 37 + rank * 5 + round * 101);
}

/* Takes a reference to a block in its slot, and loads it if nobody has. */
static int take(uint64_t block, uint32_t *slot)
{
    uint32_t found;
    int code;
    for (;;) {
        code = umbra_cache_alloc(cache, block, PATIENCE_MS, slot, &found);
        if (code != 0 || found == UMBRA_FOUND_REMEMBERED)
            return code;
        if (found == UMBRA_FOUND_EMPTY) {
            code = umbra_session_read(session, &ticket, block * BLOCK, slots[*slot], BLOCK);
            must(code == 0 ? umbra_cache_remember(cache, block) : umbra_cache_abandon(cache, block));
        } else {
            code = umbra_cache_wait_filled(cache, block, PATIENCE_MS);
        }
        if (code == 0)
            return 0;
        must(umbra_cache_free(cache, block));
        /* Whoever filled it gave up: the next one may have more luck. */
        if (code != -UMBRA_EABANDONED)
            return code;
    }
}

struct reader {
    pthread_t thread;
    uint64_t first;
    uint32_t owner, round;
};

static void *reads(void *given)
{
    const struct reader *reader = given;
    uint64_t n, block;
    uint32_t slot, at;
    for (n = 0; n < 2 * BLOCKS; n++) {
        block = (n + reader->first) % BLOCKS;
        must(take(block, &slot));
        for (at = 0; at < BLOCK; at++)
            CHECK(slots[slot][at] == byte_of(reader->owner, reader->round, block));
        must(umbra_cache_free(cache, block));
    }
    return NULL;
}

static void read_all(uint32_t owner, uint32_t round)
{
    struct reader readers[THREADS];
    uint32_t i;
    for (i = 0; i < THREADS; i++) {
        readers[i].first = i;
        readers[i].owner = owner;
        readers[i].round = round;
        CHECK(pthread_create(&readers[i].thread, NULL, reads, &readers[i]) == 0);
    }
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(readers[i].thread, NULL) == 0);
}

/* Returns when all ranks have come here. */
static void meet(uint32_t id, uint32_t size)
{
    uint32_t *everybody = malloc(size * sizeof *everybody), i;
    umbra_group all;
    CHECK(everybody != NULL);
    for (i = 0; i < size; i++)
        everybody[i] = i;
    must(umbra_group_create(session, id, everybody, size, &all));
    must(umbra_group_free(all));
    free(everybody);
}

static void export(umbra_region region, unsigned char *memory, const char *directory, uint32_t rank, uint32_t round)
{
    struct umbra_ticket mine;
    uint64_t block;
    for (block = 0; block < BLOCKS; block++)
        memset(memory + block * BLOCK, byte_of(rank, round, block), BLOCK);
    must(umbra_region_export(region, NULL));
    must(umbra_region_ticket(region, &mine));
    pass_ticket(directory, rank, "wb", &mine);
}

int main(int argc, char **argv)
{
    struct umbra_join_options options = seat_of(argc, argv);
    struct umbra_cache_options plan;
    struct umbra_cache_statistics told;
    uint32_t size = options.world_size, owner = (options.rank + options.local_size) % size, slot, kept = 0;
    umbra_region region;
    uint64_t block;
    char name[512];
    void *memory;
    int code;

    doing = "join";
    must(umbra_session_join(&options, &session));
    must(umbra_region_allocate(session, BLOCKS * BLOCK, &memory, &region));
    export(region, memory, argv[3], options.rank, 0);
    meet(1, size);
    pass_ticket(argv[3], owner, "rb", &ticket);

    doing = "load";
    memset(&plan, 0, sizeof plan);
    plan.size = sizeof plan;
    plan.contract = UMBRA_CACHE_FORGETFUL;
    plan.slots = SLOTS;
    plan.ids = BLOCKS;
    must(umbra_cache_create(&plan, &cache));
    read_all(owner, 0);
    told.size = sizeof told;
    must(umbra_cache_statistics(cache, &told));
    CHECK(told.loads >= BLOCKS && told.hits + told.joins + told.loads == THREADS * 2 * BLOCKS);
    meet(2, size);

    doing = "load what was taken back";
    must(umbra_region_revoke(region));
    meet(3, size);
    for (block = 0; block < BLOCKS; block++) {
        code = take(block, &slot);
        if (code != 0) {
            CHECK(code == -UMBRA_EREVOKED || code == -UMBRA_EKEY);
            continue;
        }
        CHECK(slots[slot][0] == byte_of(owner, 0, block));
        must(umbra_cache_free(cache, block));
        kept++;
    }
    /* What was loaded is this rank's; the first load that failed took the slot of some of it, and left it to the others. */
    CHECK(kept == SLOTS || kept == SLOTS - 1);

    doing = "load what was exported again";
    export(region, memory, argv[3], options.rank, 1);
    meet(4, size);
    pass_ticket(argv[3], owner, "rb", &ticket);
    for (block = 0; block < BLOCKS; block++)
        must(umbra_cache_forget(cache, block, NULL));
    read_all(owner, 1);
    meet(5, size);

    doing = "leave";
    must(umbra_cache_destroy(cache));
    snprintf(name, sizeof name, "%s/ticket.%u", argv[3], (unsigned)options.rank);
    CHECK(remove(name) == 0);
    must(umbra_region_free(region));
    must(umbra_session_leave(session));
    printf("rank %u: all is right\n", (unsigned)options.rank);
    return 0;
}
