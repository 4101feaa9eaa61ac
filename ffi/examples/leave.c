/* A rank that looks up who is where while a thread of it sleeps, and leaves its job while threads of it read what it has exported:
 * each of their reads has all of the bytes, or is told that the session is over.
 *
 * usage: leave CONFIG SECRET SOCKETS RANK RANKS_PER_HOST HOSTS
 *
 * Every rank of the job runs this program. It exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "umbra.h"

#define THREADS 2
#define BYTES ((size_t)32 << 20)
#define READS 3

struct reader {
    pthread_t thread;
    umbra_region region;
    unsigned char *buffer;
    pthread_mutex_t lock;
    int reads, code, is_wrong;
};

/* Reads until it fails. */
static void *reads_on(void *given)
{
    struct reader *reader = given;
    int code;
    while ((code = umbra_region_read(reader->region, 0, reader->buffer, BYTES)) == 0) {
        pthread_mutex_lock(&reader->lock);
        reader->reads++;
        reader->is_wrong |= reader->buffer[0] != 7 || reader->buffer[BYTES - 1] != 7;
        pthread_mutex_unlock(&reader->lock);
        memset(reader->buffer, 0, BYTES);
    }
    reader->code = code;
    return NULL;
}

static int reads_of(struct reader *reader)
{
    int reads;
    pthread_mutex_lock(&reader->lock);
    reads = reader->reads;
    pthread_mutex_unlock(&reader->lock);
    return reads;
}

struct sleeper {
    pthread_t thread;
    umbra_session session;
    int ends[2];
    int ended;
};

static void *sleeps(void *given)
{
    struct sleeper *sleeper = given;
    must(umbra_session_sleep(sleeper->session, sleeper->ends[0], &sleeper->ended));
    return NULL;
}

/* Nobody wakes the thread before all was looked up. */
static void look_up_beside_a_sleeper(umbra_session session, uint32_t rank)
{
    const struct timespec a_while = {0, 1000000};
    struct sleeper sleeper = {.session = session, .ended = 77};
    umbra_group world;
    uint32_t process, service_process;
    int i;
    CHECK(pipe(sleeper.ends) == 0);
    must(umbra_session_world(session, &world));
    CHECK(pthread_create(&sleeper.thread, NULL, sleeps, &sleeper) == 0);
    for (i = 0; i < 100; i++) {
        must(umbra_group_lookup(world, rank, &process, &service_process));
        CHECK(process == rank);
        nanosleep(&a_while, NULL);
    }
    CHECK(write(sleeper.ends[1], "x", 1) == 1);
    CHECK(pthread_join(sleeper.thread, NULL) == 0 && sleeper.ended == 0);
    CHECK(close(sleeper.ends[0]) == 0 && close(sleeper.ends[1]) == 0);
    must(umbra_group_free(world));
}

int main(int argc, char **argv)
{
    struct umbra_join_options options = seat_of(argc, argv);
    struct reader readers[THREADS];
    umbra_session session;
    umbra_region region;
    void *memory;
    int i;

    doing = "join";
    must(umbra_session_join(&options, &session));

    doing = "export";
    must(umbra_region_allocate(session, BYTES, &memory, &region));
    memset(memory, 7, BYTES);
    must(umbra_region_export(region, NULL));

    doing = "look up";
    look_up_beside_a_sleeper(session, options.rank);

    doing = "read";
    for (i = 0; i < THREADS; i++) {
        memset(&readers[i], 0, sizeof readers[i]);
        readers[i].region = region;
        CHECK((readers[i].buffer = malloc(BYTES)) != NULL);
        CHECK(pthread_mutex_init(&readers[i].lock, NULL) == 0);
        CHECK(pthread_create(&readers[i].thread, NULL, reads_on, &readers[i]) == 0);
    }
    for (i = 0; i < THREADS; i++)
        while (reads_of(&readers[i]) < READS)
            sched_yield();

    doing = "leave";
    must(umbra_session_leave(session));
    for (i = 0; i < THREADS; i++) {
        CHECK(pthread_join(readers[i].thread, NULL) == 0);
        CHECK(readers[i].code == -UMBRA_ESTALE && !readers[i].is_wrong);
        free(readers[i].buffer);
    }
    must(umbra_region_free(region));
    printf("rank %u: all is right\n", (unsigned)options.rank);
    return 0;
}
